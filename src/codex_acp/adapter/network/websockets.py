"""Accepting websockets: the handshake behind the door, then one ACP connection each.

With the package ``websockets``, which is loaded when a server is started.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from codex_acp.adapter.network.door import Refusal
from codex_acp.errors import MisuseError
from codex_acp.transport.websocket_server import AcceptedLink

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from socket import socket

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from codex_acp.adapter.network.door import Door
    from codex_acp.adapter.network.hub import Hub
    from codex_acp.adapter.network.tokens import Token

__all__ = ["CONNECTION_ID", "websocket_server"]

logger = logging.getLogger(__name__)

CONNECTION_ID: Final = "Acp-Connection-Id"
"""The header that names a connection: an address, and no secret."""

HANDSHAKE_SECONDS: Final = 10.0
"""For the whole request of a handshake."""

CLOSE_SECONDS: Final = 1.0
"""For the closing handshake; then the connection is cut."""


class WebSocketServer:
    """What is done with each connection."""

    def __init__(self, hub: Hub, door: Door) -> None:
        self._hub = hub
        self._door = door
        self._let_in: dict[ServerConnection, Token] = {}
        self.unasked: set[ServerConnection] = set()
        """Connections that have sent no complete request yet."""

    def request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Let it in, or answer why not."""
        self.unasked.discard(connection)
        found = self._door.check(request.path, request.headers)
        if not isinstance(found, Refusal):
            found = self._door.enter(len(self._let_in)) or found
        if isinstance(found, Refusal):
            self._door.log(found, _who(connection))
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
            self._let_in.pop(connection, None)
        return None

    async def serve(self, connection: ServerConnection) -> None:
        """Serve one that has become a websocket."""
        connection_id = connection.id.hex
        limit = self._door.limits.message_bytes
        link = AcceptedLink(connection, name=f"client {connection_id[:8]}", message_limit=limit)
        logger.info("client %s has come from %s", connection_id[:8], _who(connection))
        try:
            await self._hub.serve(link, link, self._let_in[connection], connection_id)
        finally:
            self._let_in.pop(connection, None)

    def made(self, connection: ServerConnection) -> bool:
        """A stranger has connected; whether there is room for one more."""
        if len(self.unasked) >= self._door.limits.handshakes:
            return False
        self.unasked.add(connection)
        return True

    def lost(self, connection: ServerConnection) -> None:
        """It is gone, perhaps before it has asked for anything."""
        self.unasked.discard(connection)
        self._let_in.pop(connection, None)


@asynccontextmanager
async def websocket_server(
    hub: Hub, door: Door, sock: socket, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Accept on ``sock`` until the end of the block; the connections are ended with it."""
    try:
        from websockets.asyncio.server import ServerConnection, serve
    except ImportError as error:
        message = "websockets is not installed: pip install 'codex-acp-sdk[remote]'"
        raise MisuseError(message) from error
    server = WebSocketServer(hub, door)

    class Counted(ServerConnection):
        """Strangers that say nothing are bounded in number as well as in time."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if not server.made(self):
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            server.lost(self)
            super().connection_lost(exc)

    quiet = logging.getLogger("codex_acp.adapter.network.handshakes")
    quiet.setLevel(logging.CRITICAL)  # a stranger writes no traceback into our log: see `Door.log`
    limits = door.limits
    async with serve(
        server.serve,
        sock=sock,
        ssl=tls,
        process_request=server.request,
        process_response=server.response,
        create_connection=Counted,
        compression=None,
        max_size=limits.message_bytes,
        open_timeout=HANDSHAKE_SECONDS,
        close_timeout=CLOSE_SECONDS,
        ping_interval=limits.ping_seconds,
        ping_timeout=limits.ping_seconds,
        server_header=None,
        logger=quiet,
    ):
        yield


def _who(connection: ServerConnection) -> str:
    address = connection.remote_address
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else "a socket"
