"""A fleet: many tasks on an engine, each with one outcome.

Owns the life of a run: what is started, what stops it, and that everything is over when it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.errors import MisuseError
from codex_acp.fleet.driver import RunDriver
from codex_acp.fleet.engines.local import LocalEngine
from codex_acp.fleet.output import OutputCheck
from codex_acp.fleet.settings import FleetSettings, Retries
from codex_acp.fleet.task import Task, duplicates
from codex_acp.runtime import reject_all
from codex_acp.transport.shielding import finish, running_loop

if TYPE_CHECKING:
    import asyncio
    import os
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from codex_acp.fleet.engines import Engine
    from codex_acp.fleet.jobs import Event
    from codex_acp.fleet.outcome import Outcome
    from codex_acp.fleet.questions import FleetFormCallback, FleetPolicy, FleetUrlCallback
    from codex_acp.fleet.task import Task


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


TASK_SECONDS: Final = 3600.0
"""For one task that names no limit: one that hangs must not hold its slot for ever."""
deny_all: FleetPolicy = reject_all
"""The policy by default: nothing that an agent asks for is permitted."""


class Fleet:
    """Settings of a fleet; `map` runs one.

    * ``engine``: where tasks run; by default a `LocalEngine`.
    * ``out``: the directory for outcomes; None keeps them in memory alone. With ``resume`` one that
      was used before is gone on with: what has an outcome is not run again, unless it failed and
      ``retry_failed`` is set; the earlier outcome is kept below ``retried``.
    * ``concurrency``: tasks at once; by default what the engine thinks good.
    * ``permissions``, ``on_form``, ``on_url`` answer the questions of every task's agent, here. A
      question that waits holds no slot.
    * ``max_tokens`` and ``time_limit`` (seconds) are for all tasks together: when one is used up
      the fleet stops, running tasks included. ``task_time_limit`` is for each that names none.
    * ``retries``: how often an overloaded model, a lost agent or a lost worker is tried again.
    * ``on_event`` hears what happens to a task: its id, and a mapping with a ``type``.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        concurrency: int | None = None,
        permissions: FleetPolicy = deny_all,
        on_form: FleetFormCallback | None = None,
        on_url: FleetUrlCallback | None = None,
        max_tokens: int | None = None,
        time_limit: float | None = None,
        task_time_limit: float | None = TASK_SECONDS,
        retries: Retries | None = None,
        on_event: Callable[[str, Event], None] | None = None,
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise MisuseError("concurrency is at least 1")
        if resume and out is None:
            raise MisuseError("only a fleet with an output directory can be resumed")
        if retry_failed and not resume:
            raise MisuseError(
                "what failed is run again by a fleet that is resumed: add resume (--resume)"
            )
        self._settings = FleetSettings(
            engine=engine or LocalEngine(),
            out=out,
            resume=resume,
            retry_failed=retry_failed,
            concurrency=concurrency,
            permissions=permissions,
            on_form=on_form,
            on_url=on_url,
            max_tokens=max_tokens,
            time_limit=time_limit,
            task_time_limit=task_time_limit,
            retries=retries or Retries(),
            on_event=on_event,
        )

    def map(self, tasks: Iterable[Task]) -> FleetRun:
        """Run them; an async iterator of their outcomes, as they come.

        ::

            async with Fleet(out="results").map(tasks) as outcomes:
                async for outcome in outcomes:
                    print(outcome.id, outcome.status, outcome.text)

        Raises MisuseError for tasks that cannot be told apart.
        """
        return FleetRun(self._settings, tuple(tasks))
