"""A client over streamable HTTP that speaks plain JSON: as `JsonClient`, with POST and streams."""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import partial
from typing import Any, Self

import anyio
import httpx

from tests.network.listening_adapter import TOKEN, WAIT, JsonClient

Json = dict[str, Any]

JSON = {"content-type": "application/json"}

EVENTS = {"accept": "text/event-stream"}


class HttpClient(JsonClient):
    """``async with`` it. It opens the stream of a session as soon as it knows of it.

    ``http2``: with prior knowledge where there is no TLS. ``cafile`` is trusted.
    """

    def __init__(
        self,
        url: str,
        token: str | None = TOKEN,
        *,
        http2: bool = True,
        cafile: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(url, token, **more)
        self._made = partial(
            httpx.AsyncClient,
            http1=not http2 or url.startswith("https"),
            http2=http2,
            headers=self._headers,
            timeout=WAIT,
            trust_env=False,
            verify=False if cafile is None else ssl.create_default_context(cafile=cafile),
        )
        self._http = self._made()
        self.connection = ""
        """Its id."""
        self.statuses: list[int] = []
        """What POSTs were answered."""
        self.version = ""
        """Of HTTP, as it was spoken."""
        self.came: list[tuple[str | None, Json]] = []
        """What came in which stream."""
        self.streams: dict[str | None, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        self._reading = asyncio.ensure_future(anyio.sleep_forever())
        if self._initialize:
            try:
                self.initialized = await self.ask("initialize", self._introduction())
                await self.listen()
            except BaseException:
                await self.break_off()
                raise
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if self.connection and not self._reading.done():
            await self.raw("DELETE")
        await self.break_off()
        self.check(kind)

    async def break_off(self) -> None:
        """End as a broken network does: the server hears that the streams are gone, no more."""
        for task in (*self.streams.values(), self._reading):
            task.cancel()
        await asyncio.wait([*self.streams.values(), self._reading])
        await self._http.aclose()

    async def raw(self, method: str, **more: Any) -> httpx.Response:
        """A request with the headers of the connection."""
        headers = {"acp-connection-id": self.connection, **more.pop("headers", {})}
        return await self._http.request(method, self._url, headers=headers, **more)

    async def bare(
        self, method: str, headers: Any = None, content: str | bytes | None = None
    ) -> httpx.Response:
        """A request with these headers, and the token alone."""
        return await self._http.request(method, self._url, headers=headers, content=content)

    def where(self, request_id: int) -> str | None:
        """In which stream an answer came."""
        return next(
            stream for stream, m in self.came if "method" not in m and m["id"] == request_id
        )

    async def post(self, message: Json, **headers: str) -> httpx.Response:
        """Post a message."""
        self.rules.from_client(message)
        if self.connection:
            headers["acp-connection-id"] = self.connection
        return await self._http.post(
            self._url, content=json.dumps(message), headers={**JSON, **headers}
        )

    async def send(self, message: Json) -> None:
        """See `JsonClient`."""
        headers = {}
        session = message.get("params", {}).get("sessionId") or message.pop("session", None)
        if session is not None:
            await self.listen(session)
            headers["acp-session-id"] = session
        response = await self.post({"jsonrpc": "2.0", **message}, **headers)
        self.version = response.http_version
        self.statuses.append(response.status_code)
        if response.status_code == 200:
            self.connection = response.headers["acp-connection-id"]
            self._take(response.json())
        elif response.status_code != 202:
            message_text = f"{response.status_code} {response.text}"
            raise AssertionError(message_text)

    async def reply(self, asked: Json, result: Json) -> None:
        """See `JsonClient`."""
        session = asked["params"].get("sessionId")
        await self.send({"id": asked["id"], "result": result, "session": session})

    async def listen(self, session: str | None = None) -> None:
        """Open the stream of a session, or of the connection, unless it is."""
        if session in self.streams and not self.streams[session].done():
            return
        opened = asyncio.Event()
        self.streams[session] = asyncio.ensure_future(self._stream(session, opened))
        with anyio.fail_after(WAIT):
            await opened.wait()

    async def _stream(self, session: str | None, opened: asyncio.Event) -> None:
        headers = {**EVENTS, "acp-connection-id": self.connection}
        if session is not None:
            headers["acp-session-id"] = session
        try:
            # A TCP connection of its own: httpx lets several streams of one starve each other, and
            # tells the server nothing of one that it leaves.
            async with (
                self._made() as alone,
                alone.stream("GET", self._url, headers=headers, timeout=None) as got,
            ):
                self.statuses.append(got.status_code)
                opened.set()
                async for line in got.aiter_lines():
                    if line.startswith("data: "):
                        message = json.loads(line[6:])
                        self.came.append((session, message))
                        self._take(message)
                        made = message.get("result", {}).get("sessionId")
                        if made is not None:
                            await self.listen(made)
                        self._wake()
        except httpx.HTTPError:
            pass
        finally:
            opened.set()
            if session is None:
                self._reading.cancel()
            self._wake()
