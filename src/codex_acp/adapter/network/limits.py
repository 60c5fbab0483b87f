"""How much clients of the network may have and how fast they may come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""As the TypeScript SDK has it: a prompt with pictures is some megabytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server."""

    connections: int = 64
    """Open at once, authorized ones."""
    owner_connections: int | None = None
    """Connections of one owner; None: an equal share for each owner that the tokens name."""
    handshakes: int = 64
    """Connections that have sent no complete request yet."""
    sessions: int = 256
    """Open at once, of all connections."""
    owner_sessions: int | None = None
    """Sessions of one owner; None: an equal share."""
    streams: int = 256
    """Streams of events of one connection over HTTP."""
    sockets: int = 512
    """TCP connections over HTTP: one carries a request at a time, or with HTTP/2 many."""
    message_bytes: int = MESSAGE_BYTES
    """A larger message ends its connection."""
    new_connections: float = 10.0
    """A second, on the average, of one owner."""
    burst: int = 50
    """New connections at once, of one owner."""
    initialize_seconds: float = 10.0
    """From the handshake to ``initialize``."""
    ping_seconds: float = 20.0
    """Between two pings, and for the answer to one: a connection that is dead is found out."""
    idle_seconds: float = 60.0
    """How long a connection over HTTP may be without any stream."""
    stall_seconds: float = 30.0
    """How long a client may leave a full queue of updates unread."""
    unread_text: int = 16 * 1024 * 1024
    """Characters of updates that may wait for it meanwhile."""
    keep_seconds: float = 0.0
    """How long a session without its connection is kept; 0: it ends with its connection."""

    def share(self, limit: int, owners: int, own: int | None) -> int:
        """How much of a limit one of several owners may have, so that none can use up all."""
        return own if own is not None else max(1, limit // max(1, owners))


class Rate:
    """``count`` at once, and ``per_second`` from then on."""

    def __init__(self, count: int, per_second: float, clock: Callable[[], float]) -> None:
        self._most = self._left = float(count)
        self._per_second = per_second
        self._clock = clock
        self._at = clock()

    def take(self) -> bool:
        """Whether one more is within the rate."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of every HTTP/2 connection (RFC 9113, section 3.4)."""

STRANGER_FRAMES: Final = 400
"""Frames of a client that has shown no token: for its first requests."""

HTTP2_FRAMES_AT_ONCE: Final = 5_000
HTTP2_FRAMES_PER_SECOND: Final = 1_000.0
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
        self._frames = Rate(HTTP2_FRAMES_AT_ONCE, HTTP2_FRAMES_PER_SECOND, clock)
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


SMALL_FRAMES_AT_ONCE: Final = 2_000
SMALL_FRAMES_PER_SECOND: Final = 400.0
"""Small frames per second: a client sends a handful of messages each second."""

LARGE: Final = 1024
"""Bytes of a frame that is worth what it costs."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTHS: Final = {126: 2, 127: 8}
"""Bytes of a length that does not fit in the second byte (RFC 6455, section 5.2)."""
_MASK: Final = 4


class WebSocketFrames:
    """Counts the frames of one connection, from the first byte of its handshake on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._rate = Rate(SMALL_FRAMES_AT_ONCE, SMALL_FRAMES_PER_SECOND, clock)
        self._shaken = False
        self._rest = b""
        """The beginning of a frame's head; of the handshake the end of what came."""
        self._skip = 0
        """Bytes of the frame whose head was the last one."""

    def take(self, data: bytes) -> bool:
        """Whether what came is within bounds."""
        data = self._rest + data
        if not self._shaken:
            _, end, frames = data.partition(_END_OF_HEAD)
            if not end:
                self._rest = data[1 - len(_END_OF_HEAD) :]
                return True
            self._shaken, data = True, frames
        at, end_at = self._skip, len(data)
        while at + 2 <= end_at:
            size = data[at + 1] & 0x7F
            head = 2 + _LENGTHS.get(size, 0)
            if at + head > end_at:
                break
            if head > 2:
                size = int.from_bytes(data[at + 2 : at + head], "big")
            if size < LARGE and not self._rate.take():
                return False
            at += head + (_MASK if data[at + 1] & 0x80 else 0) + size
        self._rest = data[at:]
        self._skip = max(0, at - end_at)
        return True
