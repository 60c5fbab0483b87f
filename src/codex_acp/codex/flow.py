"""When to read from the app-server: back-pressure that cannot lock up a call.

Owns the counting; whoever makes it gives it the two functions. Answers come on the same stream as
notifications: while a call waits for its answer, reading goes on whoever asked to pause it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ReadingGate"]


class ReadingGate:
    """Pauses reading while someone holds it and no call is in flight."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holders: set[int] = set()
        self._calls = 0
        self._paused = False

    @property
    def paused(self) -> bool:
        """Whether reading is paused now."""
        return self._paused

    def hold(self, holder: object) -> None:
        """``holder`` cannot take more; again is fine."""
        self._holders.add(id(holder))
        self._update()

    def release(self, holder: object) -> None:
        """``holder`` can take more; without a `hold` it does nothing."""
        self._holders.discard(id(holder))
        self._update()

    def call_begins(self) -> None:
        """A call waits for its answer from now on."""
        self._calls += 1
        self._update()

    def call_ended(self) -> None:
        """A call got its answer, or waits no more."""
        self._calls -= 1
        self._update()

    def _update(self) -> None:
        paused = bool(self._holders) and not self._calls
        if paused == self._paused:
            return
        self._paused = paused
        if paused:
            self._pause()
        else:
            self._resume()
