"""Calls settle once, with their own answer, in every order of events."""

from __future__ import annotations

import json
import logging
from functools import partial

import anyio
import pytest

from codex_acp.errors import ConnectionClosed, ErrorReply, InvalidPayload
from codex_acp.jsonrpc import EncodedJson, JsonValue, Request
from codex_acp.transport.connection import Connection, Responder
from codex_acp.transport.link import memory_pair
from tests.transport.recording import Recorder, joined, settle, started


async def test_a_call_gets_its_own_answer_whatever_the_order() -> None:
    connection, peer = joined(Recorder())
    first = started(connection.call("a", EncodedJson(b"{}")))
    second = started(connection.call("b", None))
    await settle()
    assert peer.received == [{"id": 0, "method": "a", "params": {}}, {"id": 1, "method": "b"}]
    peer.send({"id": 1, "result": "two"}, {"id": 0, "result": "one"})
    with anyio.fail_after(60):
        assert (await first, await second) == ("one", "two")


async def test_two_connections_call_each_other() -> None:
    left_link, right_link = memory_pair()
    left = Connection(left_link, name="right", version=True)
    right = Connection(right_link, name="left", version=True)

    def echo(request: Request, responder: Responder) -> None:
        responder.result(EncodedJson(json.dumps(request.params).encode()))

    left.start(Recorder(echo))
    right.start(Recorder(echo))
    with anyio.fail_after(60):
        assert await left.call("m", EncodedJson(b"[1]")) == [1]
        assert await right.call("m", EncodedJson(b"[2]")) == [2]


async def test_an_error_answer_is_raised_with_the_peers_own_words() -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    peer.send({"id": 0, "error": {"code": -32001, "message": "busy", "data": [1]}})
    with anyio.fail_after(60), pytest.raises(ErrorReply, match="busy") as caught:
        await call
    assert (caught.value.method, caught.value.code, caught.value.data) == ("m", -32001, [1])


async def test_a_malformed_answer_fails_the_call_and_is_not_answered() -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    peer.send({"id": 0, "result": 1, "error": {"code": 1, "message": "m"}})
    with anyio.fail_after(60), pytest.raises(InvalidPayload, match="both result and error"):
        await call
    await settle()
    assert len(peer.received) == 1


@pytest.mark.parametrize("cancel_method", [None, "$/cancel_request"])
async def test_a_cancelled_call_drops_the_late_answer_and_its_id(
    cancel_method: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    connection, peer = joined(Recorder(), cancel_method=cancel_method)
    call = started(connection.call("m", None))
    await settle()
    call.cancel()
    await settle()
    assert call.cancelled()
    expected: list[JsonValue] = [{"id": 0, "method": "m"}]
    if cancel_method is not None:
        expected.append({"method": cancel_method, "params": {"requestId": 0}})
    assert peer.received == expected
    other = started(connection.call("n", None))
    peer.send({"id": 0, "result": "late"})
    await settle()
    assert not caplog.records
    assert not other.done()
    assert peer.received[len(expected) :] == [{"id": 1, "method": "n"}]
    peer.send({"id": 1, "result": "mine"})
    with anyio.fail_after(60):
        assert await other == "mine"


async def test_a_call_cancelled_as_its_answer_arrives_sends_no_cancel() -> None:
    connection, peer = joined(Recorder(), cancel_method="$/cancel_request")
    call = started(connection.call("m", None))
    await settle()
    connection.data_received(b'{"id":0,"result":1}\n')
    call.cancel()
    await settle()
    assert call.cancelled()
    assert peer.received == [{"id": 0, "method": "m"}]


async def test_an_answer_that_arrives_just_after_the_cancel_is_harmless() -> None:
    connection, _ = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    call.cancel()
    connection.data_received(b'{"id":0,"result":1}\n')
    await settle()
    assert call.cancelled()


@pytest.mark.parametrize("answer_id", [7, "0", "x"])
async def test_an_unknown_answer_is_logged_and_settles_nothing(
    answer_id: int | str, caplog: pytest.LogCaptureFixture
) -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    peer.send({"id": answer_id, "result": 1})
    await settle()
    assert not call.done()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    peer.send({"id": 0, "result": 2})
    with anyio.fail_after(60):
        assert await call == 2


async def test_a_second_answer_to_one_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    peer.send({"id": 0, "result": 1}, {"id": 0, "result": 2})
    with anyio.fail_after(60):
        assert await call == 1
    assert "not open" in caplog.text


async def test_an_error_with_a_null_id_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    await settle()
    peer.send({"id": None, "error": {"code": -32700, "message": "cannot read that"}})
    await settle()
    assert "cannot read that" in caplog.text
    assert not call.done()
    await connection.aclose()
    with pytest.raises(ConnectionClosed):
        await call


def methods(received: list[JsonValue]) -> list[JsonValue]:
    return [message["method"] for message in received if isinstance(message, dict)]


def notify(connection: Connection, method: str) -> None:
    connection.notify(method, None)


async def test_what_is_held_is_sent_before_anything_else_and_once() -> None:
    connection, peer = joined(Recorder())
    connection.outbox.hold(partial(notify, connection, "held"))
    connection.notify("next", None)
    call = started(connection.call("asked", None))
    await settle()

    assert methods(peer.received) == ["held", "next", "asked"]
    call.cancel()


async def test_what_is_held_is_sent_at_the_end_of_the_iteration_and_when_it_closes() -> None:
    connection, peer = joined(Recorder())
    connection.outbox.hold(partial(notify, connection, "first"))
    connection.outbox.hold(partial(notify, connection, "second"))
    await settle()
    assert methods(peer.received) == ["first", "second"]
    connection.outbox.hold(partial(notify, connection, "last"))
    await connection.aclose()
    await settle()
    assert methods(peer.received)[2:] == ["last"]
    asked: list[bool] = []
    connection.outbox.hold(lambda: asked.append(connection.notify("late", None)))
    assert asked == [False], "at once, and dropped"


@pytest.mark.attack("app-server")
async def test_of_calls_that_nobody_waits_for_and_nobody_answers_the_oldest_is_forgotten() -> None:
    connection, peer = joined(Recorder())
    heard: list[JsonValue] = []
    calls = [started(connection.call("m", None, late=heard.append)) for _ in range(5000)]
    await settle()
    for call in calls:
        call.cancel()
    await settle()
    peer.send({"id": 0, "result": "first"}, {"id": len(calls) - 1, "result": "last"})
    await settle()
    assert heard == ["last"]


BAD: list[JsonValue] = [
    {"id": 99, "result": 1},
    {"jsonrpc": "2.0"},
    {"id": None, "error": {"code": 1, "message": "what?"}},
]


@pytest.mark.attack("agent")
@pytest.mark.parametrize("bad", [*BAD, "no JSON"], ids=["stray", "malformed", "error", "garbage"])
async def test_what_is_wrong_with_a_peer_again_and_again_is_counted(
    bad: JsonValue, caplog: pytest.LogCaptureFixture
) -> None:
    connection, peer = joined(Recorder())
    for number in range(2751):
        if bad == "no JSON":
            peer.link.write(b"garbage %d\n" % number)
        elif isinstance(bad, dict) and bad.get("id") == 99:
            peer.send({**bad, "id": number})
        else:
            peer.send(bad)
        if number % 50 == 0:
            await settle()
    await settle()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 12
    assert told[-1].endswith("[1000 of this kind by now]")
    await connection.aclose()
