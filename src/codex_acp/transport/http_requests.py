"""The HTTP requests of one ACP connection: posts, event streams and the goodbye, within limits.

Owns the token, cookies, proxies, redirects and what an answer may hold. Must not know what the
messages are. The package ``httpx`` is loaded when it is needed.
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
from codex_acp.transport.remote_address import is_loopback
from codex_acp.transport.remote_peer import (
    CONNECT_SECONDS,
    RemotePeer,
    secrets_of_query,
    without_secrets,
)
from codex_acp.transport.streamable_http import EVENT_STREAM, JSON

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

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
    """Answer to a request."""

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

    @property
    def said(self) -> tuple[int, str]:
        """For `RemotePeer.answered`."""
        return self.status, self.words


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
        self._peer = peer
        self._limit = limit
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
        """Send a message."""
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
        """Say goodbye."""
        return await self._ask("DELETE", headers, None)

    @asynccontextmanager
    async def stream(self, headers: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """An event stream, as it arrives. Raises Refused."""
        headers = {**headers, "Accept": EVENT_STREAM, "Cache-Control": "no-cache"}
        place = object()
        client, places = self._room_for(place)
        try:
            async with self._answered(client, "GET", headers, None) as response:
                if response.status_code != 200:
                    raise Refused(await self._whole(response))
                kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                if kind != EVENT_STREAM:
                    what = self._peer.answered(200, f"{kind or 'nothing'} in place of a stream")
                    raise ConnectionClosed(what)
                yield self._chunks(response)
        finally:
            places.discard(place)

    async def aclose(self) -> None:
        """Close all connections."""
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
            message = f"{self._peer.name} did not take a message within {seconds:.0f} s"
            raise ConnectionClosed(message) from None

    @asynccontextmanager
    async def _answered(
        self, client: AsyncClient, method: str, headers: Mapping[str, str], line: bytes | None
    ) -> AsyncGenerator[Response]:
        """The head of an answer; with another token if the first is refused."""
        from httpx import ConnectError, HTTPError

        try:
            for is_last in (False, True):
                async with client.stream(
                    method, self._url, headers={**self._own_headers(), **headers}, content=line
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

    def _own_headers(self) -> dict[str, str]:
        own = {"Accept-Encoding": "identity"}
        return own if self._shown is None else {**own, "Authorization": f"Bearer {self._shown}"}

    def _has_another_token(self) -> bool:
        before = self._shown
        self._shown = None if self._token is None else self._token().strip()
        return self._shown != before

    def _check(self, response: Response) -> None:
        """Raises ConnectionClosed for what this side does not take."""
        if response.has_redirect_location:
            where = without_secrets(response.headers.get("Location", ""), self._secrets)
            raise ConnectionClosed(self._peer.answered(response.status_code, "", where))
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            what = f"{self._peer.name} compressed its answer ({encoding[:40]}), unasked"
            raise ConnectionClosed(what)
        cookies = self._poster.cookies.jar
        if sum(len(each.name) + len(each.value or "") for each in cookies) > COOKIE_BYTES:
            cookies.clear()
            what = f"{self._peer.name} sets more than {COOKIE_BYTES} bytes of cookies"
            raise ConnectionClosed(what)

    async def _whole(self, response: Response) -> HttpAnswer:
        ok = response.is_success
        body = bytearray()
        async for chunk in self._chunks(response):
            body += chunk
            if ok and len(body) > self._limit:
                what = f"{self._peer.name} sent a message above the limit of {self._limit} bytes"
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

    def _room_for(self, place: object) -> tuple[AsyncClient, set[object]]:
        for client, places in self._streamers:
            if len(places) < STREAMS_A_CLIENT:
                places.add(place)
                return client, places
        found = self._client(), {place}
        self._streamers.append(found)
        return found

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
            return self._peer.silent()
        if isinstance(failed, ConnectError):
            return self._peer.unreachable(failed)
        if isinstance(failed, RemoteProtocolError) and "disconnected" not in str(failed):
            return f"{self._peer.name} broke HTTP: {without_secrets(failed, self._secrets)}"
        why = without_secrets(failed, self._secrets) or type(failed).__name__
        return f"the connection to {self._peer.name} was lost: {why}"


def _proxy(host: str) -> str | None:
    """Return the proxy for a host; none for this machine."""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get("https") or proxies.get("all")
    return f"http://{found}" if found and "://" not in found else found
