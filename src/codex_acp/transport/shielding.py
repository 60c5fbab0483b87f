"""Get and run the event loop, and wait for work that must outlast a cancellation.

When the wait is cancelled, `shielded` ends at once and the work continues; `finish` ends only when
the work does.
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
    """Return the event loop of asyncio. Raises MisuseError if none runs, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = "this needs asyncio: run the program with asyncio.run, or anyio's backend asyncio"
        raise MisuseError(msg) from None


async def shielded(work: asyncio.Future[T]) -> T:
    """Return or raise the outcome of ``work``. To cancel this wait does not cancel the work.

    Since Python 3.14, `asyncio.shield` would pass a later error of the work to the event loop's
    exception handler; here only the work's owner handles it.
    """
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        # Reads the error, so that asyncio does not log it.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    return work.result()


async def finish(task: asyncio.Task[T]) -> None:
    """Wait until ``task``, which ends in bounded time, is done; then raise its error, or the
    cancellation that came meanwhile. The scope keeps off anyio's cancellation, which repeats; the
    loop outlasts `asyncio.Task.cancel`."""
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
    """Run ``main`` with `asyncio.run`, on the main thread. First take back the wake-up descriptor
    of signals: `asyncio.run` closes it while a child's end may still make Python write to it, which
    would print an error."""

    async def run() -> T:
        try:
            return await main
        finally:
            signal.set_wakeup_fd(-1)

    return asyncio.run(run())
