"""Cut bytes into lines, one JSON-RPC message a line, with a limit on its size.

The result depends only on the bytes, never on how they were cut into chunks. Of a line that is too
long or broken `read_head` finds the id and the kind.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import RequestId


DEFAULT_LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes. Above any real message (an image in base64 is a few MiB), small enough for memory."""


HEAD_BYTES: Final = 256
"""Kept of a line that is too long: both protocols write the id and the kind of a message first."""


SMALL_PIECE: Final = 4096
"""Bytes. Of a line that comes in pieces smaller ones are joined: each has a size of its own."""


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

    __slots__ = ("_pieces", "_skipping", "limit", "pending")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        self.limit: int = limit
        """Bytes."""
        self._pieces: list[bytes | bytearray] = []
        self.pending: int = 0
        """Bytes in these pieces of a line that has not ended."""
        self._skipping = False

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
        if len(parts) == 1 and not (rest or self.pending):
            line = parts[0]
            if line.endswith(b"}") and len(line) <= self.limit:
                return [line]  # as of whoever writes each at once: nothing else is to be looked at
        joined = False
        if parts and self.pending:
            joined = True
            parts[0] = self._whole_with(parts[0])
        lines: list[bytes | TooLong]
        if b"\r" in data or joined or len(data) > self.limit:
            lines = self._checked(parts)
        else:
            lines = [part for part in parts if part and not part.isspace()]
        if rest:
            self.pending += len(rest)
            if len(rest) >= SMALL_PIECE:  # one buffer that grows would be copied again and again
                self._pieces.append(rest)
            elif self._pieces and isinstance(last := self._pieces[-1], bytearray):
                last += rest
            else:
                self._pieces.append(bytearray(rest))
            if self.pending > self.limit:
                lines.append(self._too_long(self._whole_with(b"")))
                self._skipping = True
        return lines

    def finish(self) -> bytes | TooLong | None:
        """The stream has ended: give the last line if it had no line end, else None."""
        self._skipping = False
        lines = self._checked([self._whole_with(b"")])
        return lines[0] if lines else None

    def _whole_with(self, end: bytes) -> bytes:
        """Return all pieces and this one; none are held any more."""
        pieces, self._pieces, self.pending = self._pieces, [], 0
        return b"".join((*pieces, end))

    def _too_long(self, line: bytes) -> TooLong:
        return TooLong(self.limit, line[: min(self.limit, HEAD_BYTES)])

    def _checked(self, parts: list[bytes]) -> list[bytes | TooLong]:
        lines: list[bytes | TooLong] = []
        for part in parts:
            if len(part) > self.limit:
                lines.append(self._too_long(part))
            elif part and not part.isspace():
                lines.append(part[:-1] if part.endswith(b"\r") else part)
        return lines


_TEXT: Final = rb'"(?:[^"\\]|\\.)*"'

_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?\d+|' + _TEXT + rb')\s*,\s*"(?P<kind>method|result|error)"\s*:'
)


class MessageHead(NamedTuple):
    """Members of a message that its first bytes have."""

    kind: Literal["request", "answer"]
    id: RequestId


def read_head(head: bytes) -> MessageHead | None:
    """Read the first bytes of a line; None if they do not tell whose it is."""
    found = _HEAD.match(head)
    if found is None:
        return None
    try:
        request_id: RequestId = json.loads(found["id"])
    except ValueError:  # a broken escape, or not UTF-8
        return None
    return MessageHead("request" if found["kind"] == b"method" else "answer", request_id)
