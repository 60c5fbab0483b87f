"""How often a Codex that keeps ending is started again. A value with no clock of its own."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["MAX_STARTS", "WINDOW_SECONDS", "Restarts"]

MAX_STARTS: Final = 3
"""Starts within the window: two tries after a crash; what fails three times fails again."""

WINDOW_SECONDS: Final = 60.0
"""After this, an earlier start does not count any more."""


class Restarts:
    """The starts of one app-server, by the seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._starts: deque[float] = deque(maxlen=MAX_STARTS)

    def begun(self, now: float) -> None:
        """A process was started."""
        self._starts.append(now)

    def seconds_to_wait(self, now: float) -> float:
        """How long no other may be started; 0 if one may."""
        if len(self._starts) < MAX_STARTS:
            return 0.0
        return max(0.0, self._starts[0] + WINDOW_SECONDS - now)
