"""Get and run the event loop, and wait for work that must outlast a cancellation.

If the wait is cancelled, `shielded` and `in_worker_thread` end at once and the work continues;
`finish` ends only at the end of the work.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of asyncio. Raises MisuseError if none runs, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = "this needs asyncio: run the program with asyncio.run, or anyio's backend asyncio"
        raise MisuseError(msg) from None


async def awaited(answer: Awaitable[T] | T) -> T:
    """Return what a program's function answered, which may be async or not."""
    return await answer if isinstance(answer, Awaitable) else answer


async def shielded(work: asyncio.Future[T]) -> T:
    """Return or raise the outcome of ``work``. Cancelling this wait does not cancel the work.

    After a cancellation, only the work's owner handles an error of the work. Since Python 3.14,
    `asyncio.shield` would also pass the error to the event loop's exception handler.
    """
    try:
        await asyncio.wait((work,))
    except asyncio.CancelledError:
        # Read the error, so that asyncio does not log it.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    return work.result()


async def finish(task: asyncio.Task[T]) -> None:
    """Wait until ``task`` is done, which must end in bounded time; then raise its error, or the
    cancellation that came meanwhile."""
    from anyio import CancelScope

    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):  # against a cancellation by anyio, which would repeat
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:  # of `asyncio.Task.cancel`
                cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def in_worker_thread(function: Callable[[], T]) -> T:
    """Call a function that may block in a thread of its own, with this task's context.

    To import anyio for its threads would take start-up time, and at its end the program would wait
    for the event loop's own threads: this one is a daemon.
    """
    outcome: Future[tuple[T | None, BaseException | None]] = Future()
    outcome.set_running_or_notify_cancel()  # a caller that is cancelled cannot cancel it now

    def run() -> None:
        try:
            outcome.set_result((function(), None))
        except BaseException as raised:  # noqa: BLE001 - raised again below
            outcome.set_result((None, raised))  # no future takes each exception: StopIteration

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="a call", daemon=True).start()
    value, error = await asyncio.wrap_future(outcome)
    if error is not None:
        raise error
    return cast("T", value)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` with `asyncio.run`, on the main thread. At the end, unset the descriptor to
    which Python writes signals: `asyncio.run` closes it; a late SIGCHLD would print an error."""

    async def run() -> T:
        try:
            return await main
        finally:
            signal.set_wakeup_fd(-1)

    return asyncio.run(run())
