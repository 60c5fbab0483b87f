"""A connection that closes or waits leaves nobody hanging."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from codex_acp.errors import ConnectionClosed, MisuseError, ProcessExited
from codex_acp.jsonrpc import EncodedJson, Notification, Request
from codex_acp.transport.connection import Connection, Responder
from codex_acp.transport.link import memory_pair
from tests.transport.recording import NULL, RawPeer, Recorder, error_of, joined, settle, started


async def test_closing_fails_calls_and_drops_answers_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder()
    connection, peer = joined(handler)
    call = started(connection.call("m", None))
    peer.send({"id": 0, "method": "q"})
    await settle()
    before = connection.closed
    await connection.aclose()
    await connection.aclose()
    assert (before, connection.closed) == (False, True)
    with pytest.raises(ConnectionClosed):
        await call
    with pytest.raises(ConnectionClosed):
        await connection.call("m", None)
    with pytest.raises(ConnectionClosed):
        await connection.drain()
    assert not connection.notify("n", None)
    assert not handler.responders[0].result(NULL)
    assert handler.messages[1:] == [("closed", None)]
    await settle()
    assert peer.received == [{"id": 0, "method": "m"}]
    assert peer.closed == [None]
    assert not caplog.records


async def test_what_was_sent_before_closing_still_arrives() -> None:
    connection, peer = joined(Recorder())
    connection.notify("last", None)
    await connection.aclose()
    await settle()
    assert peer.received == [{"method": "last"}]


async def test_a_clean_end_of_the_peer_closes_after_its_last_line() -> None:
    handler = Recorder()
    connection, peer = joined(handler)
    call = started(connection.call("m", None))
    await settle()
    peer.link.write(b'{"id":0,"result":1}\n{"method":"unterminated"}')
    await peer.link.aclose()
    with anyio.fail_after(60):
        assert await call == 1
    await settle()
    assert handler.events == ["end", Notification("unterminated", None), "end", ("closed", None)]
    assert isinstance(connection.why_closed, ConnectionClosed)


async def test_a_broken_link_fails_all_calls_with_its_error() -> None:
    handler = Recorder()
    ours, theirs = memory_pair()
    connection = Connection(ours, name="codex", version=False)
    connection.start(handler)
    peer = RawPeer(theirs)
    calls = [started(connection.call("m", None)) for _ in range(3)]
    await settle()
    error = ProcessExited("codex", 3, "panic")
    ours.fail(error)
    await settle()
    for call in calls:
        with pytest.raises(ProcessExited, match="panic"):
            await call
    assert connection.why_closed is error
    assert handler.events == [("closed", error)]
    peer.send({"method": "unheard"})
    await settle()
    assert handler.events == [("closed", error)]
    assert peer.closed == []


async def test_a_handler_may_close_in_the_middle_of_a_batch() -> None:
    def close(_request: Request, _responder: Responder) -> None:
        connection.link_closed(None)

    handler = Recorder(close)
    connection, peer = joined(handler)
    peer.send({"id": 0, "method": "m"}, {"method": "never"})
    await settle()
    assert handler.events == [Request(0, "m", None), ("closed", None)]


async def test_the_messages_of_one_iteration_are_one_write_in_order() -> None:
    handler = Recorder(lambda _request, responder: responder.result(NULL))
    connection, peer = joined(handler)
    peer.send({"id": 0, "method": "q"}, {"id": 1, "method": "q"})
    await settle()
    assert len(peer.chunks) == 1
    connection.notify("a", None)
    connection.outbox.flush()
    connection.notify("b", None)
    await settle()
    assert [answer for answer in peer.received if "method" in str(answer)] == [
        {"method": "a"},
        {"method": "b"},
    ]


async def test_a_slow_peer_pauses_writing_until_it_reads() -> None:
    ours, theirs = memory_pair(buffer_limit=1000)
    connection = Connection(ours, name="peer", version=False)
    connection.start(Recorder())
    peer = RawPeer(theirs)
    theirs.pause_reading()
    connection.notify("n", EncodedJson(b'["' + b"x" * 2000 + b'"]'))
    draining = asyncio.get_running_loop().create_task(connection.drain())
    await settle()
    while_full = connection.outbox.paused
    assert not draining.done()
    theirs.resume_reading()
    with anyio.fail_after(60):
        await draining
    assert (while_full, connection.outbox.paused) == (True, False)
    assert len(peer.received) == 1


async def test_closing_frees_who_waits_for_a_slow_peer() -> None:
    ours, theirs = memory_pair(buffer_limit=10)
    connection = Connection(ours, name="peer", version=False)
    connection.start(Recorder())
    theirs.pause_reading()
    connection.notify("a-long-name", None)
    draining = asyncio.get_running_loop().create_task(connection.drain())
    await settle()
    assert not draining.done()
    await connection.aclose()
    with anyio.fail_after(60), pytest.raises(ConnectionClosed):
        await draining


async def test_paused_reading_holds_messages_back() -> None:
    handler = Recorder()
    connection, peer = joined(handler)
    connection.pause_reading()
    peer.send({"method": "m"})
    await settle()
    assert handler.events == []
    connection.resume_reading()
    await settle()
    assert handler.messages == [Notification("m", None)]


async def test_a_tap_sees_each_line_both_ways() -> None:
    seen: list[tuple[str, bytes]] = []
    ours, theirs = memory_pair()
    connection = Connection(
        ours, name="peer", version=True, on_line=lambda way, line: seen.append((way, line))
    )
    connection.start(Recorder(lambda _request, responder: responder.result(NULL)))
    RawPeer(theirs).send({"id": 1, "method": "q"})
    await settle()
    assert seen == [
        ("received", b'{"id": 1, "method": "q"}'),
        ("sent", b'{"jsonrpc":"2.0","id":1,"result":null}\n'),
    ]


async def test_a_connection_must_be_started_once_before_use() -> None:
    connection = Connection(memory_pair()[0], name="peer", version=True)
    with pytest.raises(MisuseError, match="start"):
        await connection.call("m", None)
    with pytest.raises(MisuseError, match="start"):
        connection.notify("m", None)
    connection.start(Recorder())
    with pytest.raises(MisuseError, match="once"):
        connection.start(Recorder())


async def test_not_a_number_is_not_json() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.link.write(b'{"method":"m","params":[NaN]}\n')
    await settle()
    assert error_of(peer.received[0])[:2] == (None, -32700)
