"""PURE: limits on how much clients of the network may have open and how fast they may send.

Frames of HTTP/2 and of websockets are counted before anything reads their content: a frame costs
the server up to a thousand times what it costs the client. Most kinds of frames carry no request
(settings, pings, priorities, window updates, empty data).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


MESSAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the largest message, as in the TypeScript SDK: a prompt with pictures takes a few
megabytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one server."""

    connections: int = 64
    """Authorized connections that may be open at once."""
    owner_connections: int | None = None
    """Connections of one owner; None: an equal share for each owner that the tokens name."""
    handshakes: int = 64
    """Connections without a complete request that may be open at once."""
    sessions: int = 256
    """Sessions that may be open at once, of all connections."""
    owner_sessions: int | None = None
    """Sessions of one owner; None: an equal share for each owner that the tokens name."""
    streams: int = 256
    """Event streams that one connection over HTTP may have open."""
    sockets: int = 512
    """TCP connections of HTTP clients: each carries one request at a time, or many with HTTP/2."""
    message_bytes: int = MESSAGE_BYTES
    """Bytes of the largest message; a larger one ends its connection."""
    new_connections: float = 10.0
    """New connections per second of one owner, on average."""
    burst: int = 50
    """New connections of one owner in one burst; a pause allows the next burst."""
    initialize_seconds: float = 10.0
    """Seconds from the handshake to ``initialize``."""
    ping_seconds: float = 20.0
    """Seconds between two pings, and for the answer to one. Pings find dead connections."""
    idle_seconds: float = 60.0
    """Seconds that a connection over HTTP may be without any stream."""
    stall_seconds: float = 30.0
    """Seconds that a client may leave a full queue of updates unread."""
    unread_text: int = 16 * 1024 * 1024
    """Characters of updates that may wait for a client that does not read."""
    keep_seconds: float = 0.0
    """Seconds that a session is kept without its connection; 0: it ends with its connection."""

    @staticmethod
    def share(limit: int, owners: int, configured: int | None) -> int:
        """Return one owner's part of ``limit``: the configured one, or an equal share."""
        return configured if configured is not None else max(1, limit // max(1, owners))


class RateLimit:
    """A token bucket: permits ``count`` events at once, and ``per_second`` on average."""

    def __init__(self, count: int, per_second: float, clock: Callable[[], float]) -> None:
        self._capacity = self._available = float(count)
        self._per_second = per_second
        self._clock = clock
        self._updated_at = clock()

    def try_acquire(self) -> bool:
        """Count one event; return whether the event is within the rate."""
        now = self._clock()
        refilled = self._available + (now - self._updated_at) * self._per_second
        self._available = min(self._capacity, refilled)
        self._updated_at = now
        if self._available < 1:
            return False
        self._available -= 1
        return True


LARGE_FRAME: Final = 1024
"""A frame with at least this many bytes of payload is worth its cost, and is not counted."""

HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of every HTTP/2 connection (RFC 9113, section 3.4)."""

PENDING_FRAMES: Final = 400
"""HTTP/2 frames that a client may send before it shows a token: enough for the first requests."""

HTTP2_FRAMES_AT_ONCE: Final = 5_000
HTTP2_FRAMES_PER_SECOND: Final = 1_000.0
"""HTTP/2 frames per second of one client: a request takes about four frames."""

WINDOW_UPDATES_AT_ONCE: Final = 5_000
WINDOW_UPDATES_PER_SECOND: Final = 4_000.0
"""Window updates per second of one client. A client may send two for each event."""

_HTTP2_HEAD: Final = 9
"""Bytes of an HTTP/2 frame's head."""
_DATA: Final = 0
_WINDOW_UPDATE: Final = 8

_PREFACE_LINE: Final = HTTP2_PREFACE.partition(b"\r\n")[0] + b"\r\n"
"""First line of the preface. No JSON body contains this line, because JSON strings have no line
breaks. On an HTTP/1.1 connection the line can only be an attempt to switch to HTTP/2, whose frames
would not be counted."""


def _tail(data: bytes, mark: bytes) -> bytes:
    """Return the last bytes of ``data``, in which ``mark`` may have begun."""
    return data[1 - len(mark) :]


class Http2FrameLimit:
    """Limits the HTTP/2 frames of one connection, which may also speak HTTP/1.1."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._pending_frames = PENDING_FRAMES
        self._frames = RateLimit(HTTP2_FRAMES_AT_ONCE, HTTP2_FRAMES_PER_SECOND, clock)
        self._window_updates = RateLimit(WINDOW_UPDATES_AT_ONCE, WINDOW_UPDATES_PER_SECOND, clock)
        self._is_http2: bool | None = None
        """Whether the connection speaks HTTP/2; None until enough bytes have arrived to decide."""
        self._unparsed = b""
        """Bytes of an incomplete frame head; with HTTP/1.1 the last bytes received."""
        self._payload_left = 0
        """Bytes of the current frame's payload that have not arrived yet."""

    def accepts(self, data: bytes, *, authorized: bool) -> bool:
        """Return whether received bytes are within the limits. ``authorized``: with token."""
        data = self._unparsed + data
        if self._is_http2 is None:
            if len(data) < len(HTTP2_PREFACE) and HTTP2_PREFACE.startswith(data):
                self._unparsed = data
                return True
            self._is_http2 = data.startswith(HTTP2_PREFACE)
            data = data[len(HTTP2_PREFACE) :] if self._is_http2 else data
        if not self._is_http2:
            self._unparsed = _tail(data, _PREFACE_LINE)
            return _PREFACE_LINE not in data
        at, end = self._payload_left, len(data)  # no payload is left if `_unparsed` had bytes
        while at + _HTTP2_HEAD <= end:
            size = int.from_bytes(data[at : at + 3], "big")
            kind = data[at + 3]
            if not authorized:
                self._pending_frames -= 1
                accepted = self._pending_frames >= 0
            elif kind == _WINDOW_UPDATE:
                accepted = self._window_updates.try_acquire()
            else:
                is_large = kind == _DATA and size >= LARGE_FRAME
                accepted = is_large or self._frames.try_acquire()
            if not accepted:
                return False
            at += _HTTP2_HEAD + size
        self._unparsed = data[at:]
        self._payload_left = max(0, at - end)
        return True


SMALL_FRAMES_AT_ONCE: Final = 2_000
SMALL_FRAMES_PER_SECOND: Final = 400.0
"""Small websocket frames per second of one client. A usual client sends a few each second."""

_END_OF_HANDSHAKE: Final = b"\r\n\r\n"
_LENGTHS: Final = {126: 2, 127: 8}
"""Value of a head's second byte → bytes of the real length behind it (RFC 6455, section 5.2)."""
_MASK: Final = 4
"""Bytes of a frame's mask."""


class WebSocketFrameLimit:
    """Limits the small frames of one websocket, from the first byte of its handshake on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._rate = RateLimit(SMALL_FRAMES_AT_ONCE, SMALL_FRAMES_PER_SECOND, clock)
        self._handshake_done = False
        self._unparsed = b""
        """Bytes of an incomplete frame head; during the handshake the last bytes received."""
        self._payload_left = 0
        """Bytes of the current frame's payload that have not arrived yet."""

    def accepts(self, data: bytes) -> bool:
        """Return whether received bytes are within the limits."""
        data = self._unparsed + data
        if not self._handshake_done:
            _, end, frames = data.partition(_END_OF_HANDSHAKE)
            if not end:
                self._unparsed = _tail(data, _END_OF_HANDSHAKE)
                return True
            self._handshake_done, data = True, frames
        at, end_at = self._payload_left, len(data)
        while at + 2 <= end_at:
            size = data[at + 1] & 0x7F  # the first bit says whether the frame has a mask
            head = 2 + _LENGTHS.get(size, 0)
            if at + head > end_at:
                break
            if head > 2:
                size = int.from_bytes(data[at + 2 : at + head], "big")
            if size < LARGE_FRAME and not self._rate.try_acquire():
                return False
            at += head + (_MASK if data[at + 1] & 0x80 else 0) + size
        self._unparsed = data[at:]
        self._payload_left = max(0, at - end_at)
        return True
