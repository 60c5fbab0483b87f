"""The TCP connections of HTTP clients: how many there may be, and whose they are.

One carries requests of strangers until one of them shows a good token, and with HTTP/2 many at
once. Who floods it, or shows no token for too long, is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.network.limits import FrameMeter, Rate

if TYPE_CHECKING:
    from codex_acp.adapter.network.access_control import AccessControl, PendingConnections

logger = logging.getLogger(__name__)

STRANGER_SECONDS: Final = 10.0
"""To show a good token."""

MOST_REFUSALS: Final = 20
"""Requests of a stranger that are refused before they are cut: each costs more than it does whoever
sends it."""

REQUESTS_AT_ONCE: Final = 1000
"""Requests at once of one TCP connection, and then `REQUESTS_PER_SECOND`: opening and resetting
streams is cheap for the client (rapid reset)."""

REQUESTS_PER_SECOND: Final = 200.0


class HttpSocket:
    """One of them."""

    def __init__(self, sockets: HttpSockets, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._transport = transport
        self._refusals = 0
        self._requests = Rate(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND, loop.time)
        self._frames = FrameMeter(loop.time)
        self._timer = loop.call_later(STRANGER_SECONDS, self.cut)
        self.owner: str | None = None
        """Owner of the token that the connection has shown."""

    @property
    def who(self) -> str:
        """Where it comes from, for the log."""
        address = self._transport.get_extra_info("peername")
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a socket"

    def may_send(self, data: bytes) -> bool:
        """Whether what has come is within the bounds; else it is cut."""
        if self._transport.is_closing():
            return False
        if not self._frames.take(data, is_known=self.owner is not None):
            logger.warning("%s was cut off: too many frames", self.who)
            self.cut()
            return False
        return True

    def may_ask(self) -> bool:
        """Whether one more request is within the rate; else it is cut."""
        if self._transport.is_closing():
            return False
        if not self._requests.take():
            logger.warning("%s was cut off: too many requests", self.who)
            self.cut()
            return False
        return True

    def let_in(self, owner: str) -> bool:
        """A request of it has shown a token of ``owner``; False if they have too many of these."""
        if self.owner is None and self._sockets.take(owner):
            self.owner = owner
            self._timer.cancel()
            self._sockets.pending.discard(self._transport)
        return self.owner is not None

    def refused(self) -> None:
        """A request of it was; a stranger who goes on with that is cut off."""
        self._refusals += 1
        if self.owner is None and self._refusals >= MOST_REFUSALS:
            self.cut()

    def cut(self) -> None:
        """End it at once."""
        self._transport.abort()

    def cut_if_stuck(self) -> None:
        """End it if the other side takes nothing at all, not of this stream alone."""
        if self._transport.get_write_buffer_size() > 0:
            self.cut()

    def lost(self) -> None:
        """It has ended."""
        self._timer.cancel()
        self._sockets.pending.discard(self._transport)


class HttpSockets:
    """The TCP connections of one server. ``pending`` are the connections that have shown nothing
    yet."""

    def __init__(self, access: AccessControl, pending: PendingConnections) -> None:
        self.pending = pending
        self._access = access
        self._open: dict[HttpSocket, None] = {}
        self._owned: Counter[str] = Counter()

    def made(self, transport: asyncio.Transport) -> HttpSocket:
        """A client has connected."""
        found = transport.get_extra_info("socket")
        if found is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # One that is dead takes no more of what keeps its streams alive: as with pings.
            milliseconds = int(2000 * self._access.limits.ping_seconds)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        made = HttpSocket(self, transport)
        self._open[made] = None
        return made

    def take(self, owner: str) -> bool:
        """Whether ``owner`` may have one more."""
        if self._owned[owner] >= self._access.share(self._access.limits.sockets):
            return False
        self._owned[owner] += 1
        return True

    def lost(self, gone: HttpSocket) -> None:
        """It has ended."""
        gone.lost()
        self._open.pop(gone, None)
        if gone.owner is not None:
            self._owned[gone.owner] -= 1

    def cut_all(self) -> None:
        """The server ends."""
        for each in tuple(self._open):
            each.cut()
