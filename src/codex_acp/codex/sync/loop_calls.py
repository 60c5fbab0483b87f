"""Waiting for coroutines that run on the event loop of another thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex.sync.loop_thread import LoopThread

_Value = TypeVar("_Value")


class LoopCalls:
    """The part of `Codex` that its threads and turns call through."""

    _loop: LoopThread | None = None

    def call(self, function: Callable[..., Awaitable[_Value]], /, *args: Any) -> _Value:
        """Run a coroutine function on the loop and wait: ``codex.call(codex.client.aclose)``.

        Raises what it raises, and MisuseError
        outside the ``with``. Ctrl-C cancels it, waits until that is done, and raises.
        """
        if self._loop is None:
            raise MisuseError("use the Codex in a with statement")
        return self._loop.call(partial(function, *args))
