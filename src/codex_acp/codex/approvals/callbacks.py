"""Call a program's own function safely: it may block, hang or raise.

Owns the task or thread of one call. Must not know the question that the function answers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from codex_acp.transport.shielding import awaited, in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

logger = logging.getLogger(__name__)

_Argument = TypeVar("_Argument")
_Value = TypeVar("_Value")

END_OF_CALLBACK_SECONDS: Final = 0.5
"""Seconds that a cancelled callback gets to end before the reply is sent without it."""


class CallbackFailed(NamedTuple):
    """A call that gave no answer; ``reason`` is one sentence."""

    reason: str


async def answer_of(
    callback: Callable[[_Argument], Awaitable[_Value] | _Value],
    argument: _Argument,
    seconds: float | None,
) -> _Value | CallbackFailed:
    """Call the callback, and return its value, or `CallbackFailed` if it raises or takes more than
    ``seconds`` (None: no limit).

    A coroutine function runs on this loop, any other function in a thread of its own. If this call
    is cancelled, the callback is cancelled, too, and gets `END_OF_CALLBACK_SECONDS` to end.
    """
    coroutine: Coroutine[Any, Any, _Value] = call(callback, argument)
    task = asyncio.get_running_loop().create_task(coroutine, name="a callback")
    task.add_done_callback(_log_failure)  # it may fail when nobody waits any more
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
        return CallbackFailed(f"the callback failed with {type(error).__name__}: {error}")
    return task.result()


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.warning("a callback failed", exc_info=task.exception())


async def end_task(task: asyncio.Task[Any], seconds: float) -> bool:
    """Cancel the task unless it is done, and wait for it; return whether it has ended."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
    return task.done()


def as_async(function: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """Return the function itself if it is async, else a function that runs it in a thread."""
    if is_async(function):
        return function

    async def run(argument: object) -> Any:
        return await call(function, argument)

    return run


async def call(callback: Callable[[Any], Any], argument: object) -> Any:
    """Call a function, async or sync (in a thread of its own), and await the result."""
    if is_async(callback):
        return await callback(argument)
    return await awaited(await in_worker_thread(lambda: callback(argument)))


def is_async(callback: Callable[..., Any]) -> bool:
    """Return whether ``callback`` is a coroutine function, or has an async ``__call__``."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        type(callback).__call__
    )
