"""A transcript as rows of a terminal. Must not know where its lines come from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from codex_acp.cli.terminal import size_of, wants_colours
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from typing import TextIO

    from codex_acp.cli.transcript_view.lines import Line
    from codex_acp.cli.transcript_view.telling import Kind, Told, Tone
    from codex_acp.transcript.events import Entry

MAX_TEXT: Final = 2_000
"""Characters of a row in a pipe, where no terminal's width bounds it."""

WIDE: Final = 110
"""Columns from which a row has room for its session and its way."""

MAX_RAW: Final = 10_000
"""Characters that are looked at for a text of a row: what is longer would not be seen anyway."""

_NAMES: Final[dict[Kind, str]] = {
    "approval": "APPROVAL", "elicitation": "ELICITATION", "decline": "DECLINED",
    "prompt": "prompt", "session": "session", "wire": "wire",
}  # fmt: skip
_WIDTH: Final = max(map(len, _NAMES.values()))
_MARKS: Final[dict[Kind, str]] = {
    "approval": "\u2b22", "elicitation": "\u25d7", "decline": "\u2298",
    "prompt": "\u203a", "session": "\u25a1", "wire": "\u00b7",
}  # fmt: skip
_KIND_STYLES: Final[dict[Kind, str]] = {
    "approval": "1;33", "elicitation": "1;35", "decline": "1;31",
    "prompt": "34", "session": "2", "wire": "2",
}  # fmt: skip
_TONE_STYLES: Final[dict[Tone, str]] = {
    "open": "1", "good": "32", "bad": "31", "halted": "2", "plain": "0",
}  # fmt: skip
_PARTIES: Final = {"client": "client", "adapter": "adapter", "codex": "Codex"}


class Rows:
    """Writes one row for each event to ``out``, cut to its width where it is a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._styled = wants_colours(out)
        self._encoding = out.encoding or "utf-8"
        self._date = ""
        self._counts: Counter[str] = Counter()
        self.unread: int = 0
        """Lines that could not be read."""

    def event(self, entry: Entry, told: Told) -> None:
        """One row; before the first of a day, the day."""
        date, _, clock = entry.time.removesuffix("Z").partition("T")
        if date != self._date:
            self._date = date
            self._put(self._style(f"{date} (UTC)", "2"))
        name = _NAMES[told.kind]
        said_by_verb = told.verb.startswith(told.kind)  # declined
        self._counts[told.verb if said_by_verb else f"{told.kind} {told.verb}"] += 1
        kind = f"{self._encodable(_MARKS[told.kind])} {name:{_WIDTH}}"
        start = clock
        if self._columns() >= WIDE:
            owner = _short(entry.event.ref.session_id or entry.event.ref.thread_id)
            way = f"{_PARTIES[told.start]} > {_PARTIES[told.end]}"
            start = f"{clock}  {owner}  {way:16}"
        text = " ".join(part for part in (told.about, told.detail) if part)
        room = self._room(len(start) + 2 + len(kind) + 2 + 16)
        shown = self._cut(visible(text[:MAX_RAW]), room)
        self._put(
            f"{self._style(start, '2')}  "
            f"{self._style(kind, _KIND_STYLES[told.kind])}  "
            f"{self._style(f'{told.verb:14}', _TONE_STYLES[told.tone])}  {self._encodable(shown)}"
        )

    def unreadable(self, line: Line) -> None:
        """A line that is no event."""
        self.unread += 1
        text = f"? a line that cannot be read: {line.problem}: {line.text[:MAX_RAW]}"
        self._put(self._style(self._encodable(self._cut(visible(text), self._room(0))), "31"))

    def summary(self) -> str:
        """How many there were of each."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self._counts.items()))
        unread = f"; {self.unread} lines could not be read" if self.unread else ""
        return f"{sum(self._counts.values())} events: {counts or 'none'}{unread}"

    def _room(self, taken: int) -> int:
        """Columns for the text; a row of a terminal is one row."""
        return max(20, self._columns() - taken - 1)

    def _columns(self) -> int:
        return size_of(self._out).columns if self._out.isatty() else MAX_TEXT

    def _cut(self, text: str, room: int) -> str:
        return text if len(text) <= room else f"{text[: room - 1]}\u2026"

    def _encodable(self, text: str) -> str:
        return text.encode(self._encoding, "replace").decode(self._encoding)

    def _style(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._styled and style != "0" else text

    def _put(self, row: str) -> None:
        self._out.write(row.rstrip() + "\n")


def _short(owner: str | None) -> str:
    """The end of a session's id: ids of one day begin alike."""
    return f"{visible((owner or '-')[-8:]):8}"
