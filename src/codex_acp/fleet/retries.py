"""How often a task is tried again, and after what time."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """At most ``attempts`` in one run; before the second ``seconds`` pass, then twice as many each
    time, at most ``longest``, and up to half of that more by chance.

    Only what may go better is tried again: an overloaded model, an agent or a worker that is gone.
    """

    attempts: int = 3
    seconds: float = 2.0
    longest: float = 120.0

    def pause(self, made: int) -> float:
        """Seconds to wait when ``made`` attempts were made."""
        wait = min(self.seconds * 2.0 ** (made - 1), self.longest)
        return wait * (1 + random.random() / 2)
