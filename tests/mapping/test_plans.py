"""Plans: the list of steps as ACP's plan, a proposed plan as a message."""

from __future__ import annotations

from codex_acp.codex.types import PlanThreadItem
from codex_acp.mapping.messages import plan_completed
from codex_acp.mapping.state import SessionState
from tests.support.updates import Json, chunks, said, step, wired


def plan(state: SessionState, explanation: str | None, **steps: str) -> list[Json]:
    params = {
        "threadId": "t",
        "turnId": "u",
        "explanation": explanation,
        "plan": [{"step": name, "status": status} for name, status in steps.items()],
    }
    return step(state, "turn/plan/updated", params)


def delta(state: SessionState, text: str) -> list[Json]:
    params = {"threadId": "t", "turnId": "u", "itemId": "p1", "delta": text}
    return step(state, "item/plan/delta", params)


def completed(state: SessionState, text: str) -> list[Json]:
    return wired(state, plan_completed(state, PlanThreadItem(id="p1", text=text)))


def test_the_whole_list_is_sent_each_time_in_acps_words() -> None:
    updates = plan(SessionState(), None, Look="completed", Mend="inProgress", Test="pending")

    assert updates == [
        {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "Look", "priority": "medium", "status": "completed"},
                {"content": "Mend", "priority": "medium", "status": "in_progress"},
                {"content": "Test", "priority": "medium", "status": "pending"},
            ],
        }
    ]


def test_a_status_of_a_newer_server_leaves_the_step_to_do() -> None:
    ((update),) = plan(SessionState(), None, Look="postponed")

    assert update["entries"][0]["status"] == "pending"


def test_an_empty_list_clears_the_plan() -> None:
    assert plan(SessionState(), None) == [{"sessionUpdate": "plan", "entries": []}]


def test_the_explanation_is_a_thought_and_said_again_only_when_it_changes() -> None:
    state = SessionState()
    first = plan(state, "Two steps.", Look="pending")
    again = plan(state, "Two steps.", Look="inProgress")
    other = plan(state, "Three.", Look="completed")

    assert [said(first), said(again), said(other)] == [["Two steps."], [], ["Three."]]
    assert [u["sessionUpdate"] for u in first] == ["agent_thought_chunk", "plan"]


def test_a_proposed_plan_is_a_message_of_which_completion_sends_the_rest() -> None:
    state = SessionState()

    assert chunks(delta(state, "# Plan")) == [("p1", "# Plan")]
    assert chunks(completed(state, "# Plan\n1. Look")) == [("p1", "\n1. Look")]
    assert completed(state, "# Plan\n1. Look") == []


def test_a_proposed_plan_that_differs_from_its_deltas_counts() -> None:
    state = SessionState()
    delta(state, "# Plam")

    assert chunks(completed(state, "# Plan")) == [("p1:completed", "# Plan")]
