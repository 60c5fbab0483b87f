"""PURE: how many frames of HTTP/2 a client sends, counted before anybody reads what is in them.

Each costs the server a thousand times what it costs the client, and most kinds are no request:
settings, pings, priorities, updates of windows, empty data. Must not know what carries the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.adapter.network.limits import Rate

if TYPE_CHECKING:
    from collections.abc import Callable

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of every HTTP/2 connection (RFC 9113, section 3.4)."""

STRANGER_FRAMES: Final = 400
"""Frames of a client that has shown no token: for its first requests."""

FRAMES_AT_ONCE: Final = 5_000
FRAMES_PER_SECOND: Final = 1_000.0
"""Frames per second of one client: a request is about four."""

UPDATES_AT_ONCE: Final = 5_000
UPDATES_PER_SECOND: Final = 4_000.0
"""Updates of windows: a client may send two for each event that it gets."""

_LARGE: Final = 1024
"""Bytes of a frame of data that is worth what it costs."""

_HEAD: Final = 9
_DATA: Final = 0
_WINDOW_UPDATE: Final = 8

_ASKS_FOR_IT: Final = PREFACE.partition(b"\r\n")[0] + b"\r\n"
"""No JSON has it, whose texts have no line breaks: on a connection of HTTP/1.1 it could only be
the change to frames that nobody counts."""


class FrameMeter:
    """Counts the frames of one connection."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._left = STRANGER_FRAMES
        self._frames = Rate(FRAMES_AT_ONCE, FRAMES_PER_SECOND, clock)
        self._updates = Rate(UPDATES_AT_ONCE, UPDATES_PER_SECOND, clock)
        self._is_http2: bool | None = None
        self._rest = b""
        """The beginning of a frame's head; of HTTP/1.1 the end of what came."""
        self._skip = 0
        """Bytes of the frame whose head was the last one."""

    def take(self, data: bytes, *, is_known: bool) -> bool:
        """Whether what came is within bounds; ``is_known``: whose it is has been shown."""
        data = self._rest + data
        if self._is_http2 is None:
            if len(data) < len(PREFACE) and PREFACE.startswith(data):
                self._rest = data
                return True
            self._is_http2 = data.startswith(PREFACE)
            data = data[len(PREFACE) :] if self._is_http2 else data
        if self._is_http2:
            return self._count(data, is_known=is_known)
        self._rest = data[1 - len(_ASKS_FOR_IT) :]
        return _ASKS_FOR_IT not in data

    def _count(self, data: bytes, *, is_known: bool) -> bool:
        at, end = self._skip, len(data)
        while at + _HEAD <= end:
            size = int.from_bytes(data[at : at + 3], "big")
            if not self._may_come(data[at + 3], size, is_known=is_known):
                return False
            at += _HEAD + size
        self._rest = data[at:]
        self._skip = max(0, at - end)
        return True

    def _may_come(self, kind: int, size: int, *, is_known: bool) -> bool:
        if not is_known:
            self._left -= 1
            return self._left >= 0
        if kind == _WINDOW_UPDATE:
            return self._updates.take()
        return (kind == _DATA and size >= _LARGE) or self._frames.take()
