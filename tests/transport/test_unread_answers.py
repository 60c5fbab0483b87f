"""A peer that asks without end and never reads what it is answered is held up, and still ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import anyio
import pytest

from codex_acp.errors import TransportError
from codex_acp.jsonrpc import EncodedJson, Request
from codex_acp.transport import connection as module
from codex_acp.transport import outbox
from codex_acp.transport.child import ChildProcess, spawn
from codex_acp.transport.connection import Connection, Responder
from codex_acp.transport.link import MemoryLink, memory_pair
from tests.transport.recording import Recorder, settle, started

pytestmark = pytest.mark.attack("agent")

WAIT = 30
"""Seconds; a bound for a busy machine, not an expectation."""

ANSWER = EncodedJson(b'"' + b"x" * 1000 + b'"')

FLOOD = """
import os, sys, time
line = b'{"id":%d,"method":"m","params":{}}\\n'
for number in range(int(sys.argv[1])):
    sys.stdout.buffer.write(line % number)
sys.stdout.flush()
"""

FITS_IN_A_PIPE = "1700"
"""Requests: in less than 64 KiB, so that whoever sends them can end though nobody reads them."""


def answer(_request: Request, responder: Responder) -> None:
    responder.result(ANSWER)


class DeafPeer:
    """Sends, and is told everything only once it listens."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.heard = b""
        self.sent = 0
        self.closed = False
        link.pause_reading()
        link.start(self)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def link_closed(self, _error: TransportError | None) -> None:
        self.closed = True

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    async def ask(self, count: int) -> None:
        for _ in range(count):
            self.link.write(b'{"id":%d,"method":"m"}\n' % self.sent)
            self.sent += 1
            await settle()

    @property
    def answered(self) -> list[int]:
        return [json.loads(line)["id"] for line in self.heard.splitlines()]


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "UNREAD_ANSWERS_LIMIT", 200_000)


def joined(
    respond: Callable[[Request, Responder], object] = answer,
) -> tuple[Connection, Recorder, DeafPeer]:
    ours, theirs = memory_pair()
    connection, handler = Connection(ours, name="peer", version=False), Recorder(respond)
    connection.start(handler)
    return connection, handler, DeafPeer(theirs)


async def test_it_is_not_read_until_it_has_listened_and_then_all_is_answered_once() -> None:
    _, handler, peer = joined()
    await peer.ask(1000)
    assert 190 < len(handler.responders) < 300
    peer.link.resume_reading()
    await settle()
    await peer.ask(1)
    assert peer.answered == list(range(1001))


async def test_what_is_refused_counts_as_well() -> None:
    _, _, peer = joined()
    for _ in range(1000):
        peer.link.write(b"x" * 900 + b"\n")
        await settle()
    peer.link.resume_reading()
    await settle()
    first = len(peer.heard.splitlines())
    assert first <= 1000


async def test_what_is_not_an_answer_holds_nobody_up() -> None:
    """A slow client that is told much must be able to cancel it."""
    connection, handler, peer = joined()
    for _ in range(1000):
        connection.notify("update", ANSWER)
        await settle()
    call = started(connection.call("ask", None))
    await settle()
    peer.link.write(b'{"id":0,"result":"allowed"}\n{"method":"cancel"}\n')
    with anyio.fail_after(WAIT):
        assert await call == "allowed"
    await settle()
    assert len(handler.messages) == 1


async def test_one_answer_of_any_size_to_a_peer_that_listens_holds_nobody_up() -> None:
    large = EncodedJson(b'"' + b"x" * 1_000_000 + b'"')
    _, _, peer = joined(lambda _request, responder: responder.result(large))
    peer.link.resume_reading()
    await peer.ask(20)
    assert peer.answered == list(range(20))


async def test_who_paused_the_reading_itself_decides_on_with_it() -> None:
    connection, handler, peer = joined()
    await peer.ask(1000)
    read = len(handler.responders)
    connection.pause_reading()
    peer.link.resume_reading()
    await settle()
    assert len(handler.responders) == read
    connection.resume_reading()
    await settle()
    assert len(handler.responders) == 1000


async def test_it_ends_when_it_goes_and_when_it_is_closed() -> None:
    connection, handler, peer = joined()
    await peer.ask(1000)
    await peer.link.aclose()
    await settle()
    assert handler.events[-1] == ("closed", None)
    assert connection.closed

    connection, handler, peer = joined()
    await peer.ask(1000)
    call = started(connection.call("m", None))
    await settle()
    await connection.aclose()
    with pytest.raises(TransportError):
        await call


async def test_requests_that_nobody_answers_are_served_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_REQUESTS", 10)
    connection, handler, peer = joined(lambda *_: None)
    peer.link.resume_reading()
    await peer.ask(12)
    refused = [json.loads(answer) for answer in peer.heard.splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in refused] == [(10, -32001), (11, -32001)]
    answer(Request(0, "m", None), handler.responders[0])
    await peer.ask(1)
    assert len(handler.responders) == 11
    assert not connection.closed


@pytest.mark.parametrize(
    "then",
    ["", "os._exit(3)", "os.close(1); time.sleep(600)"],
    ids=["exits", "fails", "closes its stdout"],
)
async def test_a_process_that_does_so_and_ends_is_told_to_have_ended(then: str) -> None:
    child = spawn([sys.executable, "-c", FLOOD + then, FITS_IN_A_PIPE])
    try:
        connection, handler, closed = over(child)
        with anyio.fail_after(WAIT):
            await closed.wait()
        assert connection.closed
        assert len(handler.responders) == int(FITS_IN_A_PIPE)
    finally:
        await child.aclose()


async def test_a_process_that_does_so_and_lives_is_held_up_and_can_be_closed() -> None:
    child = spawn([sys.executable, "-c", FLOOD, "100000"])
    try:
        some = anyio.Event()

        def respond(request: Request, responder: Responder) -> None:
            answer(request, responder)
            if request.id == 200:
                some.set()

        connection, handler, _ = over(child, respond)
        with anyio.fail_after(WAIT):
            await some.wait()
        await anyio.sleep(0.5)  # what would be read if nothing held it up
        assert len(handler.responders) < 10_000
        with anyio.fail_after(WAIT):
            await connection.aclose()
    finally:
        await child.aclose()


def over(
    child: ChildProcess, respond: Callable[[Request, Responder], object] = answer
) -> tuple[Connection, Recorder, anyio.Event]:
    closed = anyio.Event()

    class Told(Recorder):
        def on_closed(self, error: TransportError | None) -> None:
            super().on_closed(error)
            closed.set()

    connection, handler = Connection(child, name="flood", version=False), Told(respond)
    connection.start(handler)
    return connection, handler, closed
