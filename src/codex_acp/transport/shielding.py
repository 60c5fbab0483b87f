"""The event loop that work runs on, and waits that outlast a cancellation.

`shielded` waits for work that goes on when the wait is cancelled, `finish` for work whose wait must
not end before it.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Coroutine


T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop. Raises MisuseError where none runs, below trio for one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = "this needs asyncio: run the program with asyncio.run, or anyio's backend asyncio"
        raise MisuseError(msg) from None


async def shielded(work: asyncio.Future[T]) -> T:
    """Return or raise the outcome of ``work``. Cancelling this wait changes nothing about the work.

    As `asyncio.shield`, which from Python 3.14 on hands an error of work that nobody waits for any
    more to the event loop's exception handler: here it is what the work's owner makes of it.
    """
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        work.add_done_callback(_heard)
        raise
    return work.result()


def _heard(work: asyncio.Future[T]) -> None:
    """The error has been read, so that asyncio does not log it."""
    if not work.cancelled():
        work.exception()


async def finish(task: asyncio.Task[T]) -> None:
    """Wait until ``task``, which is bounded in time, is done; then raise its error or the
    cancellation that came meanwhile. The scope holds off anyio's, which repeats, the loop
    `asyncio.Task.cancel`."""
    from anyio import CancelScope

    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` as ``asyncio.run`` does, on the main thread. That closes the wake-up socket
    before its handler is forgotten: a child that ended in between had an error written to
    stderr."""

    async def run() -> T:
        try:
            return await main
        finally:
            signal.set_wakeup_fd(-1)

    return asyncio.run(run())
