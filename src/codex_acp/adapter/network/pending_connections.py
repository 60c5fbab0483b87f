"""A connection that has just come: its TLS handshake, and what it begins with."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable


logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""For the TLS handshake, and for the whole request of a websocket's."""


class AcceptedConnection(asyncio.Protocol):
    """A new connection, until the protocol that will serve it is known.

    ``take`` gets the connection and the bytes it has sent. It returns whether another protocol
    serves the connection from now on; if not, it needs more bytes.
    """

    def __init__(
        self,
        pending: PendingConnections,
        tls: ssl.SSLContext | None,
        take: Callable[[asyncio.Transport, bytes], bool],
    ) -> None:
        self._pending = pending
        self._tls = tls
        self._take = take
        self._sent = b""
        self._ready: asyncio.Transport | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Begin with a connection. It counts as pending also during its TLS handshake."""
        loop = asyncio.get_running_loop()
        transport.set_protocol(self)
        self._pending.add(transport)
        self._raw = transport
        self._limit = loop.call_later(HANDSHAKE_SECONDS, transport.abort)
        if self._tls is None:
            self._is_ready(transport)
        else:
            self._securing = loop.create_task(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(self._raw, self, tls, server_side=True)
        except (OSError, RuntimeError) as error:  # that of TLS is an OSError
            logger.debug("a TLS handshake has failed: %s", error)
            self.connection_lost(None)
            self._raw.abort()
            return
        if secured is not None:
            self._pending.discard(self._raw)
            self._pending.add(secured)
            self._is_ready(secured)

    def _is_ready(self, transport: asyncio.Transport) -> None:
        self._ready = transport
        self._look()

    def data_received(self, data: bytes) -> None:
        """Collect the first bytes of the connection."""
        self._sent += data
        self._look()

    def _look(self) -> None:
        if self._ready is not None and self._take(self._ready, self._sent):
            self._limit.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that ended before it was served."""
        del exc
        self._limit.cancel()
        self._pending.discard(self._raw)
        if self._ready is not None:
            self._pending.discard(self._ready)


class PendingConnections:
    """Connections that have shown no token yet: at most ``most``, the oldest is aborted.

    So somebody who opens many silent connections loses their own ones, and a client that sends its
    request at once comes in.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.Transport, None] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Count a new connection, and abort the oldest if there are too many."""
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def discard(self, transport: asyncio.Transport) -> None:
        """Count a connection no longer: it was let in or refused, or has ended. Idempotent."""
        self._waiting.pop(transport, None)

    def abort_all(self) -> None:
        """Abort all: the server ends."""
        for transport in tuple(self._waiting):
            transport.abort()
