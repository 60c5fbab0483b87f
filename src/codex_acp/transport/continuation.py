"""Lines that follow a line and differ from it in one text alone.

The text of such a line is known without decoding it, and stands in JSON as it would be written
again: it can be put into another line byte for byte. Owns what is such a line. Must not know what
is done with the text.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Final, Self

from codex_acp.jsonrpc.message import Notification, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc.framing import LineFramer, TooLong

logger = logging.getLogger(__name__)

_TEXT: Final = (
    rb'[^"\\\x00-\x1f]*+(?:\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))[^"\\\x00-\x1f]*+)*+'
)
"""Pattern of a JSON string's inside with the fewest escapes, as Codex and this side write it."""

_MOMENT: Final = re.compile(rb'(?<=":)[1-9][0-9]+(?=\\}\Z)')
"""A number that ends a line (a pattern of it): when it was written, so that others have another."""

_GAP: Final = b"\0"
"""No line that is JSON holds it."""

MAX_TAIL: Final = 1024
"""Bytes behind a text: Codex writes some thirty, and a pattern of a million takes seconds."""


class Continuation:
    """Has the text of such lines written and then noted, of those that came together as one.

    Both get it as it stands in JSON. ``write`` says whether it has written it; if not, the lines
    are for whoever decodes them.
    """

    __slots__ = ("_around", "_find", "_head", "_note", "_write")

    def __init__(
        self,
        head: bytes,
        tail: bytes,
        write: Callable[[bytes], bool],
        note: Callable[[bytes], None],
    ) -> None:
        self._head = head + b'"'
        end = _MOMENT.sub(lambda n: b"[1-9][0-9]{%d}" % (len(n[0]) - 1), re.escape(tail))
        self._find = re.compile(_GAP + b"(" + _TEXT + b')"' + end + b"\n").findall
        self._around = len(self._head) + len(tail) + 2
        self._write = write
        self._note = note

    @classmethod
    def of(
        cls,
        line: bytes | TooLong,
        notification: Notification,
        member: str,
        write: Callable[[bytes], bool],
        note: Callable[[bytes], None],
        loads: Callable[[bytes], object] = json.loads,
    ) -> Self | None:
        """Return the recogniser of notifications that differ from ``line`` in one ``member`` of
        params.

        That the text is found where it really is, is tried, with another one in its place.
        """
        params = notification.params
        if type(params) is not dict or not isinstance(line, bytes):
            return None
        text = json.dumps(params[member], ensure_ascii=False).encode(errors="replace")
        head, found, tail = line.rpartition(text)
        if not found or len(tail) > MAX_TAIL:
            return None
        other = Notification(notification.method, {**params, member: f"{params[member]}."})
        if decode(head + text[:-1] + b'."' + tail, loads) != other:
            return None
        return cls(head, tail, write, note)

    def take(self, data: bytes, framer: LineFramer) -> bytes | None:
        """Take ``data``, with which ``framer`` was to be fed, if no line that it ends is another.

        Else nothing of it, and what is given is to be fed now.
        """
        if framer.pending:
            data = framer.whole_with(data)
        end = data.rfind(b"\n") + 1
        lines = data[:end]
        head = self._head
        gaps = lines.replace(head, _GAP)
        texts = self._find(gaps)
        count = len(texts)
        text: bytes = texts[0] if count == 1 else b"".join(texts)
        # As many heads as texts, and nothing between them: then each is a line of its own.
        if (
            len(text) + count * self._around != end
            or end - len(gaps) != count * (len(head) - 1)
            or not text
            or len(data) > framer.limit
        ):
            return data
        try:
            lines.decode()
        except UnicodeDecodeError:
            return data
        if not self._write(text):
            return data
        try:
            self._note(text)
        except Exception:
            logger.exception("a text that was written could not be noted")
        if end < len(data):
            framer.feed(data[end:])
        return None
