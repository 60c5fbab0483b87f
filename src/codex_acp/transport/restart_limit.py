"""When a process that keeps ending is not started again: so many times in a span of time.

Time is handed in. Must not know what is started, or why it ended.
"""

from __future__ import annotations

from collections import deque

from codex_acp._record import record


@record(frozen=True)
class RestartLimit:
    """``count`` unexpected ends within ``seconds`` are the most; then starting is refused."""

    count: int = 3
    seconds: float = 60.0


class Restarts:
    """Restarts that count towards the limit; times are seconds of a monotonic clock."""

    def __init__(self, limit: RestartLimit = RestartLimit()) -> None:  # noqa: B008 - frozen
        self.limit = limit
        self._times: deque[float] = deque(maxlen=limit.count)

    def add(self, now: float) -> None:
        """It was started, or has ended: whichever the user of this counts."""
        self._times.append(now)

    def seconds_to_wait(self, now: float) -> float:
        """How long it may not be started; 0 if it may."""
        if len(self._times) < self.limit.count:
            return 0.0
        return max(0.0, self._times[0] + self.limit.seconds - now)
