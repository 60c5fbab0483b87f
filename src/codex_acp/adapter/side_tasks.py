"""Runs tasks and threads beside the requests.

A task that fails is logged, and ends neither others nor the agent. A thread is made for each call
that reads files: anyio's are not imported for it, and the loop's own are waited for at the end of
the program.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from codex_acp.errors import CodexAcpError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    SideTask: TypeAlias = Callable[[], Coroutine[None, None, None]]
    Spawn: TypeAlias = Callable[[SideTask], object]

logger = logging.getLogger(__name__)
T = TypeVar("T")

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


async def in_thread(function: Callable[[], T]) -> T:
    """Run ``function`` in a thread; return its value or raise its error. Cancelled, it goes on
    unheard."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] # a result wherever there is no error

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=run, daemon=True).start()
    return await done
