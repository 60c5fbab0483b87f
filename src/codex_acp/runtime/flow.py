"""When reading from an agent pauses: a program that takes its updates too slowly, and only that.

Owns the rule that nobody is kept waiting by it: while anyone waits for something of this agent,
be it an answer or an update, reading goes on. Must not know what is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["HIGH_WATER", "LOW_WATER", "Flow"]

HIGH_WATER: Final = 1024
"""Updates waiting in one prompt above which reading pauses."""

LOW_WATER: Final = 256
"""Updates at which it goes on."""


class Flow:
    """``with flow:`` is around each wait; `full` and `drained` report a queue."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._full: set[object] = set()
        self._waiting = 0
        self.paused = False
        """Whether nothing is read now."""

    def full(self, queue: object) -> None:
        """The queue is above the high water."""
        self._full.add(queue)
        self._look()

    def drained(self, queue: object) -> None:
        """The queue is at the low water, or will not be read any more."""
        self._full.discard(queue)
        self._look()

    def __enter__(self) -> None:
        self._waiting += 1
        self._look()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiting -= 1
        self._look()

    def _look(self) -> None:
        wanted = bool(self._full) and not self._waiting
        if wanted != self.paused:
            self.paused = wanted
            (self._pause if wanted else self._resume)()
