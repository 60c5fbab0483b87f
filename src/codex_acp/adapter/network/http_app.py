"""Answer the requests of streamable HTTP, as an ASGI application.

`AccessControl` checks each request as it checks a websocket's handshake. An ACP connection belongs
to one owner; requests of other owners are answered as if the connection did not exist.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import anyio

from codex_acp.adapter.network.access_control import AccessControl, Refusal, only_value
from codex_acp.adapter.network.http_link import AcceptedHttpLink
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.jsonrpc import (
    ErrorResponse,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    decode,
)
from codex_acp.mapping.session_setup import canonical_id
from codex_acp.transport.json_decoding import (
    MAX_BRACKETS,
    TooManyBrackets,
    bounded_loads,
    default_loads,
)
from codex_acp.transport.streamable_http import (
    CONNECTION_ID,
    EVENT_STREAM,
    INITIALIZE,
    JSON,
    NEED_SESSION,
    SESSION_ID,
    session_named,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from codex_acp.adapter.network.access_control import Token
    from codex_acp.adapter.network.connection import Hub
    from codex_acp.adapter.network.http_link import OutgoingStream
    from codex_acp.adapter.network.http_sockets import HttpSocket


logger = logging.getLogger(__name__)

INITIALIZE_BYTES: Final = 1024 * 1024
"""Bytes of the ``initialize`` message, which lists the client's capabilities."""

MAX_SESSION_ID: Final = 256
"""Characters of a session's id in a header."""

_STREAM_HEADERS: Final = (
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-cache, no-transform"),
    ("x-accel-buffering", "no"),  # nginx would hold events back
)

_NO_CONNECTION: Final = "there is no such connection (any more): initialize a new one"

_PREFLIGHT: Final = (
    ("access-control-allow-methods", "GET, POST, DELETE"),
    ("access-control-allow-headers", f"authorization, content-type, {CONNECTION_ID}, {SESSION_ID}"),
    ("access-control-max-age", "600"),
)

BODY_SECONDS: Final = 10.0
"""Seconds for the body of a request; `BODY_RATE` adds time for a large body."""

BODY_RATE: Final = 16 * 1024
"""Bytes of a body that must arrive each second: a slower client occupies memory for too long."""

DISCARDED_BYTES: Final = 64 * 1024
"""Bytes of a refused request's body that are read before the response, because some clients read no
response before they have sent the body."""

DISCARD_SECONDS: Final = 1.0
"""Seconds for reading the body of a refused request."""


def _refuse(status: HTTPStatus, reason: str) -> NoReturn:
    raise Refusal(status, reason)


class Exchange:
    """One HTTP request and its response, bounded in size and time; implements `Headers`. ``scope``,
    ``receive`` and ``send`` are the arguments that ASGI gives an application."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("latin-1")
        self.socket: HttpSocket = scope["state"]["socket"]
        self.version: str = scope["http_version"]
        self._headers = scope["headers"]
        self._receive = receive
        self._send = send
        self._body_complete = False
        self.more_headers: Sequence[tuple[str, str]] = ()
        """Headers that every response gets."""

    # Headers

    def get_all(self, key: str, /) -> list[str]:
        """Return all values of one header; the case of ``key`` does not matter."""
        name = key.lower().encode()
        return [value.decode("latin-1") for each, value in self._headers if each.lower() == name]

    # The request's body

    async def body(self, count_bytes: Callable[[int], None]) -> bytes:
        """Return the whole body. ``count_bytes`` gets the size of each part. Raises Refusal for a
        body that comes too slowly, and what ``count_bytes`` raises."""
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        parts: list[bytes] = []
        try:
            async with asyncio.timeout_at(deadline) as limit:
                while not self._body_complete:
                    part = await self._next_part()
                    if part:
                        count_bytes(len(part))
                        parts.append(part)
                        deadline += len(part) / BODY_RATE
                        limit.reschedule(deadline)
        except TimeoutError:
            raise Refusal(HTTPStatus.REQUEST_TIMEOUT, "the body comes too slowly") from None
        return b"".join(parts)

    async def discard(self, most: int) -> None:
        """Read the rest of the body, at most ``most`` bytes and for `DISCARD_SECONDS`."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._body_complete and most > 0:
                    most -= len(await self._next_part())
        except (TimeoutError, ConnectionError):
            return

    async def wait_until_gone(self) -> None:
        """Wait until the client has disconnected; discard the rest of the body."""
        try:
            while True:
                await self._next_part()
        except ConnectionError:
            return

    async def _next_part(self) -> bytes:
        """Receive the next part of the body. Raises ConnectionError if the client has left."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client is gone")
        self._body_complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    # The response

    async def answer(
        self, status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a whole response. Discard the rest of the request's body meanwhile: else Hypercorn
        would wait for its reader, and read nothing more of the TCP connection."""
        discarding = None if self._body_complete else asyncio.create_task(self.wait_until_gone())
        try:
            await self.begin(status, [*headers, ("content-length", str(len(body)))])
            await self.write(body, more=False)
        finally:
            if discarding is not None:
                discarding.cancel()

    async def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Send the head of a response; `write` sends its body."""
        lines = [*headers, *self.more_headers]
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in lines],
            }
        )

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Send a part of the response's body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})


class _Connection(NamedTuple):
    """An ACP connection that was initialized, and the owner of its token."""

    link: AcceptedHttpLink
    owner: str


class HttpApp:
    """Serve streamable HTTP as an ASGI application."""

    def __init__(self, hub: Hub, access: AccessControl) -> None:
        self._hub = hub
        self._access = access
        self._connections: dict[str, _Connection] = {}
        self._body_bytes: Counter[str] = Counter()
        """Owner → bytes of the bodies that are being received, or that `_pass_on` still has."""

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer one request (the ASGI interface)."""
        if scope["type"] == "http":
            exchange = Exchange(scope, receive, send)
            if exchange.socket.admit_request():
                await self._serve(exchange)
        elif scope["http_version"].startswith("1"):
            # A websocket's handshake that follows other requests on its TCP connection: a proxy
            # that reused the connection retries on a new one.
            scope["state"]["socket"].abort()
        else:
            await send({"type": "websocket.close"})

    async def aclose(self) -> None:
        """End all connections, in bounded time."""
        links = [connection.link for connection in self._connections.values()]
        await asyncio.gather(*(link.aclose() for link in links))

    async def _serve(self, exchange: Exchange) -> None:
        origin = self._access.allowed_origin(exchange)
        if origin is not None:  # allow the page to read the response
            exchange.more_headers = [
                ("access-control-allow-origin", origin),
                ("access-control-expose-headers", CONNECTION_ID),
                ("vary", "Origin"),
            ]
            if exchange.method == "OPTIONS":
                await exchange.answer(HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
                return
        try:
            token = self._access.check(exchange.path, exchange)
            if exchange.get_all("content-length") and exchange.get_all("transfer-encoding"):
                # A proxy in front may see two requests in this one (request smuggling).
                exchange.more_headers = [*exchange.more_headers, ("connection", "close")]
                _refuse(HTTPStatus.BAD_REQUEST, "the body has two lengths")
            if not exchange.socket.authorize(token.owner):
                _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many TCP connections are open")
            if exchange.method == "POST":
                await self._post(exchange, token)
            elif exchange.method == "GET":
                await self._get(exchange, token)
            elif exchange.method == "DELETE":
                self._connection(exchange, token).link.end(None)
                await exchange.answer(HTTPStatus.ACCEPTED)
            else:
                _refuse(HTTPStatus.METHOD_NOT_ALLOWED, "the methods are GET, POST and DELETE")
        except Refusal as refusal:
            self._access.log(refusal, exchange.socket.peer)
            too_large = refusal.status is HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            limit = self._access.limits.message_bytes if too_large else DISCARDED_BYTES
            await exchange.discard(limit)
            headers = [*refusal.headers, ("content-type", "text/plain; charset=utf-8")]
            await exchange.answer(refusal.status, f"{refusal.reason}\n".encode(), headers)
            exchange.socket.count_refusal()
        except ConnectionError:
            logger.debug("a client was gone before it had sent its request")

    # POST

    async def _post(self, exchange: Exchange, token: Token) -> None:
        content_type = only_value(exchange, "content-type") or ""
        is_json = content_type.partition(";")[0].strip().lower() == JSON
        if not is_json or only_value(exchange, "content-encoding") is not None:
            _refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a message is {JSON}, not encoded")
        connection, limit = None, self._access.limits.message_bytes
        if exchange.get_all(CONNECTION_ID):
            connection = self._connection(exchange, token)
        else:
            limit = min(limit, INITIALIZE_BYTES)
        with self._body_counter(token.owner, limit) as count_bytes:
            body = await exchange.body(count_bytes)
            message = _decode_message(body)
            is_initialize = isinstance(message, Request) and message.method == INITIALIZE
            if connection is not None:
                if is_initialize:
                    _refuse(HTTPStatus.BAD_REQUEST, f"{INITIALIZE} makes a connection of its own")
                await self._pass_on(exchange, connection, message, body)
            elif isinstance(message, Request) and is_initialize:
                await self._initialize(exchange, token, message, body)
            else:
                _refuse(HTTPStatus.BAD_REQUEST, f"{CONNECTION_ID} is missing")

    @contextmanager
    def _body_counter(self, owner: str, limit: int) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts the bytes of a body. It refuses a body above ``limit``, and
        a body that, with the owner's other bodies, is larger than the two largest messages."""
        received = 0

        def count_bytes(count: int) -> None:
            nonlocal received
            received += count
            self._body_bytes[owner] += count
            if received > limit:
                reason = f"a message has at most {limit} bytes"
                _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
            if self._body_bytes[owner] > 2 * self._access.limits.message_bytes:
                _refuse(HTTPStatus.TOO_MANY_REQUESTS, "too much is sent at once")

        try:
            yield count_bytes
        finally:
            self._body_bytes[owner] -= received

    async def _initialize(
        self, exchange: Exchange, token: Token, request: Request, body: bytes
    ) -> None:
        self._access.enter(token.owner)
        connection_id = secrets.token_hex(16)
        limits = self._access.limits
        name = f"client {connection_id[:8]}"
        link = AcceptedHttpLink(name, idle_seconds=limits.idle_seconds, streams=limits.streams)
        self._connections[connection_id] = _Connection(link, token.owner)
        logger.info("%s has come from %s, HTTP/%s", name, exchange.socket.peer, exchange.version)
        self._hub.registry.spawn(partial(self._run, connection_id, link, token))
        is_initialized = False
        try:
            answer = await link.initialize(request, body, limits.initialize_seconds)
            is_initialized = isinstance(decode(answer, default_loads()), Response)
        except TransportError as error:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from error
        finally:
            if not is_initialized:
                link.end(None)
        headers = [("content-type", JSON)]
        if is_initialized:
            await exchange.answer(HTTPStatus.OK, answer, [*headers, (CONNECTION_ID, connection_id)])
        else:
            await exchange.answer(HTTPStatus.BAD_REQUEST, answer, headers)

    async def _run(self, connection_id: str, link: AcceptedHttpLink, token: Token) -> None:
        try:
            await self._hub.serve(link, token, connection_id)
        finally:
            link.end(None)
            del self._connections[connection_id]
            self._access.leave(token.owner)

    async def _pass_on(
        self, exchange: Exchange, connection: _Connection, message: Message | Malformed, body: bytes
    ) -> None:
        session = self._session(exchange)
        match message:
            case Request() | Notification():
                if session is None and message.method in NEED_SESSION:
                    _refuse(HTTPStatus.BAD_REQUEST, f"{SESSION_ID} is missing")
                named = session_named(message.params)
                if named is not None and session is None:
                    connection.link.expect(canonical_id(named))
                elif named is not None and session != canonical_id(named):
                    _refuse(HTTPStatus.BAD_REQUEST, f"{SESSION_ID} is not the message's sessionId")
            case Response() | ErrorResponse():
                asking_session = connection.link.session_of_question(message)
                if session is not None and asking_session and session != asking_session:
                    _refuse(HTTPStatus.BAD_REQUEST, f"{SESSION_ID} is not that of the question")
            case Malformed():
                session = None
        if session is not None and not self._hub.registry.owns(connection.owner, session):
            session = None  # no client may read the session's stream: use the connection's stream
        try:
            async with asyncio.timeout(self._access.limits.stall_seconds):
                await connection.link.post(message, body, session)
        except TimeoutError:
            _refuse(HTTPStatus.TOO_MANY_REQUESTS, "the connection leaves its answers unread")
        except ConnectionClosed as error:
            raise Refusal(HTTPStatus.NOT_FOUND, _NO_CONNECTION) from error
        await exchange.answer(HTTPStatus.ACCEPTED)

    # GET

    async def _get(self, exchange: Exchange, token: Token) -> None:
        if not any(EVENT_STREAM in accepted.lower() for accepted in exchange.get_all("accept")):
            _refuse(HTTPStatus.NOT_ACCEPTABLE, f"a stream is {EVENT_STREAM}")
        link = self._connection(exchange, token).link
        session = self._session(exchange)
        if session is not None and not self._hub.registry.owns(token.owner, session):
            _refuse(HTTPStatus.NOT_FOUND, "there is no such session")
        if link.has_max_streams:
            _refuse(HTTPStatus.TOO_MANY_REQUESTS, "the connection has too many streams")
        stream = link.open_stream(session)
        if stream is None:
            _refuse(HTTPStatus.CONFLICT, "somebody reads this stream already")

        async def abort_when_gone() -> None:
            await exchange.wait_until_gone()
            stream.abort_reader()

        try:
            async with anyio.create_task_group() as tasks:
                stream.abort_reader = tasks.cancel_scope.cancel
                tasks.start_soon(abort_when_gone)
                await exchange.begin(HTTPStatus.OK, _STREAM_HEADERS)
                await self._send_events(exchange, link, stream)
                tasks.cancel_scope.cancel()
        finally:
            link.release(session, stream)

    async def _send_events(
        self, exchange: Exchange, link: AcceptedHttpLink, stream: OutgoingStream
    ) -> None:
        loop, limits = asyncio.get_running_loop(), self._access.limits

        def give_up() -> None:
            reason = f"it has left updates unread for {limits.stall_seconds:g} s"
            logger.warning("%s is disconnected: %s", exchange.socket.peer, reason)
            link.end(ConnectionClosed(reason))
            exchange.socket.abort_if_stuck()
            stream.abort_reader()

        while (events := await stream.next_bytes(limits.ping_seconds)) is not None:
            stall = loop.call_later(limits.stall_seconds, give_up)
            try:
                await exchange.write(events)
            finally:
                stall.cancel()
        await exchange.write(b"", more=False)

    # The connection and the session of a request

    def _connection(self, exchange: Exchange, token: Token) -> _Connection:
        connection_id = only_value(exchange, CONNECTION_ID)
        if connection_id is None:
            _refuse(HTTPStatus.BAD_REQUEST, f"{CONNECTION_ID} is missing")
        connection = self._connections.get(connection_id)
        if connection is None or connection.owner != token.owner or connection.link.ended:
            _refuse(HTTPStatus.NOT_FOUND, _NO_CONNECTION)
        return connection

    def _session(self, exchange: Exchange) -> str | None:
        """Return the session that the request's header names; None without the header."""
        values = exchange.get_all(SESSION_ID)
        if not values:
            return None
        if len(values) > 1 or not 0 < len(values[0]) <= MAX_SESSION_ID:
            _refuse(HTTPStatus.BAD_REQUEST, f"{SESSION_ID} names no session")
        return canonical_id(values[0])


def _decode_message(body: bytes) -> Message | Malformed:
    """Decode the posted body. Raises Refusal unless it is one JSON object."""
    try:
        value = bounded_loads(body)
    except TooManyBrackets:
        _refuse(HTTPStatus.BAD_REQUEST, f"the body has more than {MAX_BRACKETS} brackets")
    except ValueError:
        _refuse(HTTPStatus.BAD_REQUEST, "the body is not valid JSON")
    if isinstance(value, list):
        _refuse(HTTPStatus.NOT_IMPLEMENTED, "batches are not supported")
    if not isinstance(value, dict):
        _refuse(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return decode(body, lambda _: value)
