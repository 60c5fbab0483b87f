"""Accept websockets: `AccessControl` checks each handshake, then `Hub` serves an ACP connection.

If the server also serves streamable HTTP, the first bytes of a TCP connection decide between
websocket and HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from anyio import CancelScope
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ProtocolError
from websockets.frames import Frame, Opcode
from websockets.protocol import SERVER, Protocol

from codex_acp.adapter.network.access_control import (
    AccessControl,
    PendingConnections,
    Refusal,
    peer_name,
)
from codex_acp.adapter.network.limits import LARGE_FRAME, RateLimit
from codex_acp.errors import MisuseError
from codex_acp.transport.streamable_http import CONNECTION_ID
from codex_acp.transport.websocket import WebSocketMessages

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from socket import socket

    from websockets.http11 import Request, Response

    from codex_acp.adapter.network.access_control import Token
    from codex_acp.adapter.network.connection import Hub
    from codex_acp.adapter.network.http_server import HttpServer


logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""Seconds for the closing handshake; then the connection is aborted."""

HEAD_BYTES: Final = 16 * 1024
"""Bytes of the longest websocket handshake; `HttpServer` gets a connection with a longer head."""


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


@asynccontextmanager
async def network_server(
    hub: Hub, access: AccessControl, sock: socket, tls: ssl.SSLContext | None, *, http: bool
) -> AsyncIterator[None]:
    """Accept connections on ``sock``; the end of the block ends them. With ``http``, `HttpServer`
    serves the connections that do not become websockets."""
    pending = PendingConnections(access.limits.handshakes)
    http_server: HttpServer | None = None
    if http:
        from codex_acp.adapter.network.http_server import HttpServer

        http_server = HttpServer(hub, access, pending)
    quiet_logger = logging.getLogger("codex_acp.adapter.network.handshakes")
    quiet_logger.setLevel(logging.CRITICAL)  # `AccessControl.log` logs refusals, at a limited rate
    limits, accepted = access.limits, cast("Any", _NewConnection)
    shared = _Shared(hub, access, pending, tls, http_server)
    async with serve(
        accepted.serve_client,
        sock=sock,
        process_request=accepted.check_request,
        process_response=accepted.complete_response,
        create_connection=cast("Any", partial(accepted, shared)),
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


def _count_frames(protocol: Protocol, count: Callable[[Frame], None]) -> None:
    protocol.__dict__["recv_frame"] = count


def check_counting() -> None:
    """Raise MisuseError if this version of websockets does not let its frames be counted."""
    protocol = Protocol(SERVER)
    counted: list[Frame] = []
    _count_frames(protocol, counted.append)
    protocol.receive_data(Frame(Opcode.PING, b"").serialize(mask=True))
    if not counted:
        raise MisuseError("the frames of this version of websockets cannot be counted: use 17")


class _Shared(NamedTuple):
    """The objects that the connections of one server share."""

    hub: Hub
    access: AccessControl
    pending: PendingConnections
    tls: ssl.SSLContext | None
    http_server: HttpServer | None


class _NewConnection(ServerConnection):
    """A new connection, whose first bytes decide whether it becomes a websocket."""

    def __init__(self, shared: _Shared, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shared = shared
        self._received = b""
        self._transports: list[asyncio.Transport] = []
        """The transport of TCP, and that of TLS."""
        self._is_secured = shared.tls is None
        self._is_websocket = False
        self._token: Token | None = None
        """The token that the handshake has shown, until the connection ends."""

    # From TCP to a websocket

    def connection_made(self, transport: Any) -> None:
        self._note_transport(transport)
        if self._shared.tls is None:
            self._choose_server()
        else:
            self._securing = asyncio.create_task(self._secure(self._shared.tls))

    def _note_transport(self, transport: asyncio.Transport) -> None:
        """Note a transport; the connection is pending, also during the TLS handshake."""
        self._transports.append(transport)
        self._shared.pending.add(transport)

    async def _secure(self, tls: ssl.SSLContext) -> None:
        (tcp,), loop = self._transports, asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(tcp, self, tls, server_side=True)
        except (OSError, RuntimeError) as error:  # ssl.SSLError is an OSError
            logger.debug("a TLS handshake has failed: %s", error)
            self._shared.pending.discard(tcp)
            tcp.abort()
            return
        if transport is not None:
            self._shared.pending.discard(tcp)
            self._note_transport(transport)
            self._is_secured = True
            self._choose_server()

    def data_received(self, data: bytes) -> None:
        if self._is_websocket:
            super().data_received(data)
        else:
            self._received += data
            if self._is_secured:
                self._choose_server()

    def _choose_server(self) -> None:
        """Pass the connection to its server, if the received bytes show which server that is."""
        http_server, transport = self._shared.http_server, self._transports[-1]
        is_websocket = http_server is None or _wants_websocket(self._received)
        if http_server is not None and is_websocket is False:
            http_server.serve(transport, self._received)
        elif is_websocket:
            self._is_websocket = True
            clock = asyncio.get_running_loop().time
            self._small_frames = RateLimit(SMALL_FRAMES_AT_ONCE, SMALL_FRAMES_PER_SECOND, clock)
            self._receive_frame = self.protocol.recv_frame
            _count_frames(self.protocol, self._count_frame)
            super().connection_made(transport)
            if self._received:
                super().data_received(self._received)

    def eof_received(self) -> None:
        if self._is_websocket:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        for transport in self._transports:
            self._shared.pending.discard(transport)
        if self._is_websocket:
            self._leave()
            super().connection_lost(exc)

    # A websocket

    def check_request(self, request: Request) -> Response | None:
        """Return None to accept a connection, or the response that refuses the connection."""
        access = self._shared.access
        self._shared.pending.discard(self.transport)
        try:
            token = access.check(request.path, request.headers)
            access.enter(token.owner)
        except Refusal as refusal:
            access.log(refusal, peer_name(self.remote_address))
            response = self.respond(refusal.status, f"{refusal.reason}\n")
            for name, value in refusal.headers:
                response.headers[name] = value
            return response
        self._token = token
        return None

    def complete_response(self, _request: Request, response: Response) -> None:
        """Add the connection's id; if the handshake failed, stop counting the connection."""
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers[CONNECTION_ID] = self.id.hex
        else:
            self._leave()

    async def serve_client(self) -> None:
        """Serve a connection that has become a websocket, to its end."""
        connection_id, token = self.id.hex, self._token
        assert token is not None
        limit = self._shared.access.limits.message_bytes
        link = AcceptedLink(self, name=f"client {connection_id[:8]}", message_limit=limit)
        logger.info("client %s has come from %s", connection_id[:8], peer_name(self.remote_address))
        try:
            await self._shared.hub.serve(link, token, connection_id)
        finally:
            self._leave()

    def _count_frame(self, frame: Frame) -> None:
        """Count a frame before its content is read: small frames cost the server far more than the
        client."""
        if len(frame.data) < LARGE_FRAME and not self._small_frames.try_acquire():
            logger.warning("%s was cut off: too many frames", peer_name(self.remote_address))
            self.transport.abort()
            raise ProtocolError("too many frames")  # ends the parser
        self._receive_frame(frame)

    def _leave(self) -> None:
        """Stop counting the connection of an owner. Idempotent."""
        token, self._token = self._token, None
        if token is not None:
            self._shared.access.leave(token.owner)


def _wants_websocket(first_bytes: bytes) -> bool | None:
    """Return whether the first bytes are a websocket's handshake; None: more bytes are needed. The
    result only chooses the server, which then checks the request."""
    if not b"GET ".startswith(first_bytes[:4]):
        return False
    head, end, _ = first_bytes.partition(b"\r\n\r\n")
    if not end:
        return None if len(first_bytes) <= HEAD_BYTES else False
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return any(name == b"upgrade" and b"websocket" in value for name, _, value in lines)
