"""What the peer sends is delivered in order, and each request is answered once."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.errors import InvalidPayload, LineTooLong, RpcError
from codex_acp.jsonrpc import Notification, Request
from codex_acp.transport.connection import Connection, Responder
from codex_acp.transport.link import memory_pair
from tests.transport.recording import NULL, RawPeer, Recorder, error_of, joined, settle, started


async def test_messages_keep_their_order_and_each_read_ends_a_batch() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"method": "a"}, {"id": 0, "method": "b"}, {"method": "c"})
    await settle()
    peer.send({"method": "d"})
    await settle()
    assert handler.events == [
        Notification("a", None),
        Request(0, "b", None),
        Notification("c", None),
        "end",
        Notification("d", None),
        "end",
    ]


async def test_half_a_line_ends_no_batch() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.link.write(b'{"meth')
    await settle()
    assert handler.events == []
    peer.link.write(b'od":"a"}\n')
    await settle()
    assert handler.events == [Notification("a", None), "end"]


GOOD = b'{"method":"good"}\n'


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        (b"garbage", -32700, "JSON"),
        (b"\xff\xfe", -32700, "JSON"),
        (b"[" * 900, -32700, "JSON"),
        (b"[]", -32600, "object"),
        (b"3", -32600, "object"),
        (b'{"id":1.5,"method":"m"}', -32600, "id"),
        (b"x" * 1001, -32600, "limit of 1000 bytes"),
    ],
)
async def test_a_bad_line_is_answered_and_the_next_works(line: bytes, code: int, text: str) -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.link.write(line + b"\n" + GOOD)
    await settle()
    [answer] = peer.received
    answer_id, answer_code, message = error_of(answer)
    assert (answer_id, answer_code) == (None, code)
    assert text in message
    assert handler.messages == [Notification("good", None)]


async def test_a_malformed_request_is_answered_under_its_id() -> None:
    _, peer = joined(Recorder())
    peer.send({"id": "q", "method": 5})
    await settle()
    assert error_of(peer.received[0])[:2] == ("q", -32600)


async def test_a_failing_handler_of_a_request_is_answered_and_reading_goes_on() -> None:
    def fail(_request: Request, _responder: Responder) -> None:
        msg = "out of luck"
        raise KeyError(msg)

    handler = Recorder(fail)
    _, peer = joined(handler)
    peer.send({"id": 0, "method": "m"}, {"method": "good"})
    await settle()
    assert error_of(peer.received[0]) == (0, -32603, "KeyError: 'out of luck'")
    assert handler.messages[-1] == Notification("good", None)


async def test_a_handler_may_raise_the_error_to_answer_with() -> None:
    def fail(request: Request, _responder: Responder) -> None:
        raise RpcError(-32002, "no such file", object() if request.method == "odd" else {"a": 1})

    _, peer = joined(Recorder(fail))
    peer.send({"id": 0, "method": "m"}, {"id": 1, "method": "odd"})
    await settle()
    assert peer.received == [
        {"id": 0, "error": {"code": -32002, "message": "no such file", "data": {"a": 1}}},
        {"id": 1, "error": {"code": -32002, "message": "no such file"}},
    ]


async def test_a_handler_that_fails_after_its_answer_sends_no_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_request: Request, responder: Responder) -> None:
        responder.result(NULL)
        raise ValueError

    _, peer = joined(Recorder(fail))
    peer.send({"id": 0, "method": "m"})
    await settle()
    assert peer.received == [{"id": 0, "result": None}]
    assert "failed after its answer" in caplog.text


async def test_a_failing_handler_of_a_notification_is_logged_and_reading_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"method": "raise"}, {"method": "good"})
    await settle()
    assert peer.received == []
    assert "not handled" in caplog.text
    assert handler.messages == [Notification("raise", None), Notification("good", None)]


async def test_an_answer_is_sent_whatever_cannot_be_written_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no")

    def answer(_request: Request, responder: Responder) -> None:
        connection.outbox.hold(fails)
        responder.result(NULL)

    link, far = memory_pair()
    connection = Connection(link, name="peer", version=False)
    connection.start(Recorder(answer))
    peer = RawPeer(far)
    peer.send({"id": 0, "method": "m"})
    await settle()
    assert peer.received == [{"id": 0, "result": None}]
    assert "held back cannot be written" in caplog.text


async def test_an_error_whose_data_is_too_deep_is_sent_without_it() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    def fail(_request: Request, _responder: Responder) -> None:
        raise RpcError(-32002, "no", deep)

    _, peer = joined(Recorder(fail))
    peer.send({"id": 0, "method": "m"})
    await settle()
    assert peer.received == [{"id": 0, "error": {"code": -32002, "message": "no"}}]


async def test_an_answer_may_come_later_and_only_once(caplog: pytest.LogCaptureFixture) -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"id": 5, "method": "m"})
    await settle()
    [responder] = handler.responders
    before = responder.settled
    assert responder.error(-1, "no", {"why": 1})
    assert (before, responder.settled) == (False, True)
    assert not responder.result(NULL)
    assert not responder.error(-2, "again")
    await settle()
    assert peer.received == [{"id": 5, "error": {"code": -1, "message": "no", "data": {"why": 1}}}]
    assert caplog.text.count("second answer") == 2


async def test_data_that_is_not_json_leaves_the_request_open() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"id": 5, "method": "m"})
    await settle()
    with pytest.raises(ValueError, match="JSON compliant"):
        handler.responders[0].error(-1, "no", float("nan"))
    assert not handler.responders[0].settled
    assert handler.responders[0].result(NULL)


async def test_a_duplicate_id_is_refused_while_the_first_is_open() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"id": 1, "method": "m"}, {"id": 1, "method": "m"}, {"id": "1", "method": "m"})
    await settle()
    assert [error_of(answer)[:2] for answer in peer.received] == [(1, -32600)]
    assert handler.messages == [Request(1, "m", None), Request("1", "m", None)]
    assert handler.responders[0].result(NULL)
    peer.send({"id": 1, "method": "again"})
    await settle()
    assert handler.messages[-1] == Request(1, "again", None)
    assert peer.received[1:] == [{"id": 1, "result": None}]


@pytest.mark.parametrize("method", ["m", "n"])
async def test_3_7_a_peer_that_resends_gets_one_answer_and_the_handler_hears_of_it(
    method: str,
) -> None:
    handler = Recorder()
    _, peer = joined(handler, peer_resends=True)
    peer.send({"id": 1, "method": "m"}, {"id": 1, "method": method})
    await settle()
    assert peer.received == []
    assert handler.messages == [Request(1, "m", None), ("again", Request(1, method, None))]
    assert handler.responders[0].result(NULL)
    await settle()
    assert peer.received == [{"id": 1, "result": None}]


async def test_a_request_that_is_too_long_is_refused_under_its_id() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"id": "w", "method": "fs/write_text_file", "params": {"content": "x" * 1000}})
    peer.link.write(GOOD)
    await settle()
    [answer] = peer.received
    assert error_of(answer)[:2] == ("w", -32600)
    assert "limit of 1000 bytes" in error_of(answer)[2]
    assert handler.messages == [Notification("good", None)]
    peer.send({"id": "w", "method": "m"})  # the id is free again
    await settle()
    assert handler.messages[-1] == Request("w", "m", None)


async def test_a_long_request_under_an_id_that_is_open_answers_nothing() -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.send({"id": 1, "method": "m"}, {"id": 1, "method": "m", "params": {"a": "x" * 1000}})
    await settle()
    assert peer.received == []
    assert handler.responders[0].result(NULL)
    await settle()
    assert peer.received == [{"id": 1, "result": None}]


DEEP = b"[" * 250 + b"]" * 250
"""JSON, but nested deeper than is read."""


@pytest.mark.parametrize("rest", [b',"method":"m","params":%b}' % DEEP, b',"method":"m","par'])
async def test_a_request_that_is_no_json_is_refused_under_the_id_at_its_head(rest: bytes) -> None:
    handler = Recorder()
    _, peer = joined(handler)
    peer.link.write(b'{"jsonrpc":"2.0","id":"w"' + rest + b"\n" + GOOD)
    await settle()
    [answer] = peer.received
    assert error_of(answer)[:2] == ("w", -32700)
    assert handler.messages == [Notification("good", None)]


@pytest.mark.parametrize("rest", [b',"result":%b}' % DEEP, b',"error":{"code":1,"mes'])
@pytest.mark.attack("app-server")
async def test_an_answer_that_is_no_json_fails_its_call(rest: bytes) -> None:
    connection, peer = joined(Recorder())
    asked = connection.outgoing.next_id
    call = started(connection.call("m", None))
    await settle()
    peer.link.write(b'{"id":%d' % asked + rest + b"\n")
    with pytest.raises(InvalidPayload, match="not valid JSON"), anyio.fail_after(60):
        await call


async def test_an_answer_that_is_too_long_fails_its_call() -> None:
    connection, peer = joined(Recorder())
    call = started(connection.call("m", None))
    other = started(connection.call("n", None))
    await settle()
    peer.send({"id": 0, "result": "x" * 1000})
    await settle()
    with pytest.raises(LineTooLong, match="1000 bytes"):
        await call
    assert not other.done()
    assert len(peer.received) == 2  # the calls: an error would answer a request of the peer's own
    peer.send({"id": 1, "result": 7})
    assert await other == 7
