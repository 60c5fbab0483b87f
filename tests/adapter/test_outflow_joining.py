"""Pieces of one message that came in one read reach the client as one update."""

from __future__ import annotations

import anyio
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.types import (
    AgentMessageChunkSessionUpdate,
    AgentThoughtChunkSessionUpdate,
    PlanSessionUpdate,
    SessionUpdate,
    TextContentBlock,
)
from codex_acp.mapping.events import TextChunk, ThoughtChunk
from tests.adapter.test_outflow import PLAN, Client, chunk, model


async def test_pieces_of_one_read_become_one() -> None:
    client = Client()
    for text in "abc":
        client.outflow.send("s", TextChunk("m", text))
    assert client.taken == []
    client.end_read()
    client.outflow.send("s", TextChunk("m", "d"))
    client.end_read()

    assert client.texts() == [("s", "m", "abc"), ("s", "m", "d")]


async def test_pieces_of_one_read_are_not_joined_over_another_update() -> None:
    client = Client()
    events = (chunk("a"), PLAN, chunk("b"))
    for event in events:
        client.outflow.send("s", event)
    client.end_read()

    assert [notification.update for notification in client.taken] == [
        model(event) for event in events
    ]


async def test_a_client_that_begins_to_lag_gets_what_was_held_first() -> None:
    client = Client()
    client.outflow.send("s", TextChunk("m", "a"))
    client.writing_paused = True
    client.outflow.send("s", TextChunk("m", "b"))
    client.outflow.send("s", TextChunk("n", "c"))
    client.outflow.flush()

    assert client.texts() == [("s", "m", "ab"), ("s", "n", "c")]


Piece = tuple[str, type, str | None, str]

READS = st.lists(
    st.tuples(
        st.sampled_from(["s1", "s2"]),
        st.sampled_from([TextChunk, ThoughtChunk]),
        st.sampled_from(["m1", "m2"]),
        st.text(max_size=3),
        st.sampled_from(["same read", "next read", "other update", "flush"]),
        st.booleans(),
    ),
    max_size=30,
)

KINDS: dict[type, type] = {
    AgentMessageChunkSessionUpdate: TextChunk,
    AgentThoughtChunkSessionUpdate: ThoughtChunk,
}


def piece_of(session_id: str, update: SessionUpdate) -> Piece:
    """A chunk taken apart; of another update only that it is there."""
    if isinstance(update, AgentMessageChunkSessionUpdate | AgentThoughtChunkSessionUpdate):
        assert isinstance(update.content, TextContentBlock)
        return session_id, KINDS[type(update)], update.message_id, update.content.text
    return session_id, type(update), None, ""


def joined(pieces: list[Piece]) -> list[Piece]:
    """Adjacent pieces of one message as one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and found[-1][:3] == piece[:3] and piece[2] is not None:
            found[-1] = (*piece[:3], found[-1][3] + piece[3])
        else:
            found.append(piece)
    return found


@given(READS)
def test_however_it_is_cut_into_reads_all_text_arrives_in_order(
    sends: list[tuple[str, type[TextChunk | ThoughtChunk], str, str, str, bool]],
) -> None:
    sent: list[Piece] = []

    async def scenario() -> list[Piece]:
        client = Client()
        for session, kind, message, text, then, lags in sends:
            client.writing_paused = lags
            client.outflow.send(session, kind(message, text))
            sent.append((session, kind, message, text))
            if then == "next read":
                client.end_read()
            elif then == "other update":
                client.outflow.send(session, PLAN)
                sent.append((session, PlanSessionUpdate, None, ""))
            elif then == "flush":
                client.outflow.flush()
        await client.catch_up()
        return [piece_of(n.session_id, n.update) for n in client.taken]

    assert joined(anyio.run(scenario)) == joined(sent)
