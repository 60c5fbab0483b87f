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


class Newcomer(asyncio.Protocol):
    """``take`` is given the connection and what it has sent: whether it is served by another
    protocol from now on, or more has to come first.
    """

    def __init__(
        self,
        strangers: Strangers,
        tls: ssl.SSLContext | None,
        take: Callable[[asyncio.Transport, bytes], bool],
    ) -> None:
        self._strangers = strangers
        self._tls = tls
        self._take = take
        self._sent = b""
        self._ready: asyncio.Transport | None = None

    def come(self, transport: asyncio.Transport) -> None:
        """This is the connection. Not left to the listening socket: TLS strangers count, too."""
        loop = asyncio.get_running_loop()
        transport.set_protocol(self)
        self._strangers.come(transport)
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
            self._strangers.known(self._raw)
            self._strangers.come(secured)
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
        self._strangers.known(self._raw)
        if self._ready is not None:
            self._strangers.known(self._ready)


class Strangers:
    """Connections that have shown nothing yet: at most so many, the oldest gives way.

    So whoever opens many and says nothing pushes out their own, and a client that asks at once
    comes in.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.Transport, None] = {}

    def come(self, transport: asyncio.Transport) -> None:
        """One more has connected."""
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def known(self, transport: asyncio.Transport) -> None:
        """It has been let in, refused, or is gone; again is fine."""
        self._waiting.pop(transport, None)

    def cut_all(self) -> None:
        """The server ends."""
        for transport in tuple(self._waiting):
            transport.abort()
