"""The session as a whole: its title, its goal, and what others do with it."""

from __future__ import annotations

import pytest

from codex_acp.mapping.state import SessionState
from tests.support.updates import ALL, Json, said, step

THREAD = {"threadId": "t"}


def goal(state: SessionState, status: str, tokens: int = 0, objective: str = "Mend") -> list[Json]:
    value = {
        **THREAD,
        "objective": objective,
        "status": status,
        "tokensUsed": tokens,
        "timeUsedSeconds": tokens,
        "createdAt": 1,
        "updatedAt": 1,
    }
    return step(state, "thread/goal/updated", {**THREAD, "goal": value})


def cleared(state: SessionState) -> list[Json]:
    return step(state, "thread/goal/cleared", THREAD)


def test_the_name_of_a_thread_is_the_title_of_its_session_and_no_name_clears_it() -> None:
    for params in ({**THREAD, "threadName": None}, THREAD):
        ((update),) = step(SessionState(), "thread/name/updated", params)
        assert update == {"sessionUpdate": "session_info_update", "title": None}

    ((update),) = step(SessionState(), "thread/name/updated", {**THREAD, "threadName": "Mend"})
    assert update == {"sessionUpdate": "session_info_update", "title": "Mend"}


def test_a_goal_is_said_when_it_or_its_status_changes_and_not_for_its_tokens() -> None:
    state = SessionState()

    assert said(goal(state, "active")) == ["Goal: Mend"]
    assert goal(state, "active", tokens=100) == []
    assert said(goal(state, "paused")) == ["Goal paused: Mend"]
    assert said(goal(state, "paused", objective="Build")) == ["Goal paused: Build"]


@pytest.mark.parametrize(
    ("status", "severity"),
    [
        ("active", "info"),
        ("paused", "info"),
        ("blocked", "warning"),
        ("usageLimited", "warning"),
        ("budgetLimited", "warning"),
        ("complete", "info"),
        ("daydreaming", "info"),
    ],
)
def test_a_goal_that_is_stuck_is_a_warning(status: str, severity: str) -> None:
    ((notice),) = goal(SessionState(ALL), status)

    assert notice["severity"] == severity
    assert "Mend" in notice["title"]


def test_the_end_of_a_goal_is_said_only_if_there_was_one() -> None:
    state = SessionState()

    assert cleared(state) == []
    goal(state, "active")
    assert said(cleared(state)) == ["The goal was cleared"]
    assert cleared(state) == []
    assert goal(state, "active") != []


@pytest.mark.parametrize("what", ["archived", "unarchived", "deleted", "reverted"])
def test_what_others_do_with_the_session_is_said(what: str) -> None:
    assert len(said(step(SessionState(), f"thread/{what}", THREAD))) == 1
