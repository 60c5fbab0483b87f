"""A hostile server of ACP over HTTP, and what stands around it: bounded, and nothing leaks out."""

from __future__ import annotations

import asyncio
import gzip
import logging
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import suppress
from unittest.mock import Mock

import anyio
import pytest

from codex_acp.errors import ConnectionClosed, MisuseError
from codex_acp.transport import http_link, http_requests
from codex_acp.transport.remote_agent import remote_agent_link
from codex_acp.transport.streamable_http import HttpRoutes
from tests.transport.http_joined import WAIT, joined
from tests.transport.http_peer import CONNECTION, HttpPeer, Request, answer, head
from tests.transport.link_receiver import LinkReceiver

pytestmark = pytest.mark.attack("agent")

LIMIT = 100_000
"""Bytes of a message."""

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'

Reply = Callable[[Request], Awaitable[None]]


async def forever(request: Request, piece: bytes) -> None:
    """Write until the client has had enough."""
    with suppress(ConnectionError):
        while not request.writer.transport.is_closing():
            await request.write(piece)


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


SSE = head(200, Content_Type="text/event-stream", Transfer_Encoding="chunked")

BOMB = gzip.compress(b"data: " + b"x" * 10_000_000)


async def line_without_end(request: Request) -> None:
    await request.write(SSE + chunk(b"data: "))
    await forever(request, chunk(b"x" * 10_000))


async def event_without_end(request: Request) -> None:
    await request.write(SSE)
    await forever(request, chunk(b"data: x\n" * 1000))


async def empty_lines_without_end(request: Request) -> None:
    await request.write(SSE)
    await forever(request, chunk(b"data:\n" * 1000))


async def comments_without_end(request: Request) -> None:
    await request.write(SSE)
    await forever(request, chunk(b": life\n\n" * 1000))


async def bomb(request: Request) -> None:
    kind = {"Content_Type": "text/event-stream", "Content_Encoding": "gzip"}
    await request.write(answer(200, BOMB, **kind))


async def headers_without_end(request: Request) -> None:
    await request.write(b"HTTP/1.1 200 OK\r\n")
    await forever(request, b"X-More: " + b"x" * 1000 + b"\r\n")


async def no_stream(request: Request) -> None:
    await request.write(answer(200, b"<html>", Content_Type="text/html"))


async def many_cookies(request: Request) -> None:
    cookies = "".join(f"Set-Cookie: c{n}={'x' * 1000}\r\n" for n in range(30))
    await request.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n" + cookies.encode() + b"\r\n")


async def closed_at_once(request: Request) -> None:
    await request.write(SSE + b"0\r\n\r\n")


async def garbage(request: Request) -> None:
    await request.write(b"\x00\x01\x02" * 100 + b"\r\n\r\n")
    request.writer.close()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (line_without_end, "a message above the limit of 100000 bytes"),
        (event_without_end, "a message above the limit of 100000 bytes"),
        (empty_lines_without_end, "a message above the limit of 100000 bytes"),
        (comments_without_end, "of comments with no message"),
        (bomb, "compressed its answer"),
        (headers_without_end, "broke HTTP"),
        (no_stream, "text/html in place of a stream"),
        (many_cookies, "bytes of cookies"),
        (closed_at_once, "closes each stream as soon as it is opened"),
        (garbage, "broke HTTP"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_hostile_stream_ends_the_link(
    reply: Reply, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "MAX_IDLE_BYTES", 1_000_000)
    monkeypatch.setattr(http_requests, "PAUSES", (0.0,) * 5)

    async def special(request: Request) -> bool:
        if request.method == "GET":
            await reply(request)
        return request.method == "GET"

    async with joined(special, message_limit=LIMIT) as both:
        assert said in await both.receiver.end()


async def test_a_stream_that_is_refused_slowly_is_not_asked_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_requests, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(http_requests, "LASTING_SECONDS", 0.0)  # each refusal takes longer
    refusals = 0

    async def special(request: Request) -> bool:
        nonlocal refusals
        if request.method == "GET":
            refusals += 1
            await request.write(answer(503, b"later"))
        return request.method == "GET"

    async with joined(special, message_limit=LIMIT) as both:
        assert "503 later" in await both.receiver.end()
    assert refusals == 5


async def test_a_server_that_is_not_reached_slowly_is_not_asked_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_requests, "PAUSES", (0.0,) * 5)
    monkeypatch.setattr(http_requests, "LASTING_SECONDS", 0.0)
    requests = Mock(**{"stream.side_effect": http_requests.NotReached("no route")})
    with pytest.raises(http_requests.NotReached, match="no route"):
        await asyncio.wait_for(http_requests.HttpStream(requests, {}, Mock()).run(Mock()), WAIT)
    assert requests.stream.call_count == 5


async def body_without_end(request: Request) -> None:
    await request.write(head(200, Content_Type="application/json", Transfer_Encoding="chunked"))
    await forever(request, chunk(b"x" * 10_000))


async def words_without_end(request: Request) -> None:
    await request.write(head(500, Transfer_Encoding="chunked"))
    await forever(request, chunk(b"sorry " * 1000))


async def bomb_in_answer(request: Request) -> None:
    kind = {"Content_Type": "application/json", "Content_Encoding": "gzip"}
    await request.write(answer(200, BOMB, Acp_Connection_Id=CONNECTION, **kind))


async def no_head(request: Request) -> None:
    await forever(request, b"HTTP/1.1 100 Continue\r\n\r\n")


async def no_body(request: Request) -> None:
    await request.write(head(200, Content_Length="10"))


async def no_answer(request: Request) -> None:
    await request.write(answer(200, b"{}", Acp_Connection_Id=CONNECTION))


async def no_connection(request: Request) -> None:
    await request.write(answer(200, b'{"id":1,"result":{}}'))


async def odd_connection(request: Request) -> None:
    await request.write(answer(200, b'{"id":1,"result":{}}', Acp_Connection_Id="é"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (body_without_end, "a message above the limit of 100000 bytes"),
        (words_without_end, "answered 500 sorry sorry"),
        (bomb_in_answer, "compressed its answer"),
        (headers_without_end, "broke HTTP"),
        (no_head, "did not take a message within"),
        (no_body, "did not take a message within"),
        (no_answer, "is no ACP agent: it answered 200 {}"),
        (no_connection, "it gave no Acp-Connection-Id"),
        (odd_connection, "it gave no Acp-Connection-Id that can be used"),
        (garbage, "broke HTTP"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_hostile_answer_ends_the_link(
    reply: Reply, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "ANSWER_SECONDS", 0.5 if "within" in said else WAIT)

    async def special(request: Request) -> bool:
        await reply(request)
        return True

    async with joined(special, begin=False, message_limit=LIMIT) as both:
        both.ask("initialize")
        assert said in await both.receiver.end()


async def test_a_post_that_never_ends_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def special(request: Request) -> bool:
        return request.what == "session/new"

    async with joined(special) as both:
        monkeypatch.setattr(http_requests, "ANSWER_SECONDS", 0.2)
        both.ask("session/new")
        assert "did not take a message within 0 s" in await both.receiver.end()


async def test_answers_that_nobody_waits_for_open_no_streams() -> None:
    async with joined() as both:
        stream = await both.peer.stream()
        answers = [{"id": n, "result": {"sessionId": f"s{n}"}} for n in range(100, 200)]
        await stream.send(*answers, {"id": "1", "result": {"sessionId": "text"}})
        await both.receiver.until(lambda: len(both.received) == 102)
        for odd in ("bad\r\nX-Header: 1", " begins with a space", "ends with a space "):
            await both.settle(both.ask("session/new"), None, sessionId=odd)
            error = (await both.outcome(both.ask("session/prompt", odd)))["error"]
            assert "fits no HTTP header" in error["message"]
        await both.session()
        assert both.peer.seen.count("GET") == 1
        assert [each for each in both.peer.seen if each.startswith("GET ")] == ["GET one"]


async def test_many_small_chunks_in_one_read_hold_up_nobody_else() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with joined() as both:
        await both.peer.stream()
        (get,) = (each for each in both.peer.requests if each.method == "GET")
        other = asyncio.create_task(take_turns())
        small = 1000
        await get.write(chunk(b":") * small + chunk(b'\ndata: {"method":"x"}\n\n'))
        await both.receiver.until(lambda: len(both.received) == 2)
        other.cancel()
    assert turns > small


def test_messages_that_nobody_answers_take_no_memory() -> None:
    routes = HttpRoutes()
    tracemalloc.start()
    try:
        for number in range(10_000):
            routes.arrived(b'{"id":%d,"method":"x","result":1}' % number, None)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 100_000


async def test_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "MAX_STREAMS", 2)
    async with joined() as both:
        await both.session("one")
        await both.session("two")
        error = (await both.outcome(both.ask("session/load", "three")))["error"]
        assert "2 sessions are open" in error["message"]


async def test_a_token_that_cannot_be_had_is_said() -> None:
    def token() -> str:
        message = "the vault is closed"
        raise OSError(message)

    async with joined(begin=False, token=token) as both:
        both.ask("initialize")
        assert "the vault is closed" in await both.receiver.end()
        assert both.peer.seen == []


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_neither_token_nor_prompt_elsewhere(
    scheme: str, status: int
) -> None:
    async with HttpPeer() as elsewhere:

        async def special(request: Request) -> bool:
            await request.write(answer(status, Location=elsewhere.url))
            return True

        async with HttpPeer(special) as peer:
            words = await _refused(peer.url.replace("http", scheme, 1))
        assert f"answered {status}" in words
        assert "127.0.0.1" in words
        assert elsewhere.seen == []


@pytest.mark.parametrize("scheme", ["http", "ws", "https", "wss"])
async def test_no_proxy_hears_what_stays_on_this_machine(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1000))
        writer.close()

    proxy = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    agent = await asyncio.start_server(lambda _, writer: writer.close(), "localhost", 0)
    port = agent.sockets[0].getsockname()[1]
    await _refused(f"{scheme}://localhost:{port}/acp")
    assert heard == []
    proxy.close()
    agent.close()


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_token_never_travels_unencrypted(scheme: str) -> None:
    with pytest.raises(MisuseError, match=f"unencrypted to example.com; use {scheme}s://"):
        remote_agent_link(f"{scheme}://example.com/acp", "secret")
    with pytest.raises(MisuseError, match="not into the URL"):
        remote_agent_link(f"{scheme}s://me:secret@example.com/acp")
    assert "secret" not in repr(remote_agent_link(f"{scheme}s://example.com/acp", "secret"))


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_a_token_that_no_header_takes_is_refused_and_quoted_nowhere(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url, tokens = f"{scheme}://127.0.0.1:9/acp", "swordfish\nporpoise"
    with pytest.raises(MisuseError, match="more than one line") as refused:
        remote_agent_link(url, tokens)
    receiver = LinkReceiver()
    link = remote_agent_link(url, lambda: tokens)
    link.start(receiver)
    link.write(INITIALIZE)
    said = await receiver.end()
    await link.aclose()
    assert "more than one line" in said
    everything = said + caplog.text + str(refused.value)
    assert "swordfish" not in everything
    assert "porpoise" not in everything


@pytest.mark.attack("agent")
@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("status", [200, 307, 401, 500])
async def test_a_server_that_quotes_the_token_has_it_told_to_nobody(
    scheme: str, status: int
) -> None:
    async def special(request: Request) -> bool:
        where = {"Location": "/?token=secret"} if status == 307 else {}
        await request.write(answer(status, b"who has the secret?", **where))
        return True

    async with HttpPeer(special) as peer:
        assert "the agent" in await _refused(peer.url.replace("http", scheme, 1))


async def _refused(url: str) -> str:
    """The words of a link that cannot be opened."""
    link, receiver = remote_agent_link(url, "secret", name="the agent"), LinkReceiver()
    link.start(receiver)
    link.write(INITIALIZE)
    with anyio.fail_after(WAIT):
        await receiver.until(lambda: bool(receiver.ends) or bool(receiver.chunks))
    await link.aclose()
    error = receiver.ends[0]
    assert error is None or isinstance(error, ConnectionClosed)
    assert "secret" not in str(error)
    return str(error)
