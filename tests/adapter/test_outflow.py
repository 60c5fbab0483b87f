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

from codex_acp.acp.agent_side import AgentSide
from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    PlanSessionUpdate,
    SessionNotification,
    SessionUpdate,
    TextContentBlock,
)
from codex_acp.adapter import outflow as module
from codex_acp.adapter.outflow import Outflow
from codex_acp.errors import ConnectionClosed
from codex_acp.jsonrpc.message import EncodedJson
from codex_acp.mapping.step import TextChunk, ThoughtChunk
from codex_acp.wire.codec import decode, from_json

Work = Callable[[], Coroutine[None, None, None]]


class Client:
    """A client that lags as long as ``writing_paused``."""

    def __init__(self) -> None:
        self.writing_paused = False
        self.closed = False
        self.taken: list[SessionNotification] = []
        self.waiting: list[Work] = []
        self.lags = anyio.Event()
        self.held: Callable[[], None] | None = None
        self.outflow = Outflow(cast("AgentSide", self), self.waiting.append)

    def session_update_encoded(self, params: EncodedJson) -> None:
        self.end_read()  # as the connection does: what is held goes before anything else
        self.taken.append(decode(SessionNotification, from_json(params)))

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
        found = []
        for notification in self.taken:
            update = notification.update
            assert isinstance(
                update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate
            )
            assert isinstance(update.content, TextContentBlock)
            found.append((notification.session_id, update.message_id, update.content.text))
        return found


def chunk(text: str, message: str = "m") -> AgentMessageChunkSessionUpdate:
    return AgentMessageChunkSessionUpdate(content=TextContentBlock(text=text), message_id=message)


def thought(text: str) -> AgentThoughtChunkSessionUpdate:
    return AgentThoughtChunkSessionUpdate(content=TextContentBlock(text=text), message_id="m")


async def test_a_client_that_keeps_up_gets_each_update_at_once() -> None:
    client = Client()
    client.outflow.send("s", chunk("a"))
    client.outflow.send("s", chunk("b"))

    assert client.texts() == [("s", "m", "a"), ("s", "m", "b")]
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
    ("session", "update"),
    [
        ("other", chunk("b")),
        ("s", chunk("b", "other")),
        ("s", thought("b")),
        ("s", chunk("b").model_copy(update={"meta": {"k": 1}})),
    ],
    ids=["session", "message", "kind", "meta"],
)
async def test_pieces_that_differ_in_more_than_text_are_never_joined(
    session: str, update: SessionUpdate
) -> None:
    client = Client()
    client.writing_paused = True
    sent: list[tuple[str, SessionUpdate]] = [("s", chunk("a")), (session, update)]
    for to, what in sent:
        client.outflow.send(to, what)
    await client.catch_up()

    assert [(n.session_id, n.update) for n in client.taken] == sent


async def test_text_is_not_joined_over_another_update() -> None:
    client = Client()
    client.writing_paused = True
    plan = PlanSessionUpdate(entries=[])
    for update in (chunk("a"), plan, chunk("b")):
        client.outflow.send("s", update)
    await client.catch_up()

    assert [notification.update for notification in client.taken] == [chunk("a"), plan, chunk("b")]


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
    plain, quick = Client(), Client()
    for text in texts:
        plain.outflow.send(session, chunk(text, message))
        quick.outflow.send(session, TextChunk(message, text))
        quick.end_read()

    assert quick.taken == plain.taken


@given(message=st.text(), texts=st.lists(st.tuples(st.text(), st.booleans()), max_size=6))
def test_thoughts_and_messages_of_one_id_are_written_as_their_models_would_be(
    message: str, texts: list[tuple[str, bool]]
) -> None:
    plain, quick = Client(), Client()
    for text, is_thought in texts:
        kind = AgentThoughtChunkSessionUpdate if is_thought else AgentMessageChunkSessionUpdate
        plain.outflow.send("s", kind(content=TextContentBlock(text=text), message_id=message))
        quick.outflow.send("s", (ThoughtChunk if is_thought else TextChunk)(message, text))
        quick.end_read()

    assert quick.taken == plain.taken


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
