"""Run an event loop in a thread of its own, for code without async.

If the caller of a call is interrupted (Ctrl-C), the call is cancelled. anyio's portals can do this,
too, but take longer to import than Codex takes to start a thread.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from codex_acp.errors import ConnectionClosed, MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

GIVE_UP_SECONDS = 10.0
"""Seconds that Ctrl-C waits for the clean-up of the cancelled call: a turn takes five at most."""


class LoopThread:
    """A running event loop. A program can end also if it forgets to `stop` the loop."""

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
        what the coroutine raises; ConnectionClosed if the loop is stopped meanwhile; MisuseError on
        the loop's own thread, which would wait for itself.
        """
        if threading.get_ident() == self._thread.ident:
            message = "this would wait for itself: it was called on the event loop; await instead"
            raise MisuseError(message)
        answer: Future[T] = Future()
        call = _Call(function, answer)
        self._answers.add(answer)
        try:
            self._do(lambda: self._begin(call))
            return answer.result()
        except CancelledError:
            if not answer.cancelled():
                raise
            raise ConnectionClosed("it was closed while this call waited") from None
        except BaseException:
            if not answer.done():
                self._do(call.cancel)
                with suppress(CancelledError, TimeoutError):
                    answer.exception(GIVE_UP_SECONDS)
            raise
        finally:
            self._answers.discard(answer)

    def stop(self) -> None:
        """Cancel the running calls and end the thread. Idempotent."""
        if self._stopped is not None:
            self._do(self._stopped.set)
        self._thread.join()

    def _do(self, function: Callable[[], object]) -> None:
        # After the end nothing runs any more: `_fail` ends a call that came too late.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)
        if self._ended:
            self._fail()

    def _begin(self, call: _Call[Any]) -> None:
        if self._stopped is None or self._stopped.is_set():
            call.answer.cancel()  # nobody would cancel a task that begins now
        else:
            call.begin()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)
        finally:
            self._ended = True
            self._fail()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._stopped.wait()

    def _fail(self) -> None:
        for answer in list(self._answers):
            answer.cancel()


class _Call(Generic[T]):
    """A call on the loop, with the context variables of its caller."""

    def __init__(self, function: Callable[[], Awaitable[T]], answer: Future[T]) -> None:
        self._function = function
        self.answer = answer
        self._context = copy_context()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the task of the call. Runs on the loop."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), context=self._context)
        # A task that is cancelled before it begins never enters `_run`.
        self._task.add_done_callback(lambda _: self.answer.cancel())

    def cancel(self) -> None:
        """Cancel the task, if it has begun. Runs on the loop."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            result = await self._function()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.answer.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.answer.set_result(result)
