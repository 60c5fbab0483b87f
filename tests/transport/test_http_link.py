"""ACP over HTTP as a link, against a server whose every byte is chosen: routes, order, ends."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import h2.config
import h2.connection
import h2.events
import pytest

from codex_acp.errors import MisuseError
from codex_acp.transport import http_link, http_requests
from codex_acp.transport.http_link import HttpLink
from codex_acp.transport.link import HIGH_WATER_BYTES
from tests.transport.http_joined import WAIT, joined
from tests.transport.http_peer import CONNECTION, HttpPeer, Request, Special, answer, head
from tests.transport.link_receiver import LinkReceiver

UPDATE = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "one"}}


def refusing(method: str, status: int, words: bytes) -> Special:
    """A server that refuses the messages of a method."""

    async def special(request: Request) -> bool:
        if request.what == method:
            await request.write(answer(status, words))
        return request.what == method

    return special


async def test_a_turn_has_its_stream_before_its_prompt_and_a_goodbye() -> None:
    async with joined() as both:
        await both.session()
        prompt = both.ask("session/prompt", "one")
        stream = await both.peer.stream("one")
        question = {"id": 0, "method": "session/request_permission", "params": {}}
        await stream.send(UPDATE, question)
        await both.receiver.until(lambda: question in both.received)
        both.send({"id": 0, "result": {}})
        await both.settle(prompt, "one", stopReason="end_turn")
        await both.peer.until(lambda: "answer" in both.peer.seen)
    assert both.receiver.ends == [None]
    assert both.peer.seen == [
        "initialize", "GET", "session/new", "GET one", "session/prompt", "answer", "DELETE",
    ]  # fmt: skip
    first, *rest = both.peer.requests
    assert "acp-connection-id" not in first.headers
    assert {each.headers["acp-connection-id"] for each in rest} == {CONNECTION}
    assert [each.session for each in rest] == [None, None, "one", "one", "one", None]
    assert first.headers["content-type"] == "application/json"
    assert rest[0].headers["accept"] == "text/event-stream"


async def test_messages_keep_their_order_and_their_text() -> None:
    async with joined() as both:
        await both.session()
        count = len(both.received)
        stream = await both.peer.stream("one")
        for number in range(50):
            both.send({"method": "_said", "params": {"number": number, "text": "é\u2028"}})
            await stream.send({"method": "_heard", "params": {"number": number, "text": "é\u2028"}})
        await both.receiver.until(lambda: len(both.received) == count + 50)
        await both.peer.until(lambda: both.peer.seen.count("_said") == 50)
        for heard, said in zip(both.received[count:], both.peer.requests[-50:], strict=True):
            assert heard["params"] == said.message["params"]


async def test_cookies_are_kept_for_the_connection() -> None:
    async def special(request: Request) -> bool:
        if request.what == "initialize":
            cookie = {"Set_Cookie": "backend=seven; Path=/", "Acp_Connection_Id": CONNECTION}
            await request.write(answer(200, b'{"id": 1, "result": {}}', **cookie))
            return True
        return False

    async with joined(special) as both:
        await both.session()
    assert [each.headers.get("cookie") for each in both.peer.requests] == [
        None, *["backend=seven"] * 4,
    ]  # fmt: skip


async def test_a_stream_that_ends_in_order_is_opened_again_and_loses_nothing() -> None:
    question = {"id": 7, "method": "session/request_permission", "params": {}}
    async with joined() as both:
        await both.session()
        prompt = both.ask("session/prompt", "one")
        await both.taken(prompt)
        for session in ("one", None, "one"):
            stream = both.peer.streams.pop(session)
            await stream.send(question if session else UPDATE)
            await stream.end()
            await both.peer.stream(session)
        # What nobody has answered yet is asked again, and is the same question.
        await both.peer.streams["one"].send(question, {"id": prompt, "result": {}})
        await both.outcome(prompt)
        assert both.received.count(question) == 1
        assert not both.receiver.ends


async def test_a_stream_that_breaks_ends_the_link_and_says_so() -> None:
    async with joined() as both:
        await both.session()
        (await both.peer.stream("one")).cut()
        words = await both.receiver.end()
    assert "the agent" in words
    assert "incomplete" in words or "lost" in words


async def test_half_a_message_at_the_end_of_a_stream_is_a_break() -> None:
    async with joined() as both:
        stream = await both.peer.stream()
        await stream.raw(b'data: {"id": 1')
        await stream.end()
        assert "broke off in the middle of a message" in await both.receiver.end()


async def test_a_server_that_forgot_the_connection_is_named() -> None:
    forgotten = False

    async def special(request: Request) -> bool:
        if forgotten:
            await request.write(answer(404, b"Unknown Acp-Connection-Id"))
        return forgotten

    async with joined(special) as both:
        await both.peer.stream()
        forgotten = True
        request_id = both.ask("session/new")
        error = (await both.outcome(request_id))["error"]["message"]
        assert error == "the agent did not take it: 404 Unknown Acp-Connection-Id"
        await (await both.peer.stream()).end()
        assert await both.receiver.end() == (
            "the agent no longer knows this connection: 404 Unknown Acp-Connection-Id"
        )


async def test_a_session_that_the_server_no_longer_knows_fails_alone() -> None:
    gone = False

    async def special(request: Request) -> bool:
        if gone and request.session == "one":
            await request.write(answer(404, b"no such session"))
            return True
        return False

    async with joined(special) as both:
        await both.session()
        await both.session("two")
        prompt = both.ask("session/prompt", "one")
        await both.taken(prompt)
        gone = True
        await both.peer.streams["one"].end()
        both.send({"method": "session/cancel", "params": {"sessionId": "one"}})
        assert "no longer knows the session" in (await both.outcome(prompt))["error"]["message"]
        await both.settle(both.ask("session/prompt", "two"), "two")
        assert not both.receiver.ends


async def test_a_session_may_be_named_only_once_it_is_loaded() -> None:
    """As the Python SDK's server has it."""

    async def special(request: Request) -> bool:
        if request.session == "one":
            await request.write(answer(404, b"Unknown session id"))
            return True
        return False

    async with joined(special) as both:
        load = both.ask("session/load", "one")
        await both.peer.until(lambda: both.peer.seen.count("session/load") == 2)
        await both.settle(load, None)


async def test_the_answer_of_a_load_comes_after_the_history_of_another_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_link, "QUIET_SECONDS", 2.0)
    async with joined() as both:
        load = both.ask("session/load", "one")
        stream = await both.peer.stream("one")
        await both.taken(load)
        await (await both.peer.stream()).send({"id": load, "result": {}})
        for _ in range(5):
            await stream.send(UPDATE)
            await anyio.lowlevel.checkpoint()
        await both.outcome(load)
        assert both.received[-1]["id"] == load
        assert both.received.count(UPDATE) == 5


async def test_the_stream_of_a_closed_session_is_closed() -> None:
    async with joined() as both:
        await both.session()
        close = both.ask("session/close", "one")
        await both.settle(close, "one")
        del both.peer.streams["one"]
        await both.settle(both.ask("session/prompt", "one"), "one")


@pytest.mark.parametrize("status", [400, 413, 429, 500, 503])
async def test_a_request_that_is_not_taken_fails_alone(status: int) -> None:
    async with joined(refusing("_large", status, b"not this")) as both:
        error = (await both.outcome(both.ask("_large")))["error"]
        assert error["message"] == f"the agent did not take it: {status} not this"
        await both.session()


async def test_a_notification_that_is_not_taken_ends_the_link() -> None:
    async with joined(refusing("_news", 400, b"what news")) as both:
        both.send({"method": "_news"})
        assert await both.receiver.end() == "the agent did not take it: 400 what news"


async def test_a_stream_that_is_busy_is_asked_for_again() -> None:
    refusals = 3

    async def special(request: Request) -> bool:
        nonlocal refusals
        if request.method == "GET" and refusals:
            refusals -= 1
            await request.write(answer(409, b"it has a receiver"))
            return True
        return False

    async with joined(special) as both:
        await both.session()


async def test_a_stream_whose_head_comes_with_its_first_event_holds_nothing_up() -> None:
    """Hypercorn keeps the head back until there is a body."""

    async def special(request: Request) -> bool:
        if request.method == "GET" and request.session:
            waiting.append(request)
            return True
        return False

    waiting: list[Request] = []
    async with joined(special) as both:
        await both.settle(both.ask("session/new"), None, sessionId="one")
        prompt = both.ask("session/prompt", "one")
        await both.taken(prompt)
        (request,) = waiting
        await request.write(head(200, Content_Type="text/event-stream"))
        await request.write(b'data: {"id": %d, "result": {}}\n\n' % prompt)
        await both.outcome(prompt)


async def test_reading_and_writing_are_paused() -> None:
    hold = asyncio.Event()

    async def special(request: Request) -> bool:
        if request.what == "_much":
            await hold.wait()
        return False

    async with joined(special) as both:
        both.link.pause_reading()
        stream = await both.peer.stream()
        await stream.send({"method": "_news"})
        both.send({"method": "_much", "params": {"text": "x" * HIGH_WATER_BYTES}})
        assert both.receiver.writing == ["pause"]
        hold.set()
        await both.receiver.until(lambda: both.receiver.writing == ["pause", "resume"])
        assert len(both.received) == 1  # the answer to initialize
        both.link.resume_reading()
        await both.receiver.until(lambda: len(both.received) == 2)


async def test_a_server_that_says_nothing_any_more_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_requests, "SILENT_SECONDS", 0.1)
    async with joined() as both:
        stream = await both.peer.stream()
        await anyio.sleep(0.3)  # without a sign of life before, it may be silent
        assert not both.receiver.ends
        await stream.raw(b":\n\n")
        assert "nothing has come for 0.1 s" in await both.receiver.end()


async def test_an_expired_token_is_asked_for_again() -> None:
    tokens = iter(["old", "new", "newer", "newest", "last"])
    good = "new"

    async def special(request: Request) -> bool:
        if request.headers["authorization"] == f"Bearer {good}":
            return False
        await request.write(answer(401, b"the token has expired"))
        return True

    async with joined(special, token=lambda: next(tokens)) as both:
        await both.session()
        good = "newer"
        await both.session("two")
        good = "none of them"
        both.ask("session/new")
        words = await both.receiver.end()
        assert words.startswith("the agent refused the token: 401 the token has expired; see")


async def test_the_goodbye_and_the_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "CLOSE_SECONDS", 0.1)

    async def special(request: Request) -> bool:
        return request.method == "DELETE"  # and says nothing

    async with joined(special) as both:
        await both.link.aclose()
        assert both.receiver.ends == [None]


async def test_nobody_there_is_said() -> None:
    async with HttpPeer() as peer:
        url = peer.url
    link, receiver = HttpLink(url, name="the agent"), LinkReceiver()
    link.start(receiver)
    link.write(b'{"id":1,"method":"initialize"}\n')
    with anyio.fail_after(WAIT):
        assert "nobody can be reached at the agent" in await receiver.end()
    await link.aclose()


async def test_who_speaks_no_tls_is_said() -> None:
    async def in_the_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(400, b"this is HTTP"))
        writer.close()

    server = await asyncio.start_server(in_the_clear, "127.0.0.1")
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
    link, receiver = HttpLink(url, name="the agent"), LinkReceiver()
    link.start(receiver)
    link.write(b'{"id":1,"method":"initialize"}\n')
    with anyio.fail_after(WAIT):
        assert "it speaks no TLS; http:// or ws:// may be meant" in await receiver.end()
    await link.aclose()
    server.close()


async def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "find_spec", lambda _: None)
    with pytest.raises(MisuseError, match=r"pip install 'codex-acp-sdk\[http\]'"):
        HttpLink("http://127.0.0.1:9/acp", name="the agent")


async def test_a_server_that_speaks_http2_only_is_understood() -> None:
    """RFD: HTTP/2 is required; without TLS there is nothing that would say so before."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http2.initiate_connection()
        writer.write(http2.data_to_send())
        try:
            while data := await reader.read(65536):
                for event in http2.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        path = dict(event.headers or ())
                        asked.append(path[b":method"].decode())
                        kind = (b"acp-connection-id", b"x")
                        http2.send_headers(event.stream_id, [(b":status", b"200"), kind])
                        body = b'{"id":1,"result":{}}'
                        http2.send_data(event.stream_id, body, end_stream=True)
                writer.write(http2.data_to_send())
        except h2.exceptions.ProtocolError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
    link, receiver = HttpLink(url, name="the agent"), LinkReceiver()
    link.start(receiver)
    link.write(b'{"id":1,"method":"initialize"}\n')
    with anyio.fail_after(WAIT):
        await receiver.until(lambda: bool(receiver.chunks))
    await link.aclose()
    server.close()
    assert asked[0] == "POST"
