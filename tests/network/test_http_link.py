"""One connection over streamable HTTP, without HTTP: what goes to which stream, and when."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from codex_acp.adapter.network.http_link import (
    HIGH_WATER_BYTES,
    WAITING_BYTES,
    AcceptedHttpLink,
    OutgoingStream,
)
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.jsonrpc import Request, Response
from codex_acp.transport.streamable_http import KEEP_ALIVE, as_event
from tests.network.listening_adapter import WAIT

Json = dict[str, Any]


class Receiver:
    """Whoever is behind the link."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.calls: list[str] = []
        self.ended: list[TransportError | None] = []

    def data_received(self, data: bytes) -> None:
        self.lines.append(data)

    def link_closed(self, error: TransportError | None) -> None:
        self.ended.append(error)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Linked:
    """A link that was started."""

    def __init__(self, idle_seconds: float = 60.0, streams: int = 3) -> None:
        self.receiver = Receiver()
        self.link = AcceptedHttpLink("client", idle_seconds=idle_seconds, streams=streams)
        self.link.start(self.receiver)

    def read(self, session: str | None = None) -> OutgoingStream:
        stream = self.link.open_stream(session)
        assert stream is not None
        return stream

    def write(self, *messages: Json) -> None:
        self.link.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))


def update(session: str, text: str = "hi") -> Json:
    return {"method": "session/update", "params": {"sessionId": session, "update": text}}


def question(number: int, session: str) -> Json:
    return {"id": number, "method": "session/request_permission", "params": {"sessionId": session}}


async def heard(stream: OutgoingStream) -> list[Json]:
    """What is handed over next."""
    with anyio.fail_after(WAIT):
        events = await stream.next_bytes(600)
    assert events is not None
    lines = [line for line in events.decode().split("\n\n") if line]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_what_names_a_session_goes_to_its_stream() -> None:
    linked = Linked()
    everything, one = linked.read(), linked.read("one")
    linked.write({"method": "x"}, update("one"), update("two"), {"id": 7, "result": {}})
    assert await heard(one) == [update("one")]
    assert await heard(everything) == [{"method": "x"}, {"id": 7, "result": {}}]
    assert await heard(linked.read("two")) == [update("two")]
    assert linked.link.has_max_streams


async def test_the_answer_to_a_load_comes_behind_what_the_session_is_told() -> None:
    linked = Linked()
    everything, one = linked.read(), linked.read("one")
    await linked.link.post(Request(1, "session/load", {}), b"{}", "one")
    await linked.link.post(Request(2, "session/prompt", {}), b"{}", "one")
    answers: list[Json] = [{"id": 1, "result": {}}, {"id": 2, "result": {}}]
    linked.write(update("one"), *answers)
    waiting = asyncio.ensure_future(heard(everything))
    assert await heard(one) == [update("one")]
    await anyio.lowlevel.checkpoint()
    assert not waiting.done(), "what was taken is still on its way"
    assert await heard(one) == [answers[1]]
    assert await waiting == [answers[0]]

    # Its reader goes: nobody waits for what cannot arrive.
    await linked.link.post(Request(3, "session/load", {}), b"{}", "one")
    linked.write(update("one"), {"id": 3, "result": {}})
    linked.link.release("one", one)
    assert await heard(everything) == [{"id": 3, "result": {}}]


async def test_the_stream_of_a_session_that_is_closed_ends_and_can_be_opened_again() -> None:
    linked = Linked()
    linked.read()
    for number in range(5):  # more than it may have at once
        one = linked.read("one")
        for method, answer in (("session/close", "error"), ("session/delete", "result")):
            await linked.link.post(Request(number, method, {}), b"{}", "one")
            error = {"code": -1, "message": "no"}
            linked.write({"id": number, answer: error})
            assert await heard(one) == [{"id": number, answer: error}]
        assert await one.next_bytes(600) is None
        linked.write(update("one"))
        again = linked.read("one")
        linked.link.release("one", one)
        assert await heard(again) == [update("one")]
        linked.link.release("one", again)


async def test_questions_that_were_not_answered_are_asked_again() -> None:
    linked = Linked()
    one = linked.read("one")
    linked.write(*(question(number, "one") for number in range(4)))
    assert len(await heard(one)) == 4
    linked.link.release("one", one)
    await linked.link.post(Response(1, {}), b"{}", "one")
    linked.write({"method": "$/cancel_request", "params": {"requestId": 2}}, question(4, "one"))
    again = await heard(linked.read("one"))
    assert [each.get("id") for each in again] == [0, 3, None, 4]


async def test_a_reader_who_does_not_keep_up_pauses_the_writer() -> None:
    linked = Linked()
    calls = linked.receiver.calls
    one = linked.read("one")
    big = "x" * HIGH_WATER_BYTES
    linked.write(update("one", big))
    await heard(one)
    assert calls == ["pause"], "it is on its way"
    linked.write(update("one"))
    await heard(one)
    assert calls == ["pause", "resume"]

    # What nobody reads holds up nothing, as long as it is not much.
    linked.write(update("two", big))
    assert calls == ["pause", "resume"]
    linked.write(update("two", "x" * WAITING_BYTES))
    assert calls == ["pause", "resume", "pause"]
    two = linked.read("two")
    for _ in range(2):
        await heard(two)
    linked.write(update("two"))
    await heard(two)
    assert calls == ["pause", "resume"] * 2


async def test_a_connection_that_nobody_reads_ends() -> None:
    linked = Linked(idle_seconds=0.01)
    stream = linked.read()
    assert await stream.next_bytes(0.05) == KEEP_ALIVE
    assert linked.receiver.ended == []
    linked.link.release(None, stream)
    with anyio.fail_after(WAIT):
        while not linked.receiver.ended:  # noqa: ASYNC110 - a receiver is told, no test
            await anyio.sleep(0.01)
    assert "read no stream" in str(linked.receiver.ended[0])
    assert linked.link.open_stream(None) is None
    with pytest.raises(ConnectionClosed):
        await linked.link.post(Request(1, "x", None), b"{}", None)


@pytest.mark.attack("network")
async def test_a_paused_connection_whose_own_stream_nobody_reads_ends() -> None:
    linked = Linked(idle_seconds=0.01)
    stream = linked.read()
    session_stream = linked.read("one")
    linked.link.pause_reading()
    assert await session_stream.next_bytes(0.05) == KEEP_ALIVE
    linked.link.release(None, stream)
    linked.link.resume_reading()
    assert await session_stream.next_bytes(0.05) == KEEP_ALIVE
    assert linked.receiver.ended == []
    linked.link.pause_reading()
    with anyio.fail_after(WAIT):
        while not linked.receiver.ended:  # noqa: ASYNC110 - as above
            await anyio.sleep(0.01)


async def test_what_is_unsent_at_the_end_goes_first() -> None:
    linked = Linked()
    stream = linked.read()
    linked.write({"method": "x"})
    linked.link.set_close_reason(1001, "the server\nends")
    closing = asyncio.ensure_future(linked.link.aclose())
    await anyio.lowlevel.checkpoint()
    assert await stream.next_bytes(600) == b'data: {"method": "x"}\n\n: the server ends\n\n'
    assert await stream.next_bytes(600) is None
    assert not closing.done()
    linked.link.release(None, stream)
    await closing
    assert linked.receiver.ended == [None]


@pytest.mark.attack("network")
def test_no_message_makes_an_event_of_its_own() -> None:
    texts = [
        "a\n\ndata: b",
        "a\r\rdata: b",
        "\u2028\u2029\x85\x0b\x0c\x1c",
        "\U0001f600 ж",
        "\ud800",
    ]
    for text in texts:
        for ascii_only in (False, True):
            line = json.dumps({"x": text}, ensure_ascii=ascii_only).encode(errors="replace")
            event = as_event(line)
            assert event.isascii()
            assert event.decode().splitlines() == [event.decode()[:-2], ""]
            told = json.loads(event.removeprefix(b"data: "))
            assert told == json.loads(line)
