"""Limit the TCP connections of HTTP clients: how many an owner has, and how much each may send.

A connection is *pending* until a request on it shows a good token. A connection that floods the
server, or stays pending for too long, is aborted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.network.access_control import peer_name
from codex_acp.adapter.network.limits import LARGE_FRAME, RateLimit

if TYPE_CHECKING:
    from collections import Counter

    from hyperframe.frame import Frame

    from codex_acp.adapter.network.access_control import AccessControl, PendingConnections

logger = logging.getLogger(__name__)

MAX_REFUSALS: Final = 20
"""Refused requests after which a pending connection is aborted: a refusal costs the server more
than the client."""

REQUESTS_AT_ONCE: Final = 1000
"""Requests that one TCP connection may send in a burst, before `REQUESTS_PER_SECOND` applies: to
open and reset streams costs the client little (rapid reset)."""

REQUESTS_PER_SECOND: Final = 200.0

PENDING_FRAMES: Final = 400
"""HTTP/2 frames that a client may send before a request shows a token; the first requests need
fewer."""

FRAMES_AT_ONCE: Final = 5_000
FRAMES_PER_SECOND: Final = 1_000.0
"""HTTP/2 frames per second of one client: a request takes about four frames."""

WINDOW_UPDATES_AT_ONCE: Final = 5_000
WINDOW_UPDATES_PER_SECOND: Final = 4_000.0
"""Window updates per second of one client. A client may send two for each event."""

_DATA: Final = 0
_WINDOW_UPDATE: Final = 8


class HttpSocket:
    """One TCP connection of an HTTP client. ``pending`` has the server's pending connections;
    ``owned`` counts the connections of each owner that have shown a token."""

    def __init__(
        self,
        transport: asyncio.Transport,
        access: AccessControl,
        pending: PendingConnections,
        owned: Counter[str],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._access = access
        self._pending = pending
        self._owned = owned
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # The kernel ends the connection of a peer that acknowledges neither of two pings.
            milliseconds = int(2 * 1000 * access.limits.ping_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self.peer: str = peer_name(transport.get_extra_info("peername"))
        """Address and port of the client, for the log."""
        self._refusals = 0
        self.has_requests: bool = False
        """Whether a request has come."""
        self._requests = RateLimit(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND, loop.time)
        self._pending_frames = PENDING_FRAMES
        self._frames = RateLimit(FRAMES_AT_ONCE, FRAMES_PER_SECOND, loop.time)
        self._window_updates = RateLimit(
            WINDOW_UPDATES_AT_ONCE, WINDOW_UPDATES_PER_SECOND, loop.time
        )
        self.owner: str | None = None
        """Owner of the token that a request has shown; None while the connection is pending."""

    def admit_frame(self, frame: Frame) -> bool:
        """Count one more HTTP/2 frame; return whether the frame is within the limits. If not, abort
        the connection: even a frame without a request costs the server more than the client."""
        if self._transport.is_closing():
            return False
        if self.owner is None:
            self._pending_frames -= 1
            accepted = self._pending_frames >= 0
        elif frame.type == _WINDOW_UPDATE:
            accepted = self._window_updates.try_acquire()
        else:
            is_large = frame.type == _DATA and frame.body_len >= LARGE_FRAME
            accepted = is_large or self._frames.try_acquire()
        return self._abort_unless(accepted, "too many frames")

    def admit_request(self) -> bool:
        """Count one more request; return whether it is within the rate, or abort the connection."""
        self.has_requests = True
        if self._transport.is_closing():
            return False
        return self._abort_unless(self._requests.try_acquire(), "too many requests")

    def _abort_unless(self, accepted: bool, reason: str) -> bool:
        """Return ``accepted``; if it is False, abort the connection, and log the reason."""
        if not accepted:
            logger.warning("%s was cut off: %s", self.peer, reason)
            self.abort()
        return accepted

    def authorize(self, owner: str) -> bool:
        """Note that a request has shown a token of ``owner``; return False if that owner already
        has all the connections of their share."""
        if self.owner is not None:
            return True
        if self._owned[owner] >= self._access.share(self._access.limits.sockets):
            return False
        self._owned[owner] += 1
        self.owner = owner
        self._pending.discard(self._transport)
        return True

    def count_refusal(self) -> None:
        """Count a refused request; abort a pending connection after `MAX_REFUSALS`."""
        self._refusals += 1
        if self.owner is None and self._refusals >= MAX_REFUSALS:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once, without sending the buffered bytes."""
        with suppress(AttributeError):  # of Python 3.11.3 and earlier, if TLS was closed twice
            self._transport.abort()

    def abort_if_stuck(self) -> None:
        """Abort the connection if bytes wait for the client: it reads none of its streams."""
        if self._transport.get_write_buffer_size() > 0:
            self.abort()

    def release(self) -> None:
        """Stop counting the connection, which has ended."""
        self._pending.discard(self._transport)
        if self.owner is not None:
            self._owned[self.owner] -= 1
