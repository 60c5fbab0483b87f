"""An event loop whose clock jumps to the next timer: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

REAL_SECONDS = 0.002
"""For a thread to report before the clock jumps."""


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            return super().select(0.5)
        if timeout <= 0:
            return super().select(0)
        ready = super().select(min(timeout, REAL_SECONDS))
        if not ready:
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """One to run with ``run_until_complete``."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now
