"""A running fleet: the outcomes of its tasks as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.errors import MisuseError
from codex_acp.fleet.driver import RunDriver
from codex_acp.fleet.output import OutputCheck
from codex_acp.fleet.task import Task, duplicates
from codex_acp.transport.shielding import finish, running_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from typing import Self

    from codex_acp.fleet.outcome import Outcome
    from codex_acp.fleet.settings import FleetSettings


class FleetRun:
    """Made by `Fleet.map`; iterate over it once. To leave it early stops the fleet: at the end of
    an ``async with``, and in `aclose`, when this returns no agent is left.

    Outcomes of earlier runs come first, with ``earlier`` set. The iteration raises what stopped the
    fleet, if that is an error: a `FleetError`.
    """

    def __init__(self, settings: FleetSettings, tasks: Sequence[Task]) -> None:
        problems = duplicates(tasks)
        if problems:
            raise MisuseError("; ".join(problems))
        checks = {task.id: OutputCheck(task.output) for task in tasks if task.output is not None}
        self._driver = RunDriver(settings, tasks, checks)
        self._running: asyncio.Task[None] | None = None

    @property
    def stopped(self) -> str | None:
        """Why the fleet stopped before all tasks had an outcome: a budget, an error, or `stop`."""
        return self._driver.stopped

    @property
    def left(self) -> tuple[str, ...]:
        """The ids of tasks without an outcome."""
        return tuple(sorted(self._driver.left))

    def stop(self, reason: str = "it was stopped by the program") -> None:
        """End all that runs; the iteration ends when that is done."""
        self._driver.stop(reason)

    async def aclose(self) -> None:
        """Stop it if it runs, and wait for its end. Not cut short by cancellation."""
        if self._running is not None:
            if not self._driver.over:
                self._driver.stop("the program left the fleet")
            await finish(self._running)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome:
        self._begin()
        driver = self._driver
        while not driver.outcomes:
            if driver.over:
                if driver.error is not None:
                    raise driver.error.with_traceback(None)
                raise StopAsyncIteration
            driver.news.clear()
            await driver.news.wait()
        return driver.outcomes.popleft()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def _begin(self) -> None:
        if self._running is None:
            loop = running_loop()
            self._running = loop.create_task(self._driver.run(), name="fleet")
