"""Run tasks that no request waits for."""

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

CANCEL_AGAIN_SECONDS: Final = 0.05
"""Seconds after which `SideTasks.aclose` cancels a task again that has not ended."""


class SideTasks:
    """The side tasks of one agent, which end with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, task: SideTask) -> None:
        """Start a task, unless `aclose` was called. The task must not raise: see `guarded`."""
        if self._closed:  # nobody would wait for the task
            task().close()
            return
        started = asyncio.get_running_loop().create_task(task())
        self._tasks.add(started)
        started.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Cancel all tasks and wait for their end, even if the caller is cancelled meanwhile."""
        from codex_acp.transport.shielding import finish  # loads anyio, which no start needs

        self._closed = True
        await finish(asyncio.get_running_loop().create_task(self._end()))

    async def _end(self) -> None:
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=CANCEL_AGAIN_SECONDS)


def guarded(spawn: Spawn) -> Spawn:
    """Return a ``spawn`` for tasks that may fail: it logs errors, which would end a task group."""

    def spawn_guarded(task: SideTask) -> object:
        async def run() -> None:
            try:
                await task()
            except CodexAcpError as error:
                logger.warning("a side task has failed: %s", error)
            except Exception:
                logger.exception("a side task has failed; the agent goes on")
            except asyncio.CancelledError:
                # Do not re-raise: a CancelledError that comes from inside the task (it awaited
                # a task that was cancelled elsewhere) would end the task group and the agent.
                return

        return spawn(run)

    return spawn_guarded
