"""Cut bytes into lines of limited size, each with one JSON-RPC message.

The lines do not depend on the chunks in which the bytes come. `read_head` finds the id and kind of
a message in a line that is too long or broken.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, Literal

from codex_acp._record import NamedTuple

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import RequestId


DEFAULT_LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line: more than any real message has (an image in base64 has a few MiB)."""
HEAD_BYTES: Final = 256
"""Bytes that are kept of a line above the limit: its id and kind come first in both protocols."""


class TooLong(NamedTuple):
    """The first bytes of a line above the limit; the others are dropped."""

    limit: int
    head: bytes


class LineFramer:
    """Cuts a byte stream into lines, without their ends. Lines end with LF or CRLF; blank lines are
    skipped. A line of more than ``limit`` bytes (without the LF) becomes one `TooLong`, and the
    next line is read as usual. At most ``limit`` bytes and one chunk are in memory."""

    __slots__ = ("_line", "_skipping", "limit")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self.limit: int = limit
        """Bytes of a line at most."""
        self._line = bytearray()
        """The incomplete line."""
        self._skipping = False
        """Whether to drop the rest of a line above the limit."""

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Add a chunk; return the lines that it completes, in order."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return []
            self._skipping = False
            data = data[end + 1 :]
        *parts, rest = data.split(b"\n")
        if parts and self._line:
            parts[0] = self._end_line(parts[0])
        lines = self._lines_of(parts)
        self._line += rest
        if len(self._line) > self.limit:
            lines.append(self._too_long(self._end_line()))
            self._skipping = True
        return lines

    def finish(self) -> bytes | TooLong | None:
        """End the stream; return the last line if it has no line break, else None."""
        self._skipping = False
        lines = self._lines_of([self._end_line()])
        return lines[0] if lines else None

    def _end_line(self, end: bytes = b"") -> bytes:
        """Return the incomplete line with ``end`` behind it, and begin another."""
        line, self._line = self._line, bytearray()
        return b"".join((line, end))

    def _too_long(self, line: bytes) -> TooLong:
        return TooLong(self.limit, line[: min(self.limit, HEAD_BYTES)])

    def _lines_of(self, parts: list[bytes]) -> list[bytes | TooLong]:
        """Return the lines that are not blank, without the CR at their end."""
        lines: list[bytes | TooLong] = []
        for part in parts:
            if len(part) > self.limit:
                lines.append(self._too_long(part))
            elif part and not part.isspace():
                lines.append(part[:-1] if part.endswith(b"\r") else part)
        return lines


_JSON_STRING: Final = rb'"(?:[^"\\]|\\.)*"'
_HEAD: Final = re.compile(  # up to the member after the id, which tells the kind of the message
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?\d+|' + _JSON_STRING + rb')\s*,\s*"(?P<kind>method|result|error)"\s*:'
)


class MessageHead(NamedTuple):
    """Kind and id of a message."""

    kind: Literal["request", "answer"]
    id: RequestId


def read_head(head: bytes) -> MessageHead | None:
    """Find kind and id in the first bytes of a line; return None if they are not there."""
    found = _HEAD.match(head)
    if found is None:
        return None
    try:
        request_id: RequestId = json.loads(found["id"])
    except ValueError:  # a broken escape, or not UTF-8
        return None
    return MessageHead("request" if found["kind"] == b"method" else "answer", request_id)
