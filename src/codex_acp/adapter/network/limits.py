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
