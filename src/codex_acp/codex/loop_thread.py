"""Run an event loop in a thread of its own, for code without async.

Ctrl-C cancels the call that the program waits for. anyio's portals can do this, too, but take
longer to import than Codex takes to start a thread.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from codex_acp.errors import ConnectionClosed, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

GIVE_UP_SECONDS = 10.0
"""Seconds that Ctrl-C waits for the cancelled call's clean-up; a turn's takes five at most."""


class LoopThread:
    """A running event loop. Its thread is a daemon: a program can end without `stop`."""

    def __init__(self, name: str) -> None:
        self._ready: Future[asyncio.AbstractEventLoop] = Future()
        self._stopped: asyncio.Event | None = None
        self._answers: set[Future[Any]] = set()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._loop = self._ready.result()

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine function on the loop and return its result. Safe for many threads.

        A KeyboardInterrupt cancels the coroutine, and is raised when its clean-up is done. Raises
        what the coroutine raises; ConnectionClosed if the loop is stopped during the call;
        MisuseError on the loop's own thread, which would wait for itself.
        """
        if threading.get_ident() == self._thread.ident:
            message = "this would wait for itself: it was called on the event loop; await instead"
            raise MisuseError(message)
        answer: Future[T] = Future()
        tasks: list[asyncio.Task[None]] = []

        def begin() -> None:
            if self._stopped is None or self._stopped.is_set():
                answer.cancel()  # nobody would cancel a task that begins now
                return
            # The task runs in the caller's context, which `call_soon_threadsafe` has copied.
            tasks.append(asyncio.get_running_loop().create_task(_settle(answer, function)))
            # If `_settle` is cancelled, or never begins, nothing else would end the answer.
            tasks[0].add_done_callback(lambda _: answer.cancel())

        self._answers.add(answer)
        try:
            self._schedule(begin)
            return answer.result()
        except CancelledError:
            if not answer.cancelled():
                raise  # the function itself raised this error
            raise ConnectionClosed("it was closed while this call waited") from None
        except BaseException:
            if not answer.done():
                self._schedule(lambda: [task.cancel() for task in tasks])
                with suppress(CancelledError, TimeoutError):
                    answer.exception(GIVE_UP_SECONDS)  # waits for the clean-up
            raise
        finally:
            self._answers.discard(answer)

    def stop(self) -> None:
        """Cancel the running calls and end the thread. Idempotent."""
        if self._stopped is not None:
            self._schedule(self._stopped.set)
        self._thread.join()

    def _schedule(self, function: Callable[[], object]) -> None:
        # When the loop has ended, `_cancel_calls` ends a call that came too late.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)
        if self._ended:
            self._cancel_calls()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            self._ended = True
            self._cancel_calls()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._stopped.wait()

    def _cancel_calls(self) -> None:
        for answer in list(self._answers):
            answer.cancel()


async def _settle(answer: Future[T], function: Callable[[], Awaitable[T]]) -> None:
    try:
        result = await function()
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        answer.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        answer.set_result(result)
