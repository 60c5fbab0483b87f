"""Make the HTTP requests of one ACP connection, within limits: posts, event streams, the goodbye.

Owns the token, cookies, proxies, redirects and what an answer may hold. A stream is opened again
where nothing can have been lost: one that the server ends in order has lost nothing, since the
server keeps what comes until the next one asks. One that breaks off may have, and nobody replays
it, so it ends the connection. Must not know what the messages are. The package ``httpx`` is loaded
when it is needed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from codex_acp._record import record
from codex_acp.errors import ConnectionClosed
from codex_acp.transport.remote_address import (
    CONNECT_SECONDS,
    RemotePeer,
    is_loopback,
    secrets_of_query,
    without_secrets,
)
from codex_acp.transport.streamable_http import EVENT_STREAM, JSON

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Mapping,
        Sequence,
    )

    from httpx import AsyncClient, Response


ANSWER_SECONDS: Final = 60.0
"""For the whole of an answer but a stream's: the first waits for the agent's ``initialize``."""

SLOWEST_BYTES: Final = 64 * 1024
"""A second that a large message may take besides."""

WORDS_BYTES: Final = 8 * 1024
"""Read of an answer that only says what is wrong."""

COOKIE_BYTES: Final = 16 * 1024
"""Bytes of all cookies together: each request carries them."""

STREAMS_A_CLIENT: Final = 1
"""Of HTTP/2 as well: httpx lets the readers of a connection read in turns, so that what has come
for the third of them waits until more has come for the second."""

IDLE_SECONDS: Final = 2.0
"""How long an HTTP/1.1 connection is kept for the next request: node closes it after 5, maybe in
the moment in which it is used."""

KEEPALIVE: Final = tuple(
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", 20), ("TCP_KEEPALIVE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 60_000),
    )
    if hasattr(socket, name)
)  # fmt: skip
"""A host that is gone is noticed after a minute."""


@record
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    shown: Sequence[str | None]
    """The token, and what of the address may be one."""

    @property
    def words(self) -> str:
        """Return the answer in words, for a person."""
        said = self.body[:WORDS_BYTES].decode(errors="replace").strip()
        return without_secrets(said, self.shown)


class NotReached(ConnectionClosed):
    """There was no connection, so that nothing was sent."""


class Refused(Exception):
    """A stream was not opened."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(f"{answer.status} {answer.words}")
        self.answer = answer


class HttpRequests:
    """``token`` is asked for at first, and again when it is refused: it may have expired.

    What is above ``limit`` bytes ends the connection, as does what nobody needs: a redirect, which
    would take the token and what is said elsewhere; a body that is compressed, which may be any
    size. Everything raises ConnectionClosed with what happened, besides what it says.
    """

    def __init__(
        self, url: str, peer: RemotePeer, limit: int, token: Callable[[], str] | None
    ) -> None:
        self._url = url
        self.peer: RemotePeer = peer
        self.limit: int = limit
        self._token = token
        self._shown = None if token is None else token().strip()
        self._only_http2 = False
        self._secure = url.startswith("https:")
        # Without TLS there is nothing to verify, and what is trusted is not worth its loading.
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context = ssl.create_default_context() if self._secure else plain
        self._poster = self._client()
        self._streamers: list[tuple[AsyncClient, set[object]]] = []

    async def post(self, line: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        headers = {**headers, "Content-Type": JSON, "Accept": JSON}
        return await self._ask("POST", headers, line)

    async def first_post(self, line: bytes) -> HttpAnswer:
        """Send the first message; also to a server that speaks HTTP/2 only, without TLS."""
        from httpx import RemoteProtocolError

        try:
            return await self.post(line, {})
        except ConnectionClosed as failed:
            if not isinstance(failed.__cause__, RemoteProtocolError) or self._secure:
                raise
            self._only_http2 = True
            await self._poster.aclose()
            self._poster = self._client()
            try:
                return await self.post(line, {})
            except ConnectionClosed:
                raise failed from failed.__cause__

    async def delete(self, headers: Mapping[str, str]) -> HttpAnswer:
        return await self._ask("DELETE", headers, None)

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """An event stream, as it arrives. Raises Refused."""
        headers = {**headers, "Accept": EVENT_STREAM, "Cache-Control": "no-cache"}
        place = object()
        found = next((each for each in self._streamers if len(each[1]) < STREAMS_A_CLIENT), None)
        if found is None:
            found = self._client(), set()
            self._streamers.append(found)
        client, places = found
        places.add(place)
        try:
            async with self._answered(client, "GET", headers, None) as response:
                if response.status_code != 200:
                    raise Refused(await self._whole(response))
                kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                if kind != EVENT_STREAM:
                    what = self.peer.answered(200, f"{kind or 'nothing'} in place of a stream")
                    raise ConnectionClosed(what)
                yield self._chunks(response)
        finally:
            places.discard(place)

    async def aclose(self) -> None:
        for client in (self._poster, *(client for client, _ in self._streamers)):
            await client.aclose()

    async def _ask(self, method: str, headers: Mapping[str, str], line: bytes | None) -> HttpAnswer:
        seconds = ANSWER_SECONDS + len(line or b"") / SLOWEST_BYTES
        try:
            async with (
                asyncio.timeout(seconds),
                self._answered(self._poster, method, headers, line) as response,
            ):
                return await self._whole(response)
        except TimeoutError:
            message = f"{self.peer.name} did not take a message within {seconds:.0f} s"
            raise ConnectionClosed(message) from None

    @asynccontextmanager
    async def _answered(
        self, client: AsyncClient, method: str, headers: Mapping[str, str], line: bytes | None
    ) -> AsyncGenerator[Response]:
        """The head of an answer; with another token if the first is refused."""
        from httpx import ConnectError, HTTPError

        try:
            for is_last in (False, True):
                own = {"Accept-Encoding": "identity"}
                if self._shown is not None:
                    own["Authorization"] = f"Bearer {self._shown}"
                async with client.stream(
                    method, self._url, headers={**own, **headers}, content=line
                ) as response:
                    self._check(response)
                    if response.status_code != 401 or is_last or not self._has_another_token():
                        yield response
                        return
        except ConnectError as failed:
            raise NotReached(self._why(failed)) from failed
        except HTTPError as failed:
            raise ConnectionClosed(self._why(failed)) from failed

    @property
    def _secrets(self) -> tuple[str | None, ...]:
        return (self._shown, *secrets_of_query(self._url))

    def _has_another_token(self) -> bool:
        before = self._shown
        self._shown = None if self._token is None else self._token().strip()
        return self._shown != before

    def _check(self, response: Response) -> None:
        """Raises ConnectionClosed for what this side does not take."""
        if response.has_redirect_location:
            where = without_secrets(response.headers.get("Location", ""), self._secrets)
            raise ConnectionClosed(self.peer.answered(response.status_code, "", where))
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            what = f"{self.peer.name} compressed its answer ({encoding[:40]}), unasked"
            raise ConnectionClosed(what)
        cookies = self._poster.cookies.jar
        if sum(len(each.name) + len(each.value or "") for each in cookies) > COOKIE_BYTES:
            cookies.clear()
            what = f"{self.peer.name} sets more than {COOKIE_BYTES} bytes of cookies"
            raise ConnectionClosed(what)

    async def _whole(self, response: Response) -> HttpAnswer:
        ok = response.is_success
        body = bytearray()
        async for chunk in self._chunks(response):
            body += chunk
            if ok and len(body) > self.limit:
                what = f"{self.peer.name} sent a message above the limit of {self.limit} bytes"
                raise ConnectionClosed(what)
            if not ok and len(body) > WORDS_BYTES:
                break
        return HttpAnswer(response.status_code, response.headers, bytes(body), self._secrets)

    async def _chunks(self, response: Response) -> AsyncIterator[bytes]:
        from httpx import HTTPError

        try:
            async for chunk in response.aiter_raw():
                yield chunk
        except HTTPError as failed:
            raise ConnectionClosed(self._why(failed)) from failed

    def _client(self) -> AsyncClient:
        """Verifies certificates by those that this machine trusts."""
        from httpx import AsyncClient, AsyncHTTPTransport, Limits, Timeout

        transport = AsyncHTTPTransport(
            verify=self._context,
            http1=not self._only_http2,
            http2=self._secure or self._only_http2,
            limits=Limits(keepalive_expiry=IDLE_SECONDS),
            proxy=_proxy(urlsplit(self._url).hostname or "") if self._secure else None,
            socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *KEEPALIVE],
        )
        first = getattr(self, "_poster", None)
        return AsyncClient(
            transport=transport,
            timeout=Timeout(None, connect=CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
            cookies=None if first is None else first.cookies.jar,
        )

    def _why(self, failed: Exception) -> str:
        """Return the failure in words, for a person."""
        from httpx import ConnectError, ConnectTimeout, RemoteProtocolError

        if isinstance(failed, ConnectTimeout):
            return self.peer.silent()
        if isinstance(failed, ConnectError):
            return self.peer.unreachable(failed)
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
"""Seconds before each attempt to open a stream again that brought nothing the last time."""
LASTING_SECONDS: Final = 1.0
"""A stream that was open for so long was not closed at once."""
SILENT_SECONDS: Final = 60.0
"""Without a byte from a server that said by a comment that it is there: it no longer is."""
GONE: Final = (404, 410)
"""The server no longer knows what it was asked about."""
BUSY: Final = (409, 425, 429, 503)
"""Not now: the stream before this one may not be closed yet."""


class HttpStream:
    """``take`` is given the messages as they come, some at once, and may hold up the reading."""

    task: Task[None]
    """Task that reads the stream."""

    def __init__(
        self,
        requests: HttpRequests,
        headers: Mapping[str, str],
        take: Callable[[list[bytes]], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._headers = headers
        self._peer = requests.peer
        self._take = take
        self._taking = False
        self._heard_at = self._now()
        self.answered: asyncio.Event = asyncio.Event()
        """Set once the server has said whether there is such a stream."""
        self.was_open: bool = False
        """Whether there was one."""

    async def run(self) -> str:
        """Until the server no longer knows it, in its own words. Raises ConnectionClosed."""
        in_vain = 0
        while True:
            begun = self._now()
            heard = False
            try:
                heard = await self._read()
            except Refused as refused:
                self.answered.set()
                answer = refused.answer
                if answer.status in GONE:
                    return f"{answer.status} {answer.words}"
                if answer.status not in BUSY or in_vain + 1 >= len(PAUSES):
                    why = self._peer.answered(answer.status, answer.words)
                    raise ConnectionClosed(why) from None
            except NotReached:  # so nothing was on its way
                if in_vain + 1 >= len(PAUSES):
                    raise
            in_vain = 0 if heard or self._now() - begun > LASTING_SECONDS else in_vain + 1
            if in_vain >= len(PAUSES):
                message = f"{self._peer.name} closes each stream as soon as it is opened"
                raise ConnectionClosed(message)
            await asyncio.sleep(PAUSES[in_vain])

    def quiet_for(self, seconds: float) -> bool:
        """Whether nothing has come for so long, and nothing waits to be taken."""
        return not self._taking and self._now() - self._heard_at >= seconds

    async def _read(self) -> bool:
        """Until the server ends it in order; whether there was a message."""
        heard = False
        events = EventStream(self._requests.limit)
        async with self._requests.stream(self._headers) as chunks:
            self.was_open = True
            self.answered.set()
            while True:
                try:
                    async with asyncio.timeout(SILENT_SECONDS if events.commented else None):
                        chunk = await anext(chunks, None)
                except TimeoutError:
                    raise ConnectionClosed(
                        f"the connection to {self._peer.name} was lost: nothing has come for "
                        f"{SILENT_SECONDS:g} s, not even its signs of life"
                    ) from None
                if chunk is None:
                    break
                self._heard_at = self._now()
                try:
                    messages = events.feed(chunk)
                except EventTooLarge as wrong:
                    raise ConnectionClosed(f"{self._peer.name} {wrong}") from None
                if messages:
                    heard = self._taking = True
                    await self._take(messages)
                    self._taking = False
        if events.inside:
            raise ConnectionClosed(f"{self._peer.name} broke off in the middle of a message")
        return heard

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


# Server-sent events: bytes to the data of each event, with a limit on what is held.

MAX_IDLE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of comments and unused fields between two events: a sign of life is a few bytes."""
FIELD_BYTES: Final = 8
"""Bytes of a line that tell its field: a byte order mark and ``data:``."""
MARK: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event of the stream is too large; the message goes on from the sender's name."""


class EventStream:
    """Takes chunks, gives what the events hold. ``limit`` is in bytes of one event's data."""

    __slots__ = (
        "_after_return", "_data", "_first", "_idle", "_limit", "_line", "_skipping", "commented",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data = bytearray()
        self._idle = 0
        self._skipping = False
        self._after_return = False
        self._first = True
        self.commented: bool = False
        """Whether there was anything besides messages, as a sign of life."""

    @property
    def inside(self) -> bool:
        """Whether an event has begun that has not ended."""
        return bool(self._data or self._line.lstrip(MARK))

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; the data of the events that it completes. Raises EventTooLarge."""
        if b"\r" in chunk or self._after_return:
            if self._after_return and chunk.startswith(b"\n"):
                chunk = chunk[1:]
            elif not chunk:
                return []
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._skipping or self._line:
                self._take_part(part)
                line = bytes(self._line)
                self._line.clear()
                if self._skipping:
                    self._skipping = False
                    continue
            else:
                line = part
            self._take_line(line, events)
        if rest:
            self._take_part(rest)
        return events

    def _take_part(self, part: bytes) -> None:
        """A part of a line; nothing is kept of one whose field has no use."""
        if self._skipping:
            self._count_idle(len(part))
            return
        self._line += part
        if len(self._line) >= FIELD_BYTES and not (
            self._line.startswith(b"data:")
            or (self._first and self._line.startswith(MARK + b"data:"))
        ):
            self._skipping, self._first = True, False
            self._count_idle(len(self._line))
            self._line.clear()
        elif len(self._line) + len(self._data) > self._limit + FIELD_BYTES:
            self._refuse()

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(MARK)
        if not line:
            if self._data:
                events.append(bytes(self._data[:-1]))
                self._data.clear()
                self._idle = 0
            return
        if line.startswith(b"data:"):
            begin = 6 if line[5:6] == b" " else 5
            if len(line) - begin + len(self._data) > self._limit:
                self._refuse()
            self._data += line[begin:]
            self._data += b"\n"
        else:  # also a bare "data", which adds an empty line: no JSON needs it
            self._count_idle(len(line) + 1)

    def _count_idle(self, size: int) -> None:
        self.commented = True
        self._idle += size
        if self._idle > MAX_IDLE_BYTES:
            message = f"sent more than {MAX_IDLE_BYTES} bytes of comments with no message"
            raise EventTooLarge(message)

    def _refuse(self) -> None:
        raise EventTooLarge(f"sent a message above the limit of {self._limit} bytes")
