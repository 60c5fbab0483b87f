"""Accept websockets: `AccessControl` checks each handshake, then `Hub` serves an ACP connection.

The package ``websockets`` is loaded when a server starts. If the server also serves streamable
HTTP, the first bytes of a TCP connection decide between websocket and HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from anyio import CancelScope

from codex_acp.adapter.network.access_control import (
    AcceptedConnection,
    AccessControl,
    PendingConnections,
    Refusal,
    peer_name,
)
from codex_acp.adapter.network.limits import LARGE_FRAME, RateLimit
from codex_acp.transport.streamable_http import CONNECTION_ID
from codex_acp.transport.websocket import WebSocketMessages

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from socket import socket

    from websockets.asyncio.server import ServerConnection
    from websockets.frames import Frame
    from websockets.http11 import Request, Response

    from codex_acp.adapter.network.access_control import Token
    from codex_acp.adapter.network.connection import Hub
    from codex_acp.adapter.network.http_server import HttpServer


logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""Seconds for the closing handshake; then the connection is aborted."""

HEAD_BYTES: Final = 16 * 1024
"""Bytes of a websocket's handshake at most; `HttpServer` serves a longer one."""


SMALL_FRAMES_AT_ONCE: Final = 2_000
SMALL_FRAMES_PER_SECOND: Final = 400.0
"""Small websocket frames per second of one client. A usual client sends a few each second."""


class AcceptedLink(WebSocketMessages):
    """A websocket of the server, after its handshake."""

    def __init__(self, connection: ServerConnection, *, name: str, message_limit: int) -> None:
        super().__init__(name, message_limit)
        self._accepted = connection

    def set_close_reason(self, code: int, reason: str) -> None:
        """Set the code (of RFC 6455) and the reason that this side sends when it closes."""
        self._close_reason = (code, reason)

    async def _open(self) -> ServerConnection:
        return self._accepted


class WebSocketServer:
    """Serves the websocket connections of one server."""

    def __init__(self, hub: Hub, access: AccessControl, pending: PendingConnections) -> None:
        self._hub = hub
        self._access = access
        self._pending = pending
        self._tokens: dict[ServerConnection, Token] = {}

    def process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return None to accept a connection, or the response that refuses the connection."""
        self._pending.discard(connection.transport)
        try:
            token = self._access.check(request.path, request.headers)
            self._access.enter(token.owner)
        except Refusal as refusal:
            self._access.log(refusal, peer_name(connection.remote_address))
            response = connection.respond(refusal.status, f"{refusal.reason}\n")
            for name, value in refusal.headers:
                response.headers[name] = value
            return response
        self._tokens[connection] = token
        return None

    def process_response(
        self, connection: ServerConnection, request: Request, response: Response
    ) -> Response | None:
        """Add the connection's id; if the handshake failed, stop counting the connection."""
        del request
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers[CONNECTION_ID] = connection.id.hex
        else:
            self._leave(connection)
        return None

    async def serve(self, connection: ServerConnection) -> None:
        """Serve a connection that has become a websocket, to its end."""
        connection_id = connection.id.hex
        limit = self._access.limits.message_bytes
        link = AcceptedLink(connection, name=f"client {connection_id[:8]}", message_limit=limit)
        logger.info(
            "client %s has come from %s", connection_id[:8], peer_name(connection.remote_address)
        )
        try:
            await self._hub.serve(link, self._tokens[connection], connection_id)
        finally:
            self._leave(connection)

    def lost(self, connection: ServerConnection) -> None:
        """Forget a connection that ended, perhaps before it sent a request."""
        self._pending.discard(connection.transport)
        self._leave(connection)

    def _leave(self, connection: ServerConnection) -> None:
        token = self._tokens.pop(connection, None)
        if token is not None:
            self._access.leave(token.owner)


@asynccontextmanager
async def network_server(
    hub: Hub, access: AccessControl, sock: socket, tls: ssl.SSLContext | None, *, http: bool
) -> AsyncIterator[None]:
    """Accept connections on ``sock``; the end of the block ends them. With ``http``, `HttpServer`
    serves the connections that do not become websockets."""
    from websockets.asyncio.server import serve

    pending = PendingConnections(access.limits.handshakes)
    server = WebSocketServer(hub, access, pending)
    http_server: HttpServer | None = None
    if http:
        from codex_acp.adapter.network.http_server import HttpServer

        http_server = HttpServer(hub, access, pending)
    quiet_logger = logging.getLogger("codex_acp.adapter.network.handshakes")
    quiet_logger.setLevel(logging.CRITICAL)  # `AccessControl.log` logs refusals, at a limited rate
    limits = access.limits
    async with serve(
        server.serve,
        sock=sock,
        process_request=server.process_request,
        process_response=server.process_response,
        create_connection=_connection_class(server, pending, tls, http_server),
        compression=None,
        max_size=limits.message_bytes,
        open_timeout=None,  # `PendingConnections` has the time limit
        close_timeout=CLOSE_SECONDS,
        ping_interval=limits.ping_seconds,
        ping_timeout=limits.ping_seconds,
        server_header=None,
        logger=quiet_logger,
    ):
        try:
            yield
        finally:
            pending.abort_all()
            if http_server is not None:
                with CancelScope(shield=True):
                    await http_server.aclose()


def _connection_class(
    server: WebSocketServer,
    pending: PendingConnections,
    tls: ssl.SSLContext | None,
    http_server: HttpServer | None,
) -> type[ServerConnection]:
    from websockets.asyncio.server import ServerConnection
    from websockets.exceptions import ProtocolError

    class Accepted(ServerConnection):
        """A new connection, whose first bytes decide whether it becomes a websocket."""

        def connection_made(self, transport: Any) -> None:
            AcceptedConnection(pending, tls, self.choose_protocol).begin(transport)

        def choose_protocol(self, transport: Any, first_bytes: bytes) -> None:
            if http_server is not None:
                is_websocket = _wants_websocket(first_bytes)
                if is_websocket is None:
                    return
                if not is_websocket:
                    http_server.serve(transport, first_bytes)
                    return
            transport.set_protocol(self)
            clock = asyncio.get_running_loop().time
            self._small_frames = RateLimit(SMALL_FRAMES_AT_ONCE, SMALL_FRAMES_PER_SECOND, clock)
            self._receive_frame = self.protocol.recv_frame
            self.protocol.__dict__["recv_frame"] = self.count_frame
            super().connection_made(transport)
            if first_bytes:
                self.data_received(first_bytes)

        def count_frame(self, frame: Frame) -> None:
            """Count a frame before its content is read: a small one costs the server up to a
            thousand times what it costs the client."""
            if len(frame.data) < LARGE_FRAME and not self._small_frames.try_acquire():
                logger.warning("%s was cut off: too many frames", peer_name(self.remote_address))
                self.transport.abort()
                raise ProtocolError("too many frames")  # ends the parser
            self._receive_frame(frame)

        def connection_lost(self, exc: Exception | None) -> None:
            server.lost(self)
            super().connection_lost(exc)

    return Accepted


def _wants_websocket(first_bytes: bytes) -> bool | None:
    """Return whether the first bytes are a websocket's handshake; None: more bytes are needed. Only
    chooses the server; the chosen server checks the request itself."""
    if not b"GET ".startswith(first_bytes[:4]):
        return False
    head, end, _ = first_bytes.partition(b"\r\n\r\n")
    if not end:
        return None if len(first_bytes) <= HEAD_BYTES else False
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return any(name == b"upgrade" and b"websocket" in value for name, _, value in lines)
