"""The websocket link against a server of its library: order, limits, back-pressure, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed as Closed
from websockets.http11 import Request, Response

from codex_acp.errors import MisuseError
from codex_acp.transport import websocket
from codex_acp.transport.link import HIGH_WATER_BYTES
from codex_acp.transport.remote_address import RemotePeer
from codex_acp.transport.websocket import WebSocketLink
from tests.transport.link_receiver import LinkReceiver

WAIT_SECONDS = 60

Serving = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def joined(
    serving: Serving, *, server_options: Any = None, **options: Any
) -> AsyncIterator[tuple[WebSocketLink, LinkReceiver]]:
    """A started link to a server that does this for each connection."""
    async with serve(serving, "127.0.0.1", 0, **(server_options or {})) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = WebSocketLink(f"ws://127.0.0.1:{port}", RemotePeer("the server"), **options)
        receiver = LinkReceiver()
        link.start(receiver)
        assert receiver.ends == []
        try:
            with anyio.fail_after(WAIT_SECONDS):
                yield link, receiver
        finally:
            await link.aclose()


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        assert isinstance(message, str)  # text frames
        await connection.send(message)


async def test_each_line_is_a_message_and_each_message_a_line() -> None:
    async with joined(echo) as (link, receiver):
        link.write(b'{"a":1}\n{"b":2}\n')  # even before the connection is there
        link.write('{"c":"é"}\n'.encode())
        await receiver.until(lambda: len(receiver.chunks) == 3)
        assert receiver.chunks == [b'{"a":1}\n', b'{"b":2}\n', '{"c":"é"}\n'.encode()]
    assert receiver.ends == [None]


async def test_line_breaks_inside_a_message_do_not_end_the_line() -> None:
    async def pretty(connection: ServerConnection) -> None:
        await connection.send('{\n "a": 1\n}')
        await connection.wait_closed()

    async with joined(pretty) as (_link, receiver):
        await receiver.until(lambda: bool(receiver.chunks))
        assert receiver.chunks == [b'{  "a": 1 }\n']


async def test_a_large_message_is_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "FRAGMENT_BYTES", 1000)
    line = b'"' + "é".encode() * 2500 + b'"\n'
    async with joined(echo, server_options={"max_size": None}) as (link, receiver):
        link.write(line)
        await receiver.until(lambda: bool(receiver.chunks))
        assert receiver.chunks == [line]


@pytest.mark.attack("network")
async def test_a_message_above_the_limit_ends_the_link_and_says_so() -> None:
    async def much(connection: ServerConnection) -> None:
        with suppress(Closed):
            await connection.send("x" * 2000)
            await connection.wait_closed()

    async with joined(much, message_limit=1000) as (_link, receiver):
        assert "sent a message above the limit of 1000 bytes" in await receiver.end()
    assert len(receiver.ends) == 1


async def test_a_message_that_the_server_does_not_take_ends_the_link_and_says_so() -> None:
    async with joined(echo, server_options={"max_size": 100}) as (link, receiver):
        link.write(b"x" * 200 + b"\n")
        assert "takes no message as large as the last one" in await receiver.end()


async def test_a_clean_close_is_a_clean_end() -> None:
    async def bye(connection: ServerConnection) -> None:
        await connection.send("bye")

    async with joined(bye) as (link, receiver):
        await receiver.until(lambda: bool(receiver.ends))
        assert receiver.chunks == [b"bye\n"]
        assert receiver.ends == [None]
        link.write(b"nobody hears it\n")


async def test_a_connection_that_is_cut_is_lost() -> None:
    async def cut(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with joined(cut) as (_link, receiver):
        assert "was lost" in await receiver.end()


async def test_a_close_with_a_reason_tells_it() -> None:
    async def go_away(connection: ServerConnection) -> None:
        await connection.close(1011, "out of memory")

    async with joined(go_away) as (_link, receiver):
        assert "out of memory" in await receiver.end()


async def test_no_data_comes_while_reading_is_paused() -> None:
    async with joined(echo) as (link, receiver):
        link.write(b"one\n")
        await receiver.until(lambda: len(receiver.chunks) == 1)
        link.pause_reading()
        link.write(b"two\n")
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert receiver.chunks == [b"one\n"]
        link.resume_reading()
        await receiver.until(lambda: len(receiver.chunks) == 2)


async def test_a_slow_server_pauses_the_writer() -> None:
    go = asyncio.Event()

    async def slow(connection: ServerConnection) -> None:
        await go.wait()
        async for _message in connection:
            pass

    async with joined(slow, server_options={"max_size": None}) as (link, receiver):
        link.write(b"x" * (HIGH_WATER_BYTES + 1) + b"\n")
        assert receiver.writing == ["pause"]
        go.set()
        await receiver.until(lambda: receiver.writing == ["pause", "resume"])


async def test_what_was_written_before_the_close_still_arrives() -> None:
    heard: list[str | bytes] = []
    all_heard = asyncio.Event()

    async def listen(connection: ServerConnection) -> None:
        async for message in connection:
            heard.append(message)
            with suppress(Closed):
                await connection.send("heard")
        all_heard.set()

    async with joined(listen) as (link, receiver):
        link.write(b"hello\n")
        await receiver.until(lambda: bool(receiver.chunks))
        link.write(b"last\n")
        await link.aclose()
        await all_heard.wait()
    assert heard == ["hello", "last"]


async def test_closing_while_it_connects_is_quick_and_told_once() -> None:
    async def never(_connection: ServerConnection, _request: Request) -> Response | None:
        await asyncio.sleep(3600)
        return None

    async with joined(echo, server_options={"process_request": never}) as (link, receiver):
        link.write(b"unsent\n")
        await anyio.lowlevel.checkpoint()
        await link.aclose()
        await link.aclose()
        assert receiver.ends == [None]


async def test_a_server_that_speaks_something_else() -> None:
    async def teapot(connection: ServerConnection, _request: Request) -> Response:
        return connection.respond(418, "I am a teapot\n")

    async with joined(echo, server_options={"process_request": teapot}) as (_link, receiver):
        said = await receiver.end()
        assert "is no app-server" in said
        assert "418 I am a teapot" in said


async def test_the_token_is_asked_for_and_sent() -> None:
    seen: list[str | None] = []

    async def look(_connection: ServerConnection, request: Request) -> None:
        seen.append(request.headers.get("Authorization"))

    options = {"process_request": look}
    async with joined(echo, server_options=options, token=lambda: " sesame\n") as (link, receiver):
        link.write(b"x\n")
        await receiver.until(lambda: bool(receiver.chunks))
    assert seen == ["Bearer sesame"]


async def test_a_token_that_cannot_be_had_is_told_as_the_end() -> None:
    def broken() -> str:
        raise OSError("the safe is locked")

    async with joined(echo, token=broken) as (_link, receiver):
        assert "the safe is locked" in await receiver.end()


async def test_a_link_is_started_once() -> None:
    async with joined(echo) as (link, receiver):
        with pytest.raises(MisuseError, match="once"):
            link.start(receiver)
