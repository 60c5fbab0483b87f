"""Updates of tool calls on their way to a client that lags: the newest state, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.types import SessionUpdate, ToolCallUpdateSessionUpdate
from codex_acp.adapter import outflow as module
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    SessionEvent,
    TerminalState,
    ThoughtChunk,
    ToolCallChanged,
)
from tests.adapter.test_outflow import PLAN, Client, model, thought


def output(text: str, call: str = "a", *, ended: bool = False) -> ToolCallChanged:
    event = ToolCallChanged(id=call, content=[TextBlock(text)])
    if ended:
        event.status = "completed"
    return event


def taken(client: Client) -> list[SessionUpdate]:
    return [notification.update for notification in client.taken]


async def test_of_an_output_that_nobody_has_seen_the_last_state_is_sent() -> None:
    client = Client()
    client.writing_paused = True
    for number in range(5):
        client.outflow.send("s", output(f"{number}", "a"))
        client.outflow.send("s", output(f"{number}", "b"))
    await client.catch_up()

    assert taken(client) == [model(output("4", "a")), model(output("4", "b"))]


async def test_the_end_of_a_call_replaces_its_output_and_comes_where_it_came() -> None:
    client = Client()
    client.writing_paused = True
    for event in (output("1"), PLAN, output("2", ended=True)):
        client.outflow.send("s", event)
    await client.catch_up()

    assert taken(client) == [model(PLAN), model(output("2", ended=True))]


@pytest.mark.parametrize(
    "later",
    [
        ToolCallChanged(id="a", status="completed"),
        output("2", "other"),
        ToolCallChanged(id="a", content=[], terminal=TerminalState("a", output="x")),
    ],
    ids=["other fields", "other call", "terminal"],
)
async def test_an_update_that_says_something_of_its_own_is_kept(later: SessionEvent) -> None:
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", output("1"))
    client.outflow.send("s", later)
    await client.catch_up()

    assert taken(client) == [model(output("1")), model(later)]


async def test_a_call_of_another_session_is_another_call() -> None:
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", output("1"))
    client.outflow.send("t", output("2"))
    await client.catch_up()

    assert taken(client) == [model(output("1")), model(output("2"))]


async def test_an_output_that_is_written_is_not_taken_back() -> None:
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", output("1"))
    client.outflow.flush()
    client.outflow.send("s", output("2"))
    await client.catch_up()

    assert taken(client) == [model(output("1")), model(output("2"))]


async def test_what_is_replaced_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_UPDATES", 2)
    monkeypatch.setattr(module, "MAX_WAITING_TEXT", 3_000)
    client = Client()
    told: list[bool] = []
    client.outflow.when_full(told.append)
    client.writing_paused = True
    for _ in range(1_000):
        client.outflow.send("s", output("x" * 1_000, "a"))
        client.outflow.send("s", output("x" * 1_000, "b"))
    assert told == []
    client.outflow.send("s", output("x" * 1_000, "c"))
    assert told == [True], "the size of updates counts, not only of text"
    await client.catch_up()

    assert told == [True, False]


UPDATES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.dictionaries(st.sampled_from(["title", "raw_input", "raw_output"]), st.integers(0, 9)),
        st.booleans(),
    ),
    max_size=20,
)


@given(UPDATES)
async def test_whenever_the_client_lags_its_tool_calls_end_the_same(
    sends: list[tuple[str, dict[str, int], bool]],
) -> None:
    client = Client()
    expected: dict[tuple[str, str], object] = {}
    for call, fields, lags in sends:
        client.writing_paused = lags
        values = {name: str(value) for name, value in fields.items()}
        event = ToolCallChanged(id=call)
        for name, value in values.items():
            setattr(event, name, value)
        client.outflow.send("s", event)
        expected |= {(call, name): value for name, value in values.items()}
    await client.catch_up()
    found: dict[tuple[str, str], object] = {}
    for last in taken(client):
        assert isinstance(last, ToolCallUpdateSessionUpdate)
        for name in last.model_fields_set - {"tool_call_id", "session_update"}:
            found[last.tool_call_id, name] = getattr(last, name)

    assert found == expected


async def test_thoughts_that_wait_are_joined_and_written_as_their_model_would_be() -> None:
    client = Client()
    client.outflow.send("s", ThoughtChunk("m", "a"))
    client.end_read()
    client.writing_paused = True
    for text in "bc":
        client.outflow.send("s", ThoughtChunk("m", text))
    await client.catch_up()

    assert taken(client) == [model(thought("a")), model(thought("bc"))]


async def test_a_replay_waits_for_a_client_that_lags() -> None:
    client = Client()
    client.writing_paused = True
    client.outflow.send("s", output("1"))
    client.writing_paused = False
    await client.outflow.wait_drained()

    assert taken(client) == [model(output("1"))]
