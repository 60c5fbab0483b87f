"""A compaction is shown once, as the client can show it, and never stays open."""

from __future__ import annotations

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex.types import ContextCompactionThreadItem
from codex_acp.mapping.messages import compaction_completed, compaction_started
from codex_acp.mapping.state import SessionState
from tests.support.updates import ALL, NONE, Json, step, wired

ITEM = ContextCompactionThreadItem(id="c1")


def started(state: SessionState) -> list[Json]:
    return wired(state, compaction_started(state, ITEM))


def completed(state: SessionState) -> list[Json]:
    return wired(state, compaction_completed(state, ITEM))


def turn_over(state: SessionState) -> list[Json]:
    turn = {"id": "u", "items": [], "status": "interrupted"}
    return step(state, "turn/completed", {"threadId": "t", "turn": turn})


def test_a_client_that_knows_compactions_is_told_of_one() -> None:
    state = SessionState(ALL)
    kind = {"sessionUpdate": "compaction_update", "compactionId": "c1"}

    assert started(state) == [{**kind, "status": "in_progress"}]
    assert completed(state) == [{**kind, "status": "completed"}]


def test_any_other_client_sees_a_tool_call_that_thinks() -> None:
    state = SessionState(NONE)

    assert started(state) == [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "c1",
            "title": "Compact conversation",
            "kind": "think",
            "status": "in_progress",
        }
    ]
    ((end),) = completed(state)
    assert (end["toolCallId"], end["status"]) == ("c1", "completed")


@pytest.mark.parametrize("client", [NONE, ALL], ids=["none", "all"])
def test_one_compaction_begins_once(client: ClientFeatures) -> None:
    state = SessionState(client)
    started(state)

    assert started(state) == []


@pytest.mark.parametrize("client", [NONE, ALL], ids=["none", "all"])
def test_one_that_was_not_seen_to_begin_is_shown_whole(client: ClientFeatures) -> None:
    ((update),) = completed(SessionState(client))

    assert update["status"] == "completed"
    assert update["sessionUpdate"] != "tool_call_update"


@pytest.mark.parametrize(("client", "end"), [(NONE, "failed"), (ALL, "cancelled")])
def test_the_end_of_the_turn_ends_what_is_under_way(client: ClientFeatures, end: str) -> None:
    state = SessionState(client)
    started(state)

    assert [update["status"] for update in turn_over(state)] == [end]
    assert turn_over(state) == []
