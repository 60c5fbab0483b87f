"""Bytes to lines: one JSON-RPC message a line, with a limit on its size.

The result depends only on the bytes, never on how they were cut into chunks. Must not know what
a line holds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes. Above any real message (an image in base64 is a few MiB), small enough for memory."""


HEAD_BYTES: Final = 256
"""Kept of a line that is too long: both protocols write the id and the kind of a message first."""


class TooLong(NamedTuple):
    """Stands for one line above the limit; all but its first bytes are gone."""

    limit: int
    head: bytes


class LineFramer:
    """Cuts a byte stream into lines, without their ends.

    Lines end with LF or CRLF; blank lines are skipped. A line of more than ``limit`` bytes (not
    counting the LF) gives one `TooLong` and the next line is read as usual. At most ``limit``
    bytes and one chunk are held.
    """

    __slots__ = ("_limit", "_pending", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping = False

    @property
    def limit(self) -> int:
        """Bytes."""
        return self._limit

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Take a chunk; give the lines that it completes, in order."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return []
            self._skipping = False
            data = data[end + 1 :]
        # A piece of a long line: to split it would look at each of its bytes.
        parts = data.split(b"\n") if b"\n" in data else [data]
        rest = parts.pop()
        joined = False
        if parts and self._pending:
            joined = True
            self._pending += parts[0]
            parts[0] = bytes(self._pending)
            self._pending = bytearray()
        lines: list[bytes | TooLong]
        if b"\r" in data or joined or len(data) > self._limit:
            lines = self._checked(parts)
        else:
            lines = [part for part in parts if part and not part.isspace()]
        if rest:
            self._pending += rest
            if len(self._pending) > self._limit:
                lines.append(self._too_long(self._pending))
                self._pending = bytearray()
                self._skipping = True
        return lines

    def finish(self) -> bytes | TooLong | None:
        """The stream has ended: give the last line if it had no line end, else None."""
        rest, self._pending = bytes(self._pending), bytearray()
        self._skipping = False
        lines = self._checked([rest])
        return lines[0] if lines else None

    def _too_long(self, line: bytes | bytearray) -> TooLong:
        return TooLong(self._limit, bytes(line[: min(self._limit, HEAD_BYTES)]))

    def _checked(self, parts: list[bytes]) -> list[bytes | TooLong]:
        lines: list[bytes | TooLong] = []
        for part in parts:
            if len(part) > self._limit:
                lines.append(self._too_long(part))
            elif part and not part.isspace():
                lines.append(part[:-1] if part.endswith(b"\r") else part)
        return lines
