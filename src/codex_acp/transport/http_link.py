"""Make a client's link of ACP over streamable HTTP: post lines, read messages from event streams.

The connection has one stream, and each session has one. `start` loads the package ``httpx`` and
connects; a failure to connect ends the link, like any later failure.
Source: the RFD ``streamable-http-websocket-transport`` of the Agent Client Protocol.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError
from codex_acp.jsonrpc import DEFAULT_LINE_LIMIT
from codex_acp.transport.http_requests import (
    GONE,
    PAUSES,
    HttpAnswer,
    HttpRequests,
    HttpStream,
    NotReached,
)
from codex_acp.transport.link import CLOSE_SECONDS, MessageLink
from codex_acp.transport.remote_address import TOKEN_HINT, RemotePeer
from codex_acp.transport.streamable_http import CONNECTION_ID, SESSION_ID, HttpRoutes, Outgoing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.jsonrpc import RequestId
    from codex_acp.transport.remote_address import Token

logger = logging.getLogger(__name__)

OPEN_SECONDS: Final = 0.25
"""Seconds that a message waits until the stream of its answer is open. Then it is sent anyway: some
servers report an open stream only with its first event, and keep earlier events for the stream."""

QUIET_SECONDS: Final = 0.05
"""Seconds without an event after which the history of a ``session/load`` counts as complete. The
answer to ``session/load`` may come on another stream, and two streams have no common order."""

HISTORY_SECONDS: Final = 5.0
"""Most seconds that the answer to ``session/load`` waits for the history."""

MAX_STREAMS: Final = 1024
"""Most sessions of one connection that have a stream."""

MAX_ID: Final = 1024
"""Most characters of an id in a header."""


class HttpLink(MessageLink):
    """A `Link` to an agent at an ``http://`` or ``https://`` URL.

    ``name`` names the agent in error messages. A function as ``token`` is called when the link
    connects, and again when the server refuses the token. The link ends with ConnectionClosed after
    a message above ``message_limit`` bytes, or when the connection fails or breaks: then messages
    may be lost, and a session must be opened again to get them. `MessageLink` calls `_converse` and
    `_send`, and delivers messages while `_may_read` is set.

    Raises MisuseError if the package httpx is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        token: Token | None = None,
        message_limit: int = DEFAULT_LINE_LIMIT,
    ) -> None:
        if find_spec("httpx") is None or find_spec("h2") is None:
            raise MisuseError("httpx[http2] is not installed: pip install 'codex-acp-sdk[http]'")
        super().__init__(name)
        self._url = url
        self._peer = RemotePeer(name, "ACP agent", TOKEN_HINT)
        self._token = token
        self._limit = message_limit
        self._routes = HttpRoutes()
        self._streams: dict[str | None, HttpStream] = {}  # by session; None: of the connection
        self._stream_tasks: set[asyncio.Task[None]] = set()
        self._headers: dict[str, str] = {}  # of every request; empty until there is a connection

    async def _converse(self) -> TransportError | None:
        self._requests = HttpRequests(self._url, self._peer, self._limit, self._token)
        self._lost: asyncio.Future[TransportError] = asyncio.get_running_loop().create_future()
        sender = asyncio.ensure_future(self._send_all())
        try:
            ends: set[asyncio.Future[Any]] = {sender, self._lost}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return self._lost.result() if self._lost.done() else sender.result()
        finally:
            tasks: set[asyncio.Future[Any]] = {sender, *self._stream_tasks}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            if not sender.cancelled():
                sender.exception()  # else asyncio logs it
            with suppress(TransportError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    if self._headers:
                        await self._requests.delete(self._headers)
            await self._requests.aclose()

    async def _send(self, line: bytes) -> None:
        message = self._routes.outgoing(line)
        session = message.session
        if not self._connected:  # ``initialize``, which is answered at once
            answer = await self._requests.first_post(line)
            connection_id = answer.headers.get(CONNECTION_ID, "")
            answered = self._routes.is_answer(answer.body, message.request_id)
            if answer.status in (401, 403) or not answered:
                raise ConnectionClosed(self._peer.answered_text(answer.status, answer.text))
            if _fits_header(connection_id):
                self._headers = {CONNECTION_ID: connection_id}
                self._connected = True
            elif answer.status == 200:
                what = f"it gave no {CONNECTION_ID} that can be used"
                raise ConnectionClosed(f"{self._name} is no {self._peer.kind}: {what}")
            await self._receive([answer.body], None)
            if self._connected:  # else the answer was an error: `initialize` may be sent again
                await self._open_stream(None)
        elif session is None:
            await self._check(message, await self._post(line, self._headers))
        elif not _fits_header(session):
            why = f"the session id {session[:80]!r} fits no HTTP header"
            await self._fail_message(message, why)
        elif message.method is not None and not await self._open_stream(session):
            await self._fail_message(message, f"{MAX_STREAMS} sessions are open on this connection")
        else:
            answer = await self._post(line, {**self._headers, SESSION_ID: session})
            if answer.status not in GONE:
                await self._check(message, answer)
            elif message.request_id is None:  # a cancel, say, whose session has just ended
                await self._fail_message(message, f"it does not know the session {session!r}")
            else:  # some servers refuse the header of a session that is not loaded yet
                await self._check(message, await self._post(line, self._headers))

    async def _post(self, line: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post a line; try again only if no part of it was sent: else the server may have it."""
        for pause in PAUSES:  # the first pause is 0
            await asyncio.sleep(pause)
            with suppress(NotReached):
                return await self._requests.post(line, headers)
        return await self._requests.post(line, headers)

    async def _check(self, message: Outgoing, answer: HttpAnswer) -> None:
        """Report the failure of a posted message, if the server's answer is an error."""
        if 200 <= answer.status < 300:
            return
        if answer.status in (401, 403):
            raise ConnectionClosed(self._peer.answered_text(answer.status, answer.text))
        why = f"{self._name} did not take it: {answer.status} {answer.text[:200]}"
        if message.request_id is None:
            raise ConnectionClosed(why)
        await self._fail_message(message, why)

    async def _fail_message(self, message: Outgoing, why: str) -> None:
        """Fail a request, or drop another message, that cannot be sent; the connection stays."""
        if message.request_id is None:
            what = message.method or "an answer"
            logger.warning("%s was not sent to %s: %s", what, self._name, why)
        else:
            await self._fail_request(message.request_id, why)

    async def _fail_request(self, request_id: RequestId, why: str) -> None:
        line = self._routes.error_answer(request_id, why)
        if line is not None:
            await self._may_read.wait()
            self._deliver(line.rstrip())

    async def _open_stream(self, session: str | None) -> bool:
        """Open a session's stream, and wait a moment for it; return False if there are too many."""
        if not self._start_stream(session):
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._streams[session].answered.wait(), OPEN_SECONDS)
        return True

    def _start_stream(self, session: str | None) -> bool:
        """Start to read a session's stream; return False if there are too many."""
        if session in self._streams:
            return True
        if len(self._streams) > MAX_STREAMS:
            return False
        headers = self._headers if session is None else {**self._headers, SESSION_ID: session}
        receive = partial(self._receive, session=session)
        stream = self._streams[session] = HttpStream(self._requests, headers, receive)
        stream.task = task = asyncio.create_task(self._read_stream(stream, session))
        self._stream_tasks.add(task)
        task.add_done_callback(self._stream_tasks.discard)
        return True

    async def _read_stream(self, stream: HttpStream, session: str | None) -> None:
        """Deliver a stream until it ends for good. Then end the connection, or fail the requests of
        the session."""
        try:
            async with self._requests.new_client() as client:
                reason = await stream.run(client)
        except TransportError as failed:
            self._lose(failed)
            return
        except Exception as failed:
            logger.exception("a stream of %s failed", self._name)
            self._lose(ConnectionClosed(self._why(failed)))
            return
        if session is None:
            what = f"{self._name} no longer knows this connection: {reason}"
            self._lose(ConnectionClosed(what))
            return
        del self._streams[session]
        if stream.was_open:
            why = f"{self._name} no longer knows the session: {reason}"
            for request_id in self._routes.unanswered(session):
                await self._fail_request(request_id, why)

    def _lose(self, error: TransportError) -> None:
        """End the connection with ``error``."""
        if not self._lost.done():
            self._lost.set_result(error)

    async def _receive(self, messages: list[bytes], session: str | None) -> None:
        """Deliver the messages of a session's stream; None: of the connection's stream."""
        ready: list[bytes] = []
        for message in messages:
            arrived = self._routes.arrived(message, session)
            if arrived.duplicate:
                continue
            if arrived.replayed_session is not None and arrived.replayed_session != session:
                await self._wait_for_history(arrived.replayed_session)
            if arrived.opened_session is not None and _fits_header(arrived.opened_session):
                self._start_stream(arrived.opened_session)
            ready.append(message)
            closed = arrived.closed_session
            if closed is not None and closed in self._streams:
                self._streams.pop(closed).task.cancel()
        await self._may_read.wait()
        if ready:
            self._deliver(*ready)

    async def _wait_for_history(self, session: str) -> None:
        """Wait until a session's stream has delivered the replayed history."""
        stream = self._streams.get(session)
        with suppress(TimeoutError):
            async with asyncio.timeout(HISTORY_SECONDS):
                # No event reports that the stream is quiet.
                while stream is not None and not stream.quiet_for(QUIET_SECONDS):  # noqa: ASYNC110
                    await asyncio.sleep(QUIET_SECONDS / 5)


def _fits_header(text: str) -> bool:
    is_short = 0 < len(text) <= MAX_ID
    return is_short and text.isascii() and text.isprintable() and text == text.strip()
