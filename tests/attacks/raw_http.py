"""HTTP of clients that keep to no rule: bytes over TCP, and frames of HTTP/2."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Self

import anyio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event

from tests.network.listening_adapter import WAIT


class Raw:
    """``async with`` it: a TCP connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def send(self, data: str | bytes) -> None:
        """Send this."""
        self.writer.write(data.encode() if isinstance(data, str) else data)
        await self.writer.drain()

    async def send_until_cut(self, parts: Iterator[bytes]) -> None:
        """Send one after the other until the server has had enough, which has to be soon."""
        try:
            with anyio.fail_after(WAIT):
                for part in parts:
                    await self.send(part)
                    await anyio.sleep(0.001)  # the server is in this loop, too
        except ConnectionError:
            return
        msg = "it was all taken"
        raise AssertionError(msg)

    async def status(self) -> int:
        """Of the next response; 0 if the connection ends."""
        try:
            with anyio.fail_after(WAIT):
                line = await self.reader.readline()
        except ConnectionError:
            return 0
        return int(line.split()[1]) if line else 0

    async def ended(self) -> None:
        """Wait until the server has ended it."""
        try:
            with anyio.fail_after(WAIT):
                while await self.reader.read(1024):
                    pass
        except ConnectionError:
            return


class Http2(Raw):
    """One that speaks HTTP/2, as far as it likes."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.frames = H2Connection(H2Configuration(client_side=True))
        self.frames.initiate_connection()
        await self.flush()
        return self

    async def flush(self) -> None:
        """Send what has come together."""
        await self.send(self.frames.data_to_send())

    def request(self, method: str, headers: dict[str, str], *, ends: bool = True) -> int:
        """Begin a request; its stream. To be flushed."""
        stream = self.frames.get_next_available_stream_id()
        pseudo = {
            ":method": method,
            ":path": "/acp",
            ":scheme": "http",
            ":authority": f"127.0.0.1:{self._port}",
        }
        self.frames.send_headers(stream, [*pseudo.items(), *headers.items()], end_stream=ends)
        return stream

    async def events(self) -> list[Event]:
        """What comes next; none at the end."""
        try:
            with anyio.fail_after(WAIT):
                data = await self.reader.read(65536)
        except ConnectionError:
            return []
        found: list[Any] = self.frames.receive_data(data) if data else []
        await self.flush()
        return found
