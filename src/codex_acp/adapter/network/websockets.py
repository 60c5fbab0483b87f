"""Accepting websockets: the handshake that `AccessControl` allows, then one ACP connection each.

With the package ``websockets``, which is loaded when a server is started. Where streamable HTTP is
served as well, what a connection begins with says whose it is.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from anyio import CancelScope

from codex_acp.adapter.network.door import AccessControl, Refusal
from codex_acp.adapter.network.newcomer import (
    HANDSHAKE_SECONDS,
    AcceptedConnection,
    PendingConnections,
)
from codex_acp.adapter.network.websocket_frames import WebSocketFrames
from codex_acp.transport.streamable_http import CONNECTION_ID
from codex_acp.transport.websocket_messages import WebSocketMessages

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from socket import socket

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from codex_acp.adapter.network.http_server import HttpServer
    from codex_acp.adapter.network.hub import Hub
    from codex_acp.adapter.network.tokens import Token


class AcceptedLink(WebSocketMessages):
    """A connection whose handshake is done; the rest as in `WebSocketMessages`."""

    def __init__(self, connection: ServerConnection, *, name: str, message_limit: int) -> None:
        super().__init__(name, message_limit)
        self._accepted = connection

    def say_at_end(self, code: int, reason: str) -> None:
        """When this side closes the link, say why: the codes are those of RFC 6455."""
        self._last_words = (code, reason)

    async def _open(self) -> ServerConnection:
        return self._accepted


logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""For the closing handshake; then the connection is cut."""

HEAD_BYTES: Final = 16 * 1024
"""Of a request, to see whether it wants a websocket."""


class WebSocketServer:
    """Serve each websocket connection."""

    def __init__(self, hub: Hub, access: AccessControl, pending: PendingConnections) -> None:
        self._hub = hub
        self._access = access
        self._pending = pending
        self._let_in: dict[ServerConnection, Token] = {}

    def request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let it in, or answer why not."""
        self._pending.discard(connection.transport)
        found = self._access.check(request.path, request.headers)
        if not isinstance(found, Refusal):
            found = self._access.enter(found.owner) or found
        if isinstance(found, Refusal):
            self._access.log(found, _who(connection))
            response = connection.respond(found.status, f"{found.reason}\n")
            for name, value in found.headers:
                response.headers[name] = value
            return response
        self._let_in[connection] = found
        return None

    def response(
        self, connection: ServerConnection, request: Request, response: Response
    ) -> Response | None:
        """Name the connection; one that was let in and is no websocket goes again."""
        del request
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers[CONNECTION_ID] = connection.id.hex
        else:
            self._left(connection)
        return None

    async def serve(self, connection: ServerConnection) -> None:
        """Serve one that has become a websocket."""
        connection_id = connection.id.hex
        limit = self._access.limits.message_bytes
        link = AcceptedLink(connection, name=f"client {connection_id[:8]}", message_limit=limit)
        logger.info("client %s has come from %s", connection_id[:8], _who(connection))
        try:
            await self._hub.serve(link, link, self._let_in[connection], connection_id)
        finally:
            self._left(connection)

    def lost(self, connection: ServerConnection) -> None:
        """It is gone, perhaps before it has asked for anything."""
        self._pending.discard(connection.transport)
        self._left(connection)

    def _left(self, connection: ServerConnection) -> None:
        token = self._let_in.pop(connection, None)
        if token is not None:
            self._access.left(token.owner)


@asynccontextmanager
async def network_server(
    hub: Hub, access: AccessControl, sock: socket, tls: ssl.SSLContext | None, *, http: bool
) -> AsyncIterator[None]:
    """Accept on ``sock`` until the end of the block; the connections are ended with it.

    Websockets; with ``http`` what wants none is served by `HttpServer`.
    """
    from websockets.asyncio.server import serve

    pending = PendingConnections(access.limits.handshakes)
    server = WebSocketServer(hub, access, pending)
    others = _http_server(hub, access, pending) if http else None

    quiet = logging.getLogger("codex_acp.adapter.network.handshakes")
    quiet.setLevel(logging.CRITICAL)  # no tracebacks of strangers: see `AccessControl.log`
    limits = access.limits
    async with serve(
        server.serve,
        sock=sock,
        process_request=server.request,
        process_response=server.response,
        create_connection=_accepted(server, pending, tls, others),
        compression=None,
        max_size=limits.message_bytes,
        open_timeout=HANDSHAKE_SECONDS,
        close_timeout=CLOSE_SECONDS,
        ping_interval=limits.ping_seconds,
        ping_timeout=limits.ping_seconds,
        server_header=None,
        logger=quiet,
    ):
        try:
            yield
        finally:
            pending.abort_all()
            if others is not None:
                with CancelScope(shield=True):
                    await others.aclose()


def _accepted(
    server: WebSocketServer,
    pending: PendingConnections,
    tls: ssl.SSLContext | None,
    others: HttpServer | None,
) -> type[ServerConnection]:
    """Return the class of the connections that a server accepts."""
    from websockets.asyncio.server import ServerConnection

    class Accepted(ServerConnection):
        """One that may not become a websocket."""

        def connection_made(self, transport: Any) -> None:
            AcceptedConnection(pending, tls, self.take).begin(transport)

        def take(self, transport: Any, begun: bytes) -> bool:
            if others is not None:
                is_websocket = _wants_websocket(begun)
                if is_websocket is None:
                    return False
                if not is_websocket:
                    others.take(transport, begun)
                    return True
            transport.set_protocol(self)
            self._frames = WebSocketFrames(asyncio.get_running_loop().time)
            super().connection_made(transport)
            if begun:
                self.data_received(begun)
            return True

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if self._frames.take(data):
                super().data_received(data)
            else:
                logger.warning("%s was cut off: too many frames", _who(self))
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            server.lost(self)
            super().connection_lost(exc)

    return Accepted


def _http_server(hub: Hub, access: AccessControl, pending: PendingConnections) -> HttpServer:
    from codex_acp.adapter.network.http_server import HttpServer

    return HttpServer(hub, access, pending)


def _wants_websocket(begun: bytes) -> bool | None:
    """Whether a connection begins with the handshake of one; None if that cannot be told yet.

    Only who reads it is decided here, and each of the two takes nothing for granted.
    """
    if not b"GET ".startswith(begun[:4]):
        return False
    head, end, _ = begun.partition(b"\r\n\r\n")
    if not end:
        return None if len(begun) <= HEAD_BYTES else False
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return any(name == b"upgrade" and b"websocket" in value for name, _, value in lines)


def _who(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a socket"
