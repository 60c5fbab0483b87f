"""A server of ACP over HTTP whose every byte a test can choose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self

import anyio

CONNECTION: Final = "the-connection"

SSE: Final = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}


def head(status: int, **headers: str) -> bytes:
    """The head of an HTTP answer."""
    lines = [
        f"HTTP/1.1 {status} Because",
        *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole HTTP answer."""
    return head(status, Content_Length=str(len(body)), **headers) + body


@dataclass
class Request:
    """What came, and the way back."""

    method: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def session(self) -> str | None:
        """The one that it names."""
        return self.headers.get("acp-session-id")

    @property
    def message(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body) if self.body else None

    @property
    def what(self) -> str:
        """In a few words, for a list of what came."""
        if self.method != "POST":
            return f"{self.method} {self.session or ''}".strip()
        return str(self.message.get("method", "answer"))

    async def write(self, data: bytes) -> None:
        """Send some bytes."""
        self.writer.write(data)
        await self.writer.drain()


class Stream:
    """An event stream that is open."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def send(self, *messages: object) -> None:
        """Events in one piece."""
        await self.raw(b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in messages))

    async def raw(self, data: bytes) -> None:
        """A chunk."""
        await self._request.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        """In order."""
        await self._request.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """As a broken network does."""
        self._request.writer.transport.abort()


Special = Callable[[Request], Awaitable[bool]]
"""Answers a request in its own way; whether it did."""


class HttpPeer:
    """``async with`` it. ``special`` may answer a request; the rest is answered as it should be."""

    def __init__(self, special: Special | None = None) -> None:
        self._special = special
        self.requests: list[Request] = []
        self.streams: dict[str | None, Stream] = {}
        self._changed = anyio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/acp"
        self.tasks: set[asyncio.Task[Any]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def seen(self) -> list[str]:
        """What came, in a few words each."""
        return [request.what for request in self.requests]

    def has(self, request_id: int) -> bool:
        """Whether a request of this id came."""
        posts = (each.message for each in self.requests if each.method == "POST")
        return any(each.get("id") == request_id and "method" in each for each in posts)

    async def stream(self, session: str | None = None) -> Stream:
        """The open stream of a session, or the connection's."""
        await self.until(lambda: session in self.streams)
        return self.streams[session]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds, which a request makes it."""
        while not condition():
            await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._one(reader, writer):
                    pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        pairs = (line.split(": ", 1) for line in lines if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(first.split(" ")[0], headers, body, writer)
        self.requests.append(request)
        if self._special is None or not await self._special(request):
            await self._usual(request)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        return True

    async def _usual(self, request: Request) -> None:
        if request.method == "GET":
            await request.write(head(200, **SSE))
            self.streams[request.session] = Stream(request)
        elif request.method == "POST" and request.what == "initialize":
            result = {"jsonrpc": "2.0", "id": request.message["id"], "result": {}}
            body = json.dumps(result).encode()
            kind = {"Content_Type": "application/json", "Acp_Connection_Id": CONNECTION}
            await request.write(answer(200, body, **kind))
        else:
            await request.write(answer(202))
