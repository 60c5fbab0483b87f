"""When to read from a peer: back-pressure that cannot lock up a call.

Owns the counting; whoever makes it gives it the two functions. Answers come on the same stream as
notifications: while somebody waits for one, reading goes on whoever asked to pause it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable


class ReadingGate:
    """Pauses reading while someone holds it and nobody waits: ``with gate:`` is around a wait."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holders: set[int] = set()
        self._waiting = 0
        self.paused: bool = False
        """Whether reading is paused now."""

    def hold(self, holder: object) -> None:
        """``holder`` cannot take more; again is fine."""
        self._holders.add(id(holder))
        self._update()

    def release(self, holder: object) -> None:
        """``holder`` can take more; without a `hold` it does nothing."""
        self._holders.discard(id(holder))
        self._update()

    def __enter__(self) -> None:
        """Somebody waits for an answer of the peer from now on."""
        self._waiting += 1
        if self._holders:
            self._update()

    def __exit__(self, *_: object) -> None:
        """They have it, or wait no more."""
        self._waiting -= 1
        if self._holders:
            self._update()

    def _update(self) -> None:
        paused = bool(self._holders) and not self._waiting
        if paused != self.paused:
            self.paused = paused
            (self._pause if paused else self._resume)()
