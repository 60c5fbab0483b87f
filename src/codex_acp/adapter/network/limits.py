"""PURE: limits on how much clients of the network may have open and how fast they may send."""

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
    """Bytes of the largest message; a larger message ends its connection."""
    new_connections: float = 10.0
    """New connections per second of one owner, on average."""
    burst: int = 50
    """New connections of one owner in one burst; a pause allows the next burst."""
    initialize_seconds: float = 10.0
    """Seconds from the handshake to ``initialize``."""
    ping_seconds: float = 20.0
    """Seconds between two pings, and for the answer to a ping. Pings find dead connections."""
    idle_seconds: float = 60.0
    """Seconds that a connection over HTTP may be without any stream."""
    stall_seconds: float = 30.0
    """Seconds that a client may leave a full queue of updates unread."""
    unread_text: int = 16 * 1024 * 1024
    """Characters of updates that may wait for a client that does not read."""
    keep_seconds: float = 0.0
    """Seconds that a session is kept without a connection; 0: it ends with its connection."""

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
"""Bytes of payload from which a frame is not counted: such a frame costs its sender as much as the
server."""
