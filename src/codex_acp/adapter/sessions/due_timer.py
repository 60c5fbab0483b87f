"""A timer for what has to wait until it may be sent."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class DueTimer:
    """``due`` says when (on the monotonic clock) ``flush`` is to be called; None: not yet."""

    def __init__(self, due: Callable[[], float | None], flush: Callable[[], None]) -> None:
        self._due = due
        self._flush = flush
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Something may have to wait from now on; again is fine."""
        at = None if self._timer is not None else self._due()
        if at is not None:
            delay = max(0.0, at - monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._now)

    def stop(self) -> None:
        """Nothing is sent any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._flush()
        self.set()
