"""Limit how often a process that keeps ending is started again.

The caller passes the time. Must not know what is started, or why it ended.
"""

from __future__ import annotations

from collections import deque

from codex_acp._record import record


@record(frozen=True)
class RestartLimit:
    """Allows at most ``count`` restarts within ``seconds``."""

    count: int = 3
    seconds: float = 60.0


class Restarts:
    """Remembers the last restarts; times are seconds of a monotonic clock."""

    def __init__(self, limit: RestartLimit = RestartLimit()) -> None:  # noqa: B008 - frozen
        self.limit = limit
        self._times: deque[float] = deque(maxlen=limit.count)

    def add(self, now: float) -> None:
        """Count one restart."""
        self._times.append(now)

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the process may be started; 0 if it may be started now."""
        if len(self._times) < self.limit.count:
            return 0.0
        return max(0.0, self._times[0] + self.limit.seconds - now)
