"""Calling a program's own function so that it can harm nobody: it may block, hang, raise.

Owns the task or thread of one call. Must not know what is asked.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)

_Argument = TypeVar("_Argument")
_Value = TypeVar("_Value")

END_OF_CALLBACK_SECONDS: Final = 0.5
"""Seconds in which a cancelled callback ends, or the reply goes out without it."""


class CallbackFailed(NamedTuple):
    """A call that gave no answer; ``reason`` is one sentence."""

    reason: str


async def answer_of(
    callback: Callable[[_Argument], Awaitable[_Value] | _Value],
    argument: _Argument,
    seconds: float | None,
) -> _Value | CallbackFailed:
    """Call the callback; return its value within ``seconds`` (None: no limit), never raise its
    exception.

    A coroutine function runs on this loop, anything else in a thread of its own. Cancelling this
    cancels the callback, and is never held up by one that does not end.
    """
    call: Coroutine[Any, Any, _Value] = called(callback, argument)
    task = asyncio.get_running_loop().create_task(call, name="a callback")
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            return CallbackFailed(f"the callback gave no answer within {seconds:g} s")
    finally:
        if not await end_task(task, END_OF_CALLBACK_SECONDS):
            logger.warning("a callback that was cancelled does not end; it is left")
    if task.cancelled():
        return CallbackFailed("the callback was cancelled")
    error = task.exception()
    if error is not None:
        logger.warning("a callback failed", exc_info=error)
        return CallbackFailed(f"the callback failed with {type(error).__name__}: {error}")
    return task.result()


async def end_task(task: asyncio.Task[Any], seconds: float) -> bool:
    """Cancel the task unless it is done, and wait for it; return whether it has ended."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
    return task.done()


def as_async(function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return the function itself if it is async, else one that runs it in a thread."""
    if is_async(function):
        return function

    async def run(argument: object) -> Any:
        return await called(function, argument)

    return run


async def called(callback: Callable[[Any], Any], argument: object) -> Any:
    """Call a function, async or sync (in a thread of its own), and await what it returns."""
    result = callback(argument) if is_async(callback) else await _in_thread(callback, argument)
    return await result if inspect.isawaitable(result) else result


def is_async(callback: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await: a coroutine function, or an object with one."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        type(callback).__call__
    )


async def _in_thread(callback: Callable[[Any], Any], argument: object) -> Any:
    """Call it in a daemon thread: one that waits for ever must not keep the program alive."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = callback(argument)
        except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        with suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(settle, value, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="a callback", daemon=True).start()
    value, error = await outcome
    if error is not None:
        raise error
    return value
