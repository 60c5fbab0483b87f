"""When to ask Codex what became of a turn of which nothing is heard (contract 4.3).

Owns the timers only. What is asked, and what follows from the answer, is `Prompts`'; nothing is
ever concluded from silence alone.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LOST_SECONDS: Final = 2.0
"""After Codex has said that the thread is idle: the end of the turn comes in the same moment."""

SILENCE_SECONDS: Final = 60.0
"""Without any event: a model may think as long, so this only leads to a question to Codex."""


class TurnWatch:
    """One at a time; ``ask`` is called when it is time to ask Codex about the turn."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A turn begins."""
        self.heard()
        self._after(SILENCE_SECONDS)

    def end(self) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """Something came."""
        self._heard = monotonic()

    def expect_end(self) -> None:
        """The turn should have ended by now: ask soon, whatever is heard meanwhile."""
        if self._timer is not None:
            self._after(LOST_SECONDS, soon=True)

    def _after(self, delay: float, *, soon: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._due, soon)

    def _due(self, soon: bool) -> None:
        left = self._heard + SILENCE_SECONDS - monotonic()
        if soon or left <= 0:
            self._after(SILENCE_SECONDS)
            self._ask()
        else:
            self._after(left)
