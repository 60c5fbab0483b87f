"""Keep the events of the turn that runs, and of the time without a client, within a bound.

Kept as events, so that each client gets them in its own version of ACP. Pieces of one message are
joined, and of a tool call's states that nobody has seen the last is kept. What does not fit is
dropped from the oldest on, and counted.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from codex_acp.mapping.events import (
    Notice,
    SessionEvent,
    TextChunk,
    ThoughtChunk,
    ToolCallAnnounced,
    ToolCallChanged,
    given,
)

MAX_SIZE: Final = 2 * 1024 * 1024
"""Characters of one session: some hundred pages of text, or the outputs of many commands."""

_CHUNKS: Final = (TextChunk, ThoughtChunk)


class _Entry:
    """An event, with the pieces of text behind it."""

    __slots__ = ("event", "pieces", "sent", "size", "turn")

    def __init__(self, event: SessionEvent, turn: object | None, *, sent: bool) -> None:
        self.event = event
        self.turn = turn
        self.sent = sent
        self.pieces: list[str] = []
        self.size = len(event.text) if isinstance(event, _CHUNKS) else len(repr(event))

    def takes(self, event: SessionEvent, turn: object | None, *, sent: bool) -> str | None:
        """The text of ``event`` if it can be joined to this one, else None."""
        mine = self.event
        if (
            isinstance(event, _CHUNKS)
            and isinstance(mine, _CHUNKS)
            and type(event) is type(mine)
            and event.message_id == mine.message_id
            and (turn, sent) == (self.turn, self.sent)
        ):
            return event.text
        return None

    @property
    def whole(self) -> SessionEvent:
        """The event with all of its text."""
        event = self.event
        if self.pieces and isinstance(event, _CHUNKS):
            return event._replace(text="".join([event.text, *self.pieces]))
        return event


class Journal:
    """The kept events of one session. ``turn`` is the same object as long as a turn runs."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._calls: dict[str, int] = {}
        """Tool call → the number of its newest change."""
        self._number = 0
        self._size = 0
        self.dropped: int = 0
        """Events that were not kept."""

    def add(self, event: SessionEvent, turn: object | None, *, sent: bool) -> None:
        """Keep an event; ``sent`` says whether somebody was there to hear of it."""
        last = next(reversed(self._entries.values()), None)
        text = None if last is None else last.takes(event, turn, sent=sent)
        if last is not None and text is not None:
            last.pieces.append(text)
            last.size += len(text)
            self._size += len(text)
        else:
            self._append(_Entry(event, turn, sent=sent))
        while self._size > self._max_size and self._entries:
            self._drop_oldest()

    def clear(self) -> None:
        """Nothing runs, and all was heard."""
        self._entries.clear()
        self._calls.clear()
        self._size = self.dropped = 0

    @property
    def end(self) -> int:
        """Where it ends now, for `since`."""
        return self._number

    def since(self, end: int, turn: object | None) -> list[SessionEvent]:
        """All of a turn, and what came behind an earlier `end`."""
        return [
            entry.whole
            for number, entry in self._entries.items()
            if number >= end or (turn is not None and entry.turn == turn)
        ]

    def unheard_notices(self) -> list[SessionEvent]:
        """Return the notices that no client has had, which no history contains."""
        return [
            entry.whole
            for entry in self._entries.values()
            if not entry.sent and isinstance(entry.event, Notice)
        ]

    def unheard(self, turn: object | None) -> list[SessionEvent]:
        """Return the events that no client has had, and the tool calls of the turn that runs."""
        return [
            entry.whole
            for entry in self._entries.values()
            if not entry.sent or (turn is not None and entry.turn == turn and _is_call(entry.event))
        ]

    def heard(self, turn: object | None) -> None:
        """Somebody has all of it now: only what runs is still kept."""
        for number, entry in list(self._entries.items()):
            entry.sent = True
            if turn is None or entry.turn != turn:
                self._remove(number)
        self.dropped = 0

    def _append(self, entry: _Entry) -> None:
        event = entry.event
        if isinstance(event, ToolCallChanged):
            older = self._calls.get(event.id)
            found = None if older is None else self._entries[older]
            if older is not None and found is not None and _replaces(entry, found):
                self._remove(older)
            self._calls[event.id] = self._number
        self._entries[self._number] = entry
        self._number += 1
        self._size += entry.size

    def _drop_oldest(self) -> None:
        self._remove(next(iter(self._entries)))
        self.dropped += 1

    def _remove(self, number: int) -> None:
        entry = self._entries.pop(number)
        self._size -= entry.size
        if isinstance(entry.event, ToolCallChanged) and self._calls.get(entry.event.id) == number:
            del self._calls[entry.event.id]


def _is_call(event: SessionEvent) -> bool:
    return isinstance(event, ToolCallAnnounced | ToolCallChanged)


def _replaces(newer: _Entry, older: _Entry) -> bool:
    """Whether nothing is left of the older: its fields are all set anew."""
    new, old = newer.event, older.event
    if not isinstance(new, ToolCallChanged) or not isinstance(old, ToolCallChanged):
        return False
    if new.terminal or old.terminal or newer.turn != older.turn or newer.sent != older.sent:
        return False
    return given(old).keys() <= given(new).keys()
