"""Make the HTTP requests of one ACP connection, within limits: POST, event streams and DELETE.

Also handles the token, cookies, proxies, redirects and the limits of an answer. A stream that the
server ends cleanly is opened again: meanwhile the server keeps the events. A stream that breaks off
ends the connection, because lost events are not replayed. Must not know what the messages are.
Loads the package ``httpx`` at the first request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from codex_acp._record import record
from codex_acp.errors import ConnectionClosed
from codex_acp.transport.remote_address import (
    CONNECT_SECONDS,
    RemotePeer,
    current_token,
    is_loopback,
    secrets_of_query,
    without_secrets,
)
from codex_acp.transport.streamable_http import EVENT_STREAM, JSON

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from httpx import AsyncClient, Response

    from codex_acp.transport.remote_address import Token


ANSWER_SECONDS: Final = 60.0
"""Seconds in which an answer that is no stream must be complete. The first answer waits until the
agent has answered ``initialize``."""

BYTES_PER_EXTRA_SECOND: Final = 64 * 1024
"""A second is added to `ANSWER_SECONDS` for each 64 KiB of a message."""

ERROR_TEXT_BYTES: Final = 8 * 1024
"""Bytes of an error's text that are read."""

COOKIE_BYTES: Final = 16 * 1024
"""Most bytes of all cookies together, because every request carries them."""

IDLE_SECONDS: Final = 2.0
"""Seconds that an unused HTTP/1.1 connection is kept. Node closes it after 5: a request of the same
moment would be lost."""

KEEPALIVE: Final = tuple(
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", 20), ("TCP_KEEPALIVE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 60_000),
    )
    if hasattr(socket, name)
)  # fmt: skip
"""Socket options that detect a lost host in a minute (in seconds; TCP_USER_TIMEOUT in ms)."""


@record
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    text: str
    """The beginning of the body for a person, without secrets."""


class NotReached(ConnectionClosed):
    """No connection could be made, so nothing was sent."""


class Refused(Exception):
    """The server refused to open a stream."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(f"{answer.status} {answer.text}")
        self.answer = answer


class HttpRequests:
    """Makes requests to ``url``. If ``token`` is a function, it is called now, and again if the
    token is refused.

    Methods raise ConnectionClosed, after which the connection is over, for every failure that they
    do not name. Failures are also an answer above ``limit`` bytes, a redirect, because it would
    carry token and messages elsewhere, and a compressed body, because it may be of any size.
    """

    def __init__(self, url: str, peer: RemotePeer, limit: int, token: Token | None) -> None:
        self._url = url
        self.peer: RemotePeer = peer
        self.limit: int = limit
        self._token = token
        self._current_token = current_token(token)
        self._only_http2 = False  # set by `first_post`: the server speaks HTTP/2 without TLS
        self._secure = url.startswith("https:")
        # Without TLS there is nothing to verify: do not load the trusted certificates.
        empty_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context = ssl.create_default_context() if self._secure else empty_context
        self._cookies = CookieJar()
        self._poster = self.new_client()

    async def post(self, line: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        headers = {**headers, "Content-Type": JSON, "Accept": JSON}
        return await self._request("POST", headers, line)

    async def first_post(self, line: bytes) -> HttpAnswer:
        """Post the first message; try again for a server that, without TLS, speaks only HTTP/2."""
        from httpx import RemoteProtocolError

        try:
            return await self.post(line, {})
        except ConnectionClosed as failed:
            if not isinstance(failed.__cause__, RemoteProtocolError) or self._secure:
                raise
            self._only_http2 = True
            await self._poster.aclose()
            self._poster = self.new_client()
            try:
                return await self.post(line, {})
            except ConnectionClosed:  # the server speaks neither: report the more usual protocol
                raise failed from failed.__cause__

    async def delete(self, headers: Mapping[str, str]) -> HttpAnswer:
        return await self._request("DELETE", headers, None)

    @asynccontextmanager
    async def stream(
        self, client: AsyncClient, headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open an event stream; yield its chunks as they arrive. Raises Refused."""
        headers = {**headers, "Accept": EVENT_STREAM, "Cache-Control": "no-cache"}
        async with self._response(client, "GET", headers, None) as response:
            if response.status_code != 200:
                raise Refused(await self._read_answer(response))
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if kind != EVENT_STREAM:
                what = self.peer.answered_text(200, f"{kind or 'nothing'} in place of a stream")
                raise ConnectionClosed(what)
            yield self._chunks(response)

    async def aclose(self) -> None:
        await self._poster.aclose()

    async def _request(
        self, method: str, headers: Mapping[str, str], line: bytes | None
    ) -> HttpAnswer:
        seconds = ANSWER_SECONDS + len(line or b"") / BYTES_PER_EXTRA_SECOND
        try:
            async with (
                asyncio.timeout(seconds),
                self._response(self._poster, method, headers, line) as response,
            ):
                return await self._read_answer(response)
        except TimeoutError:
            message = f"{self.peer.name} did not take a message within {seconds:.0f} s"
            raise ConnectionClosed(message) from None

    @asynccontextmanager
    async def _response(
        self, client: AsyncClient, method: str, headers: Mapping[str, str], line: bytes | None
    ) -> AsyncGenerator[Response]:
        """Send a request and yield its response. If the token is refused and there is a new one,
        send the request again."""
        from httpx import ConnectError, HTTPError

        try:
            for is_last in (False, True):
                sent = {"Accept-Encoding": "identity", **headers}
                if self._current_token is not None:
                    sent["Authorization"] = f"Bearer {self._current_token}"
                async with client.stream(method, self._url, headers=sent, content=line) as response:
                    self._check(response)
                    if response.status_code != 401 or is_last or not self._renew_token():
                        yield response
                        return
        except ConnectError as failed:
            raise NotReached(self._why(failed)) from failed
        except HTTPError as failed:
            raise ConnectionClosed(self._why(failed)) from failed

    @property
    def _secrets(self) -> tuple[str | None, ...]:
        """The token, and values of the URL that may be tokens."""
        return (self._current_token, *secrets_of_query(self._url))

    def _renew_token(self) -> bool:
        """Ask for the token again; return whether it has changed."""
        before = self._current_token
        self._current_token = current_token(self._token)
        return self._current_token != before

    def _check(self, response: Response) -> None:
        """Raise ConnectionClosed for a redirect, a compressed body, or too many cookies."""
        if response.has_redirect_location:
            target = without_secrets(response.headers.get("Location", ""), self._secrets)
            raise ConnectionClosed(self.peer.answered_text(response.status_code, "", target=target))
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            what = f"{self.peer.name} compressed its answer ({encoding[:40]}), unasked"
            raise ConnectionClosed(what)
        if sum(len(each.name) + len(each.value or "") for each in self._cookies) > COOKIE_BYTES:
            self._cookies.clear()
            what = f"{self.peer.name} sets more than {COOKIE_BYTES} bytes of cookies"
            raise ConnectionClosed(what)

    async def _read_answer(self, response: Response) -> HttpAnswer:
        ok = response.is_success
        body = bytearray()
        async for chunk in self._chunks(response):
            body += chunk
            if ok and len(body) > self.limit:
                what = f"{self.peer.name} sent a message above the limit of {self.limit} bytes"
                raise ConnectionClosed(what)
            if not ok and len(body) > ERROR_TEXT_BYTES:
                break
        text = body[:ERROR_TEXT_BYTES].decode(errors="replace").strip()
        shown = without_secrets(text, self._secrets)
        return HttpAnswer(response.status_code, response.headers, bytes(body), shown)

    async def _chunks(self, response: Response) -> AsyncIterator[bytes]:
        from httpx import HTTPError

        try:
            async for chunk in response.aiter_raw():
                yield chunk
                await asyncio.sleep(0)  # httpx does not wait between the chunks of one read
        except HTTPError as failed:
            raise ConnectionClosed(self._why(failed)) from failed

    def new_client(self) -> AsyncClient:
        """Make a client, which the caller must close. Each stream needs a client of its own: on one
        HTTP/2 connection, readers of httpx block each other."""
        from httpx import AsyncClient, AsyncHTTPTransport, Limits, Timeout

        # Only requests to another machine with TLS use a proxy, because it cannot read them.
        proxy = _proxy(urlsplit(self._url).hostname or "") if self._secure else None
        transport = AsyncHTTPTransport(
            verify=self._context,
            http1=not self._only_http2,
            http2=self._secure or self._only_http2,
            limits=Limits(keepalive_expiry=IDLE_SECONDS),
            proxy=proxy,
            socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *KEEPALIVE],
        )
        return AsyncClient(
            transport=transport,
            timeout=Timeout(None, connect=CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
            cookies=self._cookies,
        )

    def _why(self, failed: Exception) -> str:
        """Return a text about the failure, for a person."""
        from httpx import ConnectError, ConnectTimeout, RemoteProtocolError

        if isinstance(failed, ConnectTimeout):
            return self.peer.silent_text()
        if isinstance(failed, ConnectError):
            return self.peer.unreachable_text(failed)
        # httpx raises RemoteProtocolError also for a server that hangs up before it answers.
        if isinstance(failed, RemoteProtocolError) and "disconnected" not in str(failed):
            return f"{self.peer.name} broke HTTP: {without_secrets(failed, self._secrets)}"
        why = without_secrets(failed, self._secrets) or type(failed).__name__
        return f"the connection to {self.peer.name} was lost: {why}"


def _proxy(host: str) -> str | None:
    """Return the proxy for a host; none for this machine."""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get("https") or proxies.get("all")
    return f"http://{found}" if found and "://" not in found else found


PAUSES: Final = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before a stream is opened again; the index is the number of failures in a row."""
LASTING_SECONDS: Final = 1.0
"""Seconds after which the end of a stream does not count as a failure, even without a message."""
SILENT_SECONDS: Final = 60.0
"""Seconds without a byte after which a server that sends keep-alive comments counts as gone."""
GONE: Final = (404, 410)
"""Status of an answer about a connection or session that the server no longer knows."""
BUSY: Final = (409, 425, 429, 503)
"""Status of a refusal that may end soon, as while the server still closes the previous stream."""


class HttpStream:
    """One event stream, opened again whenever it ends. ``receive`` gets the messages of each chunk;
    reading waits until it returns."""

    task: Task[None]
    """The task in which `HttpLink` reads the stream. `HttpLink` cancels it to close a session."""

    def __init__(
        self,
        requests: HttpRequests,
        headers: Mapping[str, str],
        receive: Callable[[list[bytes]], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._headers = headers
        self._peer = requests.peer
        self._receive = receive
        self._is_receiving = False  # whether ``receive`` handles messages now
        self._received_at = monotonic()
        self.answered: asyncio.Event = asyncio.Event()
        """Set once the server has opened or refused the stream."""
        self.was_open: bool = False
        """Whether the server has ever opened the stream."""

    async def run(self, client: AsyncClient) -> str:
        """Read the stream until the server no longer knows it; return the status and text of the
        server's answer. Raises ConnectionClosed."""
        failures = 0  # in a row
        while True:
            started_at = monotonic()
            was_useful = False
            try:
                got_message = await self._read(client)
                was_useful = got_message or monotonic() - started_at > LASTING_SECONDS
                why = f"{self._peer.name} closes each stream as soon as it is opened"
                failed = ConnectionClosed(why)
            except Refused as refused:
                self.answered.set()
                answer = refused.answer
                if answer.status in GONE:
                    return f"{answer.status} {answer.text}"
                failed = ConnectionClosed(self._peer.answered_text(answer.status, answer.text))
                if answer.status not in BUSY:
                    raise failed from None
            except NotReached as not_reached:  # the stream was not open: no event can be lost
                failed = not_reached
            failures = 0 if was_useful else failures + 1
            if failures >= len(PAUSES):
                raise failed
            await asyncio.sleep(PAUSES[failures])

    def quiet_for(self, seconds: float) -> bool:
        """Return whether nothing has come for ``seconds``, and ``receive`` is not running."""
        return not self._is_receiving and monotonic() - self._received_at >= seconds

    async def _read(self, client: AsyncClient) -> bool:
        """Read until the server ends the stream cleanly; return whether a message came."""
        got_message = False
        events = EventStream(self._requests.limit)
        async with self._requests.stream(client, self._headers) as chunks:
            self.was_open = True
            self.answered.set()
            while True:
                try:
                    async with asyncio.timeout(SILENT_SECONDS if events.has_keep_alive else None):
                        chunk = await anext(chunks, None)
                except TimeoutError:
                    raise ConnectionClosed(
                        f"the connection to {self._peer.name} was lost: nothing has come for "
                        f"{SILENT_SECONDS:g} s, not even its signs of life"
                    ) from None
                if chunk is None:
                    break
                self._received_at = monotonic()
                try:
                    messages = events.feed(chunk)
                except EventTooLarge as wrong:
                    raise ConnectionClosed(f"{self._peer.name} {wrong}") from None
                if messages:
                    got_message = self._is_receiving = True
                    await self._receive(messages)
                    self._is_receiving = False
        if events.has_unfinished_event:
            raise ConnectionClosed(f"{self._peer.name} broke off in the middle of a message")
        return got_message


# The parser of server-sent events.

MAX_IDLE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of lines without data between two messages: a keep-alive comment has a few bytes."""
MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark, with which a stream may begin."""
DATA: Final = b"data:"


class EventTooLarge(ValueError):
    """An event is too large. The message begins with a verb: the server's name stands before it."""


class EventStream:
    """Parses the chunks of an event stream. ``limit`` is in bytes of one event's data.

    Handles each line when it has come: the lines of one event, taken together, would occupy many
    times the memory of their bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()  # the unfinished line
        self._data = bytearray()  # of the unfinished event, with a line feed behind each line
        self._idle = 0  # bytes of lines without data since the last message
        self._after_return = False  # the last chunk ended with CR, perhaps half of a CR LF
        self._mark = MARK  # what may stand before the first line
        self.has_keep_alive: bool = False
        """Whether a comment has come."""

    @property
    def has_unfinished_event(self) -> bool:
        """Whether a message has begun and not ended."""
        begin = self._line.removeprefix(self._mark)[: len(DATA)]
        return bool(self._data or (begin and DATA.startswith(begin)))

    def feed(self, chunk: bytes) -> list[bytes]:
        """Parse a chunk; return the data of the events that it completes. Raises EventTooLarge."""
        if chunk and self._after_return:
            chunk = chunk.removeprefix(b"\n")  # the second half of a CR LF
            self._after_return = False
        if b"\r" in chunk:
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        messages: list[bytes] = []
        *ends, begin = chunk.split(b"\n")
        for end in ends:
            self._line += end
            self._end_line(self._line.removeprefix(self._mark), messages)
            self._line.clear()
            self._mark = b""
        self._line += begin
        # What stands before the data of a line is no data; only `_end_line` counts exactly.
        if len(self._line) + len(self._data) > self._limit + len(MARK + DATA + b" "):
            self._refuse()
        return messages

    def _end_line(self, line: bytearray, messages: list[bytes]) -> None:
        """Parse a line. If it is empty, it ends an event, whose data is added to ``messages``."""
        if line.startswith(DATA):
            del line[: len(DATA)]
            data = line.removeprefix(b" ")
            if len(self._data) + len(data) > self._limit:
                self._refuse()
            self._data += data + b"\n"
        elif self._data and not line:
            messages.append(bytes(self._data[:-1]))
            self._data.clear()
            self._idle = 0
        else:  # also a bare "data", which adds an empty line: no JSON needs it
            self.has_keep_alive = self.has_keep_alive or line.startswith(b":")
            self._idle += len(line) + 1
            if self._idle > MAX_IDLE_BYTES:
                message = f"sent more than {MAX_IDLE_BYTES} bytes of comments with no message"
                raise EventTooLarge(message)

    def _refuse(self) -> None:
        raise EventTooLarge(f"sent a message above the limit of {self._limit} bytes")
