"""PURE: how many small frames a client sends over a websocket, counted before anybody reads them.

Each costs the server far more than the client: pings are answered, empty messages are decoded. As
`http2_frames`, of which an owner's requests are one kind. Must not know what carries the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.adapter.network.limits import Rate

if TYPE_CHECKING:
    from collections.abc import Callable

FRAMES_AT_ONCE: Final = 2_000
FRAMES_PER_SECOND: Final = 400.0
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
        self._rate = Rate(FRAMES_AT_ONCE, FRAMES_PER_SECOND, clock)
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
