"""When a process that keeps ending is not started again: so many times in a span of time.

Time is handed in. Must not know what is started, or why it ended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

__all__ = ["RestartLimit", "Restarts"]


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """``count`` unexpected ends within ``seconds`` are the most; then starting is refused."""

    count: int = 3
    seconds: float = 60.0


@dataclass(slots=True)
class Restarts:
    """What counts towards the limit; times are seconds of any clock that only goes forward."""

    limit: RestartLimit = field(default_factory=RestartLimit)
    _times: deque[float] = field(init=False)

    def __post_init__(self) -> None:
        self._times = deque(maxlen=self.limit.count)

    def add(self, now: float) -> None:
        """It was started, or has ended: whichever the user of this counts."""
        self._times.append(now)

    def seconds_to_wait(self, now: float) -> float:
        """How long it may not be started; 0 if it may."""
        if len(self._times) < self.limit.count:
            return 0.0
        return max(0.0, self._times[0] + self.limit.seconds - now)
