"""An event loop whose clock jumps to the next timer: an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from typing import Any

THREAD_SECONDS = 10.0
"""Real time that a thread has to report before the clock jumps all the same."""

LOOK_SECONDS = 0.002
"""Real time between two looks whether a thread still runs."""


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def __init__(self) -> None:
        super().__init__()
        self._others = set(threading.enumerate())

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            return super().select(0.5)
        if timeout <= 0:
            return super().select(0)
        deadline = time.monotonic() + THREAD_SECONDS
        while self._thread_runs() and time.monotonic() < deadline:
            if ready := super().select(LOOK_SECONDS):
                return ready
        ready = super().select(0)  # what has ended by now has reported
        if not ready:
            self.now += timeout
        return ready

    def _thread_runs(self) -> bool:
        """Return whether a thread runs that was started since this one was made."""
        return any(each not in self._others for each in threading.enumerate())


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """One to run with ``run_until_complete``."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now
