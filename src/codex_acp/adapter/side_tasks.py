"""Tasks beside the requests: one that fails is logged, and ends neither others nor the agent."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp.errors import CodexAcpError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    SideTask: TypeAlias = Callable[[], Coroutine[None, None, None]]
    Spawn: TypeAlias = Callable[[SideTask], object]

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 0.05
"""A task that does not heed that it is cancelled, is told so again after this."""


class SideTasks:
    """The side tasks of one agent, which end with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, task: SideTask) -> None:
        """Begin a task, or nothing once `aclose` has begun; a task may not fail, see `guarded`."""
        if self._closed:  # the end of Codex is handled behind it, and nobody would wait for a task
            task().close()
            return
        begun = asyncio.get_running_loop().create_task(task())
        self._tasks.add(begun)
        begun.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End all of them, whatever is cancelled meanwhile."""
        from codex_acp.transport.shielding import finish  # loads anyio, which no start needs

        self._closed = True
        await finish(asyncio.get_running_loop().create_task(self._end()))

    async def _end(self) -> None:
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=AGAIN_SECONDS)


def guarded(spawn: Spawn) -> Spawn:
    """``spawn`` for tasks that may fail: in a task group the first failure would end all.

    What a request needs of such a task is told to that request by whoever answers it.
    """

    def spawn_guarded(task: SideTask) -> object:
        async def run() -> None:
            try:
                await task()
            except CodexAcpError as error:
                logger.warning("what was done beside the requests failed: %s", error)
            except Exception:
                logger.exception("what was done beside the requests failed; the agent goes on")
            except asyncio.CancelledError:
                # The task ends here. Raised on, one that it made up (by awaiting what was
                # cancelled elsewhere) would end the task group, and with it the agent.
                return

        return spawn(run)

    return spawn_guarded
