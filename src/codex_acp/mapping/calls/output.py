"""The output of a running tool call: its end as it grows, and all of it for the end.

What is sent while it runs stays linear in what came: each byte that comes earns `EARNED_PER_BYTE`
bytes that may be sent, on top of a first `FIRST_CREDIT`; an update costs what it holds and
`UPDATE_COST` for the message around it. So all updates together cost at most
``FIRST_CREDIT + EARNED_PER_BYTE * size``, also for output that only trickles: then a shorter end
of it is shown, or it is shown more rarely. Memory is bounded by twice `WHOLE_LIMIT`.

Pure: time is given. Must not know what is shown around the output.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from codex_acp._record import record

TAIL_LIMIT: Final = 64 * 1024
"""Bytes (UTF-8) of the end of the output that one update shows."""

SHORT_TAIL: Final = 2 * 1024
"""Bytes of it that an update shows at least, if there are as many: some 25 lines."""

WHOLE_LIMIT: Final = 1024 * 1024
"""Bytes of output that are shown at the end, and kept for it."""

INTERVAL: Final = 0.25
"""Seconds between two updates: more than four a second only make a client flicker."""

EARNED_PER_BYTE: Final = 8
"""Bytes that may be sent for each byte of output."""

FIRST_CREDIT: Final = 64 * 1024
"""Bytes that may be sent before: short output is then shown whole at every update."""

UPDATE_COST: Final = 512
"""Bytes that an update takes besides the output; the true size is about half of it."""

_PIECES_KEPT: Final = 1024
"""Pieces that are kept apart; then they are joined, so that tiny ones cost no more than others."""


@record
class Budget:
    """How much may be sent, and how often."""

    credit: int = FIRST_CREDIT
    sent_at: float | None = None

    def earn(self, size: int) -> None:
        """``size`` bytes came."""
        self.credit += EARNED_PER_BYTE * size

    def due_at(self, cost: int, now: float) -> float | None:
        """When an update of ``cost`` bytes may be sent; None: not before more came."""
        if self.credit < cost:
            return None
        return now if self.sent_at is None else self.sent_at + INTERVAL

    def spend(self, cost: int, now: float) -> None:
        """An update of ``cost`` bytes was sent."""
        self.credit -= cost
        self.sent_at = now


@record
class RollingOutput:
    """Output as it comes. Sizes are bytes of UTF-8."""

    size: int = 0
    """All that came."""
    budget: Budget = field(default_factory=Budget)
    waiting: bool = False
    """Whether something came that was not sent."""
    shown: bool = False
    """Whether any of it was sent."""
    _pieces: list[str] = field(default_factory=list)
    _kept: int = 0
    _characters: int = 0

    def add(self, text: str) -> None:
        """More output came."""
        size = size_of_text(text)
        self.size += size
        self._characters += len(text)
        self._kept += size
        self._pieces.append(text)
        self.budget.earn(size)
        self.waiting = True
        if self._kept > 2 * WHOLE_LIMIT or len(self._pieces) > _PIECES_KEPT:
            self._join()

    def due_at(self, now: float, around: int = 0) -> float | None:
        """When the end of the output wants to be sent; None: not before more came.

        ``around`` is the size of what is sent with it.
        """
        if not self.waiting:
            return None
        return self.budget.due_at(UPDATE_COST + around + min(self.size, SHORT_TAIL), now)

    def take(self, now: float, around: int = 0) -> str:
        """The end of the output, as long as may be sent now; it counts as sent."""
        limit = min(TAIL_LIMIT, self.budget.credit - UPDATE_COST - around)
        text = self._end(limit)
        self.budget.spend(UPDATE_COST + around + size_of_text(text), now)
        self.waiting = False
        self.shown = True
        return self._with_cut(text)

    def last(self) -> str:
        """The end of the output once more, outside of the budget: for one update only."""
        return self._with_cut(self._end(TAIL_LIMIT))

    def whole(self) -> str:
        """All of it, or as much of its end as is shown at all, with a word about the cut."""
        return self._with_cut(self._end(WHOLE_LIMIT))

    def _end(self, limit: int) -> str:
        found: list[str] = []
        size = 0
        for piece in reversed(self._pieces):
            found.append(piece)
            size += size_of_text(piece)
            if size > limit:
                break
        return _last_part("".join(reversed(found)), limit)

    def _with_cut(self, text: str) -> str:
        return _noted(text, self._characters - len(text))

    def _join(self) -> None:
        text = "".join(self._pieces)
        if self._kept > 2 * WHOLE_LIMIT:
            text = _last_part(text, WHOLE_LIMIT)
        self._kept = size_of_text(text)
        self._pieces = [text]


def whole_text(text: str) -> str:
    """Output that is known whole, cut to `WHOLE_LIMIT` as `RollingOutput.whole` does."""
    end = _last_part(text, WHOLE_LIMIT)
    return _noted(end, len(text) - len(end))


def _noted(text: str, cut: int) -> str:
    return f"[… {cut:,} earlier characters not shown]\n{text}" if cut else text


def size_of_text(text: str) -> int:
    """Bytes of it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _last_part(text: str, limit: int) -> str:
    """The end of ``text`` in ``limit`` bytes; from the beginning of a line if one is near."""
    if size_of_text(text) <= limit:
        return text
    raw = text[-limit:].encode("utf-8", "surrogatepass")[-limit:] if limit > 0 else b""
    end = raw.decode("utf-8", "ignore")
    line = end.find("\n") + 1
    return end[line:] if 0 < line <= len(end) // 2 else end
