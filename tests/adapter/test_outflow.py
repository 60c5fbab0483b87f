"""Updates on their way to a client that lags: in order, joined where that loses nothing, bounded.

The side of the connection is a stand-in: whether its client lags is the test's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import cast

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    SessionNotification,
    SessionUpdate,
    TextContentBlock,
)
from codex_acp.adapter import outflow as module
from codex_acp.adapter.outflow import Outflow
from codex_acp.errors import ConnectionClosed
from codex_acp.jsonrpc import EncodedJson
from codex_acp.mapping.events import (
    PlanChanged,
    PlanStep,
    SessionEvent,
    TextChunk,
    ThoughtChunk,
)
from codex_acp.mapping.v1.updates import updates_of
from codex_acp.wire.codec import decode, encode

Work = Callable[[], Coroutine[None, None, None]]


def written(event: SessionEvent) -> list[bytes]:
    """How an event is written to this client."""
    return [encode(update) for update in updates_of(event, ClientFeatures())]


class Client:
    """A client that lags as long as ``writing_paused``."""

    def __init__(self) -> None:
        self.writing_paused = False
        self.closed = False
        self.taken: list[SessionNotification] = []
        self.waiting: list[Work] = []
        self.lags = anyio.Event()
        self.held: Callable[[], None] | None = None
        self.connection = self.outbox = self
        self.outflow = Outflow(cast("AgentSide", self), self.waiting.append, written)

    def session_update_encoded(self, params: EncodedJson) -> None:
        self.end_read()  # as the connection does: what is held goes before anything else
        self.taken.append(decode(SessionNotification, from_json(params)))

    @property
    def paused(self) -> bool:
        return self.writing_paused

    def send(self, line: bytes) -> None:
        self.session_update_encoded(EncodedJson(encode(from_json(line)["params"])))

    def hold(self, write: Callable[[], None]) -> None:
        self.end_read()
        self.held = write

    def end_read(self) -> None:
        """What was read in one go was delivered: the iteration of the loop ends."""
        held, self.held = self.held, None
        if held is not None:
            held()

    async def drain(self) -> None:
        self.end_read()
        if self.closed:
            raise ConnectionClosed("the client is gone")
        assert not self.writing_paused

    async def catch_up(self) -> None:
        """Lag no more, and run what waited for that."""
        self.end_read()
        self.writing_paused = False
        work, self.waiting[:] = list(self.waiting), []
        for task in work:
            await task()

    def texts(self) -> list[tuple[str, str | None, str]]:
        """Session, message and text of each chunk taken."""
        self.end_read()
        found = []
        for notification in self.taken:
            update = notification.update
            assert isinstance(
                update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate
            )
            assert isinstance(update.content, TextContentBlock)
            found.append((notification.session_id, update.message_id, update.content.text))
        return found


def chunk(text: str, message: str = "m") -> TextChunk:
    return TextChunk(message, text)


def thought(text: str) -> ThoughtChunk:
    return ThoughtChunk("m", text)


PLAN = PlanChanged("p", [])


def model(event: SessionEvent) -> SessionUpdate:
    """The update that tells of an event."""
    (update,) = updates_of(event, ClientFeatures())
    return update


async def test_a_client_that_keeps_up_gets_each_update_at_once() -> None:
    client = Client()
    client.outflow.send("s", PLAN)
    client.outflow.send("s", PlanChanged("p", [PlanStep("Look", "pending")]))

    assert len(client.taken) == 2
    assert client.waiting == []


async def test_adjacent_pieces_of_one_message_become_one_while_the_client_lags() -> None:
    client = Client()
    client.writing_paused = True
    for text in "abc":
        client.outflow.send("s", chunk(text))
    assert client.taken == []
    await client.catch_up()

    assert client.texts() == [("s", "m", "abc")]


@pytest.mark.parametrize(
    ("session", "event"),
    [("other", chunk("b")), ("s", chunk("b", "other")), ("s", thought("b"))],
    ids=["session", "message", "kind"],
)
async def test_pieces_that_differ_in_more_than_text_are_never_joined(
    session: str, event: SessionEvent
) -> None:
    client = Client()
    client.writing_paused = True
    sent: list[tuple[str, SessionEvent]] = [("s", chunk("a")), (session, event)]
    for to, what in sent:
        client.outflow.send(to, what)
    await client.catch_up()

    assert [(n.session_id, n.update) for n in client.taken] == [(s, model(e)) for s, e in sent]


async def test_text_is_not_joined_over_another_update() -> None:
    client = Client()
    client.writing_paused = True
    events = (chunk("a"), PLAN, chunk("b"))
    for event in events:
        client.outflow.send("s", event)
    await client.catch_up()

    assert [notification.update for notification in client.taken] == [
        model(event) for event in events
    ]


async def test_what_comes_while_others_wait_goes_behind_them() -> None:
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", chunk("a", "m1"))
    client.writing_paused = False
    client.outflow.send("s", chunk("b", "m2"))
    await client.catch_up()

    assert [text for _, _, text in client.texts()] == ["a", "b"]


async def test_flush_writes_all_that_waits_however_slow_the_client() -> None:
    client = Client()
    client.writing_paused = True
    for number in range(200):
        client.outflow.send("s", chunk("x", str(number)))
    client.outflow.flush()

    assert [message for _, message, _ in client.texts()] == [str(n) for n in range(200)]
    await client.catch_up()
    assert len(client.taken) == 200


async def test_only_one_task_waits_for_a_client_that_lags() -> None:
    client = Client()
    client.writing_paused = True
    for _ in range(5):
        client.outflow.send("s", chunk("a"))

    assert len(client.waiting) == 1
    await client.catch_up()
    client.writing_paused = True
    client.outflow.send("s", chunk("a"))
    assert len(client.waiting) == 1, "and another one the next time"


@pytest.mark.parametrize("how", ["updates", "text"])
async def test_when_too_much_waits_codex_is_paused_until_it_was_written(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_UPDATES", 3)
    monkeypatch.setattr(module, "MAX_WAITING_TEXT", 3)
    client = Client()
    told: list[bool] = []
    client.outflow.when_full(told.append)
    client.writing_paused = True
    for number in range(4):
        assert told == []
        client.outflow.send("s", chunk("a", str(number) if how == "updates" else "m"))
    if how == "text":
        client.outflow.send("s", chunk("a"))
    assert told == [True]
    client.outflow.send("s", chunk("a"))
    assert told == [True], "said once"
    await client.catch_up()

    assert told == [True, False]


async def test_whoever_registers_while_it_is_full_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_UPDATES", 0)
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", chunk("a"))
    told: list[bool] = []
    client.outflow.when_full(told.append)
    assert told == [True]
    client.outflow.flush()

    assert told == [True, False]


async def test_a_client_that_is_gone_frees_what_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_UPDATES", 0)
    client = Client()
    told: list[bool] = []
    client.outflow.when_full(told.append)
    client.writing_paused = True
    client.outflow.send("s", chunk("a"))
    client.closed = True
    await client.catch_up()

    assert client.taken == []
    assert told == [True, False]
    assert client.outflow.client_gone


SENDS = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2"]),
        st.sampled_from(["m1", "m2"]),
        st.text(max_size=3),
        st.booleans(),
    ),
    max_size=30,
)


@given(SENDS)
def test_whenever_the_client_lags_every_message_arrives_whole_and_in_order(
    sends: list[tuple[str, str, str, bool]],
) -> None:
    async def scenario() -> list[tuple[str, str | None, str]]:
        client = Client()
        for session, message, text, lags in sends:
            client.writing_paused = lags
            client.outflow.send(session, chunk(text, message))
        await client.catch_up()
        return client.texts()

    def runs(pieces: list[tuple[str, str | None, str]]) -> list[tuple[str, str | None, str]]:
        joined: list[tuple[str, str | None, str]] = []
        for session, message, text in pieces:
            if joined and joined[-1][:2] == (session, message):
                joined[-1] = (session, message, joined[-1][2] + text)
            else:
                joined.append((session, message, text))
        return joined

    sent: list[tuple[str, str | None, str]] = [(s, m, t) for s, m, t, _ in sends]
    assert runs(anyio.run(scenario)) == runs(sent)


@given(session=st.text(), message=st.text(), texts=st.lists(st.text(), min_size=1, max_size=4))
def test_a_text_chunk_is_written_as_its_model_would_be(
    session: str, message: str, texts: list[str]
) -> None:
    client = Client()
    for text in texts:
        client.outflow.send(session, TextChunk(message, text))
        client.end_read()

    assert [n.update for n in client.taken] == [model(TextChunk(message, t)) for t in texts]
    assert all(n.session_id == session for n in client.taken)


@given(message=st.text(), texts=st.lists(st.tuples(st.text(), st.booleans()), max_size=6))
def test_thoughts_and_messages_of_one_id_are_written_as_their_models_would_be(
    message: str, texts: list[tuple[str, bool]]
) -> None:
    client = Client()
    sent = [(ThoughtChunk if thinks else TextChunk)(message, text) for text, thinks in texts]
    for piece in sent:
        client.outflow.send("s", piece)
        client.end_read()

    assert [n.update for n in client.taken] == [model(piece) for piece in sent]


async def test_text_chunks_of_two_sessions_and_messages_are_not_mixed() -> None:
    client = Client()
    for session, message, text in [
        ("s", "m", "a"),
        ("t", "m", "b"),
        ("s", "n", "c"),
        ("s", "m", "d"),
    ]:
        client.outflow.send(session, TextChunk(message, text))
    client.end_read()

    assert client.texts() == [("s", "m", "a"), ("t", "m", "b"), ("s", "n", "c"), ("s", "m", "d")]


async def test_text_chunks_that_wait_are_joined() -> None:
    client = Client()
    client.writing_paused = True
    for text in "abc":
        client.outflow.send("s", TextChunk("m", text))
    for text in "de":
        client.outflow.send("s", ThoughtChunk("m", text))
    await client.catch_up()

    kinds = [type(notification.update) for notification in client.taken]
    assert kinds == [AgentMessageChunkSessionUpdate, AgentThoughtChunkSessionUpdate]
    assert client.texts() == [("s", "m", "abc"), ("s", "m", "de")]
