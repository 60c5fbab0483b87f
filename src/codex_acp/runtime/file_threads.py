"""Blocking calls in threads that nobody has to wait for: a disk may be slow, or gone.

Owns the threads, their number and their time. Must not know what is called.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

CALL_SECONDS: Final = 10.0
"""For one call, with the wait for its turn: a file of 10 MiB takes a hundredth of that."""

MAX_THREADS: Final = 4
"""At a time: an agent may ask for a thousand files at once, and each call may hang for ever."""


class FileThreads:
    """``seconds`` bound each call; a thread that is given up goes on unseen until it can end.

    ``drained`` is waited for before a call, in its turn: who does not take the answers that are
    there is given no further ones to be kept.
    """

    def __init__(
        self,
        seconds: float = CALL_SECONDS,
        count: int = MAX_THREADS,
        drained: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._seconds = seconds
        self._drained = drained
        self._slots = asyncio.Semaphore(count)

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Run ``work`` in a thread and return its value. It is handed a function to call as often
        as it can, which raises when nobody waits any more. Raises RpcError if it takes too long.
        """
        loop = asyncio.get_running_loop()
        given_up = threading.Event()
        done: asyncio.Future[T] = loop.create_future()

        def go_on() -> None:
            if given_up.is_set():
                raise RpcError(INTERNAL_ERROR, "nobody waits for it any more")

        def settle(result: T | None, error: Exception | None) -> None:
            self._slots.release()
            if done.done():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # None only with an error
            else:
                done.set_exception(error)

        def call() -> None:
            result, failure = None, None
            try:
                result = work(go_on)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                failure = error
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                return  # the loop is closed: nobody is left to tell

        try:
            with anyio.fail_after(self._seconds):
                await self._slots.acquire()
                await self._may_start()
                # A daemon: what hangs in it must not keep this program from ending.
                threading.Thread(target=call, name="acp file", daemon=True).start()
                return await done
        except TimeoutError:
            message = f"it took longer than {self._seconds:g} seconds and was given up"
            raise RpcError(INTERNAL_ERROR, message) from None
        finally:
            given_up.set()

    async def _may_start(self) -> None:
        """Gives the turn back if it may not: no thread does it then."""
        try:
            if self._drained is not None:
                await self._drained()
        except BaseException:
            self._slots.release()
            raise
