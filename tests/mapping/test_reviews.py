"""An automatic review is a tool call that says what was decided and why; a review is a message."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.types import (
    AgentMessageThreadItem,
    EnteredReviewModeThreadItem,
    ExitedReviewModeThreadItem,
)
from codex_acp.mapping.items import show_end
from codex_acp.mapping.messages import agent_message_completed, message_delta
from codex_acp.mapping.state import SessionState
from tests.support.updates import Json, chunks, step, wired

COMMAND = {"type": "command", "command": "touch made", "cwd": "/project", "source": "shell"}
SHARED = {"threadId": "t", "turnId": "u", "reviewId": "r1", "startedAtMs": 1}


def started(state: SessionState, action: Json = COMMAND, target: str | None = "i1") -> list[Json]:
    review = {"status": "inProgress"}
    params = {**SHARED, "targetItemId": target, "action": action, "review": review}
    return step(state, "item/autoApprovalReview/started", params)


def completed(state: SessionState, status: str, **more: Any) -> list[Json]:
    params = {
        **SHARED,
        "targetItemId": "i1",
        "action": COMMAND,
        "completedAtMs": 2,
        "decisionSource": "agent",
        "review": {"status": status, **more},
    }
    return step(state, "item/autoApprovalReview/completed", params)


def text_of(update: Json) -> str:
    return "\n".join(part["content"]["text"] for part in update["content"])


def test_a_review_is_a_tool_call_that_names_what_it_reviews() -> None:
    ((call),) = started(SessionState())

    assert call["sessionUpdate"] == "tool_call"
    assert (call["toolCallId"], call["kind"], call["status"]) == ("r1", "think", "in_progress")
    assert "touch made" in call["title"]
    assert "i1" in text_of(call)
    assert call["rawInput"] == {"targetItemId": "i1", "action": COMMAND}


def test_a_review_without_a_target_names_none() -> None:
    ((call),) = started(SessionState(), target=None)

    assert "Tool call" not in text_of(call)


@pytest.mark.parametrize(
    ("status", "end", "word"),
    [
        ("approved", "completed", "Approved."),
        ("denied", "failed", "Denied."),
        ("timedOut", "failed", "too long"),
        ("aborted", "failed", "aborted"),
        ("postponed", "failed", "postponed"),
    ],
)
def test_only_an_approval_completes_a_review(status: str, end: str, word: str) -> None:
    state = SessionState()
    started(state)
    more = {"riskLevel": "high", "userAuthorization": "low", "rationale": "Nobody asked."}

    ((update),) = completed(state, status, **more)
    assert (update["sessionUpdate"], update["status"]) == ("tool_call_update", end)
    for said in (word, "Risk: high", "by the user: low", "Nobody asked.", "touch made"):
        assert said in text_of(update)
    assert update["rawOutput"] == {"status": status, **more}


def test_a_review_that_was_not_seen_to_start_is_shown_whole() -> None:
    ((call),) = completed(SessionState(), "approved")

    assert (call["sessionUpdate"], call["status"]) == ("tool_call", "completed")
    assert "Approved." in text_of(call)


def test_4_1_a_review_that_is_told_to_have_ended_twice_is_announced_once() -> None:
    state = SessionState()
    ((first,), (second,)) = (completed(state, "approved"), completed(state, "approved"))

    assert first["sessionUpdate"] == "tool_call"
    assert (second["sessionUpdate"], second["status"]) == ("tool_call_update", "completed")


def test_4_1_a_review_that_ends_behind_its_turn_is_not_announced_again() -> None:
    state = SessionState()
    started(state)
    turn = {"id": "u", "items": [], "status": "interrupted"}
    ((cut_off,),) = (step(state, "turn/completed", {"threadId": "t", "turn": turn}),)
    ((ended),) = completed(state, "aborted")

    assert (cut_off["toolCallId"], cut_off["status"]) == ("r1", "failed")
    assert (ended["sessionUpdate"], ended["status"]) == ("tool_call_update", "failed")
    assert "aborted" in text_of(ended)


def test_a_review_that_never_ends_ends_with_its_turn() -> None:
    state = SessionState()
    started(state)
    turn = {"id": "u", "items": [], "status": "completed"}

    ((update),) = step(state, "turn/completed", {"threadId": "t", "turn": turn})
    assert (update["toolCallId"], update["status"]) == ("r1", "failed")


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (COMMAND, "run: touch made"),
        (
            {
                "type": "execve",
                "program": "/bin/touch",
                "argv": ["touch", "made"],
                "cwd": "/p",
                "source": "shell",
            },
            "run: /bin/touch made",
        ),
        (
            {
                "type": "writeStdin",
                "approvalId": "a",
                "cwd": "/p",
                "processId": "1",
                "stdin": "y\n",
            },
            "write to a running command: `y⏎`",
        ),
        ({"type": "applyPatch", "cwd": "/p", "files": ["/p/a", "/p/b"]}, "change /p/a, /p/b"),
        ({"type": "applyPatch", "cwd": "/p", "files": []}, "change files"),
        (
            {
                "type": "networkAccess",
                "host": "example.com",
                "port": 443,
                "protocol": "https",
                "target": "example.com:443",
            },
            "connect to `https://example.com:443`",
        ),
        ({"type": "mcpToolCall", "server": "notes", "toolName": "write"}, "call notes: write"),
        (
            {"type": "mcpToolCall", "server": "notes", "toolName": "w", "toolTitle": "Write"},
            "call notes: Write",
        ),
        (
            {"type": "requestPermissions", "permissions": {}, "reason": "to install"},
            "have more permissions (to install)",
        ),
        ({"type": "teleport"}, "do what this version does not know (teleport)"),
    ],
)
def test_every_kind_of_action_is_said_in_words(action: Json, words: str) -> None:
    ((call),) = started(SessionState(), action)

    assert call["title"] == f"Review: {words}"
    assert words in text_of(call)


# Review mode.


def entered(state: SessionState, item: str = "e1") -> list[Json]:
    mode = EnteredReviewModeThreadItem(id=item, review="current changes")
    return wired(state, show_end(state, mode, live=True))


def exited(state: SessionState, review: str, item: str = "x1") -> list[Json]:
    ended = ExitedReviewModeThreadItem(id=item, review=review)
    return wired(state, show_end(state, ended, live=True))


def message(state: SessionState, text: str) -> list[Json]:
    item = AgentMessageThreadItem(id="m1", text=text)
    return wired(state, agent_message_completed(state, item))


def test_review_mode_is_said_when_it_begins_and_ends_with_the_review_each_once() -> None:
    state = SessionState()
    ((_, begun),) = chunks(entered(state))

    assert "current changes" in begun
    assert entered(state) == []
    assert chunks(exited(state, "No findings.")) == [("x1", "No findings.")]
    assert exited(state, "No findings.") == []


def test_both_items_may_have_one_id() -> None:
    state = SessionState()
    entered(state, "u")

    assert chunks(exited(state, "No findings.", "u")) == [("u", "No findings.")]


def test_the_message_that_repeats_the_review_is_left_out() -> None:
    state = SessionState()
    exited(state, "No findings.")

    assert message(state, "No findings.") == []
    assert chunks(message(state, "Anything else?")) == [("m1", "Anything else?")]


def test_a_review_that_was_a_message_before_is_left_out() -> None:
    state = SessionState()
    message(state, "No findings.")

    assert exited(state, "No findings.") == []


def test_a_streamed_message_that_repeats_the_review_is_completed_all_the_same() -> None:
    from codex_acp.codex.types import AgentMessageDeltaNotification

    state = SessionState()
    exited(state, "No findings.")
    params = AgentMessageDeltaNotification(delta="No ", item_id="m1", thread_id="t", turn_id="u")
    message_delta(state, params)

    assert chunks(message(state, "No findings.")) == [("m1", "findings.")]
