"""Server-sent events: bytes to the data of each event, with a limit on what is held.

The result depends only on the bytes, never on how they were cut into chunks. Names, ids and
retry times of events are skipped: nothing here has a use for them. Does no IO.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

from __future__ import annotations

from typing import Final

MAX_IDLE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of comments and unused fields between two events: a sign of life is a few bytes."""

FIELD_BYTES: Final = 8
"""Bytes of a line that tell its field: a byte order mark and ``data:``."""

MARK: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event of the stream is too large; the message goes on from the sender's name."""


class EventStream:
    """Takes chunks, gives what the events hold. ``limit`` is in bytes of one event's data."""

    __slots__ = (
        "_after_return", "_data", "_first", "_idle", "_limit", "_line", "_skipping", "commented",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data = bytearray()
        self._idle = 0
        self._skipping = False
        self._after_return = False
        self._first = True
        self.commented: bool = False
        """Whether there was anything besides messages, as a sign of life."""

    @property
    def inside(self) -> bool:
        """Whether an event has begun that has not ended."""
        return bool(self._data or self._line.lstrip(MARK))

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; the data of the events that it completes. Raises EventTooLarge."""
        if b"\r" in chunk or self._after_return:
            if self._after_return and chunk.startswith(b"\n"):
                chunk = chunk[1:]
            elif not chunk:
                return []
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._skipping or self._line:
                self._take_part(part)
                line = bytes(self._line)
                self._line.clear()
                if self._skipping:
                    self._skipping = False
                    continue
            else:
                line = part
            self._take_line(line, events)
        if rest:
            self._take_part(rest)
        return events

    def _take_part(self, part: bytes) -> None:
        """A part of a line; nothing is kept of one whose field has no use."""
        if self._skipping:
            self._count_idle(len(part))
            return
        self._line += part
        if len(self._line) >= FIELD_BYTES and not self._is_data(self._line):
            self._skipping, self._first = True, False
            self._count_idle(len(self._line))
            self._line.clear()
        elif len(self._line) + len(self._data) > self._limit + FIELD_BYTES:
            self._refuse()

    def _is_data(self, line: bytes | bytearray) -> bool:
        return line.startswith(b"data:") or (self._first and line.startswith(MARK + b"data:"))

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(MARK)
        if not line:
            if self._data:
                events.append(bytes(self._data[:-1]))
                self._data.clear()
                self._idle = 0
            return
        if line.startswith(b"data:"):
            begin = 6 if line[5:6] == b" " else 5
            if len(line) - begin + len(self._data) > self._limit:
                self._refuse()
            self._data += line[begin:]
            self._data += b"\n"
        else:  # also a bare "data", which adds an empty line: no JSON needs it
            self._count_idle(len(line) + 1)

    def _count_idle(self, size: int) -> None:
        self.commented = True
        self._idle += size
        if self._idle > MAX_IDLE_BYTES:
            message = f"sent more than {MAX_IDLE_BYTES} bytes of comments with no message"
            raise EventTooLarge(message)

    def _refuse(self) -> None:
        raise EventTooLarge(f"sent a message above the limit of {self._limit} bytes")
