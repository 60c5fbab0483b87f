"""When an agent that keeps ending is not started again: a count of its ends in a span of time.

Time is handed in. Must not know how an agent is started or why it ended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from codex_acp.runtime.errors import CrashLoop

__all__ = ["RestartLimit", "Restarts"]


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """``count`` unexpected ends within ``seconds`` are the most; then starting is refused."""

    count: int = 3
    seconds: float = 60.0


@dataclass(slots=True)
class Restarts:
    """The unexpected ends of one agent; times are seconds of any clock that only goes forward."""

    agent: str
    limit: RestartLimit = field(default_factory=RestartLimit)
    _ends: deque[tuple[float, Exception]] = field(default_factory=deque)

    def ended(self, now: float, why: Exception) -> None:
        """It ended, or failed to start, without having been asked to."""
        self._ends.append((now, why))
        while len(self._ends) > self.limit.count:
            self._ends.popleft()

    def check(self, now: float) -> None:
        """Raise CrashLoop if it may not be started now."""
        while self._ends and now - self._ends[0][0] >= self.limit.seconds:
            self._ends.popleft()
        if len(self._ends) >= self.limit.count:
            last = self._ends[-1][1]
            raise CrashLoop(self.agent, len(self._ends), self.limit.seconds, last)
