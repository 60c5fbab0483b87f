"""News that belongs to no item: said once, as the client can show it."""

from __future__ import annotations

import pytest

from codex_acp.mapping.messages import make_notice
from codex_acp.mapping.state import MAX_NOTICES, SessionState
from tests.support import updates
from tests.support.notification_samples import SAMPLES, Sample
from tests.support.updates import ALL, NONE, Json, step, wired

THREAD = {"threadId": "t"}


def warned(state: SessionState, text: str) -> list[Json]:
    return step(state, "warning", {"message": text})


def rerouted(state: SessionState, turn: str) -> list[Json]:
    params = {**THREAD, "turnId": turn, "fromModel": "a", "toModel": "b", "reason": "tired"}
    return step(state, "model/rerouted", params)


def retried(state: SessionState, message: str, details: str | None, turn: str = "u") -> list[Json]:
    error = {"message": message, "additionalDetails": details}
    return step(state, "error", {**THREAD, "turnId": turn, "error": error, "willRetry": True})


def started(state: SessionState, status: str, error: str | None = None) -> list[Json]:
    params = {"name": "notes", "status": status, "error": error}
    return step(state, "mcpServer/startupStatus/updated", params)


def test_a_client_with_notices_gets_one_and_any_other_a_thought_on_a_line_of_its_own() -> None:
    assert warned(SessionState(ALL), "Low disk") == [
        {"sessionUpdate": "notice", "severity": "warning", "title": "Low disk"}
    ]
    assert warned(SessionState(NONE), "Low disk") == [
        {
            "sessionUpdate": "agent_thought_chunk",
            "content": {"type": "text", "text": "\nLow disk\n"},
        }
    ]


def test_a_warning_without_words_is_still_a_notice_that_fits_the_schema() -> None:
    state = SessionState(ALL)

    ((update),) = wired(state, [make_notice(" \n", "info", " ")])
    assert update["title"]
    assert "description" not in update


def test_a_warning_about_the_machine_is_no_part_of_a_conversation() -> None:
    params = {"summary": "Codex could not find bubblewrap on PATH.", "details": None}
    state = SessionState(NONE)

    assert step(state, "configWarning", params) == []
    assert list(state.remarks) == [params["summary"]]
    (notice,) = step(SessionState(ALL), "configWarning", params)
    assert notice["title"] == params["summary"]
    of_a_file = {"summary": "Unknown key", "path": "/home/config.toml"}
    assert step(state, "configWarning", of_a_file) != []


def test_what_cannot_be_seen_is_written_out_and_a_long_text_says_that_it_was_cut() -> None:
    params = {"name": "notes\u202e", "status": "failed", "error": "\x1b[31m" + "x" * 100_000}
    ((notice),) = step(SessionState(ALL), "mcpServer/startupStatus/updated", params)

    assert "notes⟦U+202E⟧" in notice["title"]
    assert notice["description"].startswith("⟦U+001B⟧[31m")
    assert "not shown" in notice["description"]
    assert len(notice["description"]) < 21_000


def test_a_warning_is_said_once_a_session() -> None:
    state = SessionState()
    warned(state, "Low disk")

    assert warned(state, "Low disk") == []
    assert updates.said(warned(state, "No disk")) == ["No disk"]


def test_what_is_remembered_is_bounded_and_the_oldest_is_forgotten() -> None:
    state = SessionState()
    for number in range(MAX_NOTICES + 1):
        warned(state, f"warning {number}")

    assert len(state.notices) == MAX_NOTICES
    assert warned(state, "warning 0") != []
    assert warned(state, f"warning {MAX_NOTICES}") == []


def test_a_reroute_is_said_once_a_turn() -> None:
    state = SessionState()

    assert rerouted(state, "u1") != []
    assert rerouted(state, "u1") == []
    assert rerouted(state, "u2") != []


def test_a_retry_is_said_once_for_each_cause_however_codex_counts_its_attempts() -> None:
    state = SessionState()

    assert updates.said(retried(state, "Reconnecting... 1/5", "no route")) == [
        "Retrying: Reconnecting... 1/5\nno route"
    ]
    assert retried(state, "Reconnecting... 2/5", "no route") == []
    assert retried(state, "Reconnecting... 3/5", "server closed") != []
    assert retried(state, "Reconnecting... 1/5", "no route", turn="u2") != []


def test_retries_without_a_cause_are_told_apart_by_their_message() -> None:
    state = SessionState()
    retried(state, "Once more", None)

    assert retried(state, "Once more", None) == []
    assert retried(state, "And once more", None) != []


def test_an_error_that_is_final_is_kept_for_the_end_of_the_turn_and_not_said() -> None:
    state = SessionState()
    params = {**THREAD, "turnId": "u", "error": {"message": "Bad"}, "willRetry": False}

    assert step(state, "error", params) == []
    assert state.turn_errors["u"].message == "Bad"


def test_a_server_that_fails_is_said_with_its_error_and_once() -> None:
    state = SessionState()

    assert started(state, "starting") == []
    ((line),) = updates.said(started(state, "failed", "no such program"))
    assert "notes" in line
    assert "no such program" in line
    assert started(state, "failed", "no such program") == []


def test_a_server_that_was_ready_and_fails_again_is_said_again() -> None:
    state = SessionState()
    started(state, "failed", "gone")

    assert started(state, "ready") == []
    assert started(state, "failed", "gone") != []


@pytest.mark.parametrize("status", ["starting", "ready", "cancelled", "hibernating"])
def test_any_other_state_of_a_server_says_nothing(status: str) -> None:
    assert started(SessionState(), status) == []


def test_a_reason_to_fail_that_is_new_is_named() -> None:
    params = {"name": "notes", "status": "failed", "failureReason": "moonPhase"}
    ((line),) = updates.said(step(SessionState(), "mcpServer/startupStatus/updated", params))

    assert "moonPhase" in line


@pytest.mark.parametrize(
    "reached",
    [
        "rate_limit_reached",
        "workspace_owner_credits_depleted",
        "workspace_member_credits_depleted",
        "workspace_owner_usage_limit_reached",
        "workspace_member_usage_limit_reached",
        "moon_phase",
    ],
)
def test_a_limit_is_said_once_and_not_forgotten_by_a_sparse_update(reached: str) -> None:
    state = SessionState()
    limits = {"limitId": "codex", "limitName": "Codex", "rateLimitReachedType": reached}

    ((line),) = updates.said(step(state, "account/rateLimits/updated", {"rateLimits": limits}))
    assert "(Codex)" in line
    assert step(state, "account/rateLimits/updated", {"rateLimits": {"limitId": "codex"}}) == []
    assert step(state, "account/rateLimits/updated", {"rateLimits": limits}) == []
    other = {**limits, "limitId": "reserve"}
    assert step(state, "account/rateLimits/updated", {"rateLimits": other}) != []


def test_a_verification_without_a_name_says_nothing() -> None:
    params = {**THREAD, "turnId": "u", "verifications": []}

    assert step(SessionState(), "model/verification", params) == []


NEWS = [s for s in SAMPLES if not s.method.startswith(("item/", "turn/", "thread/"))]


@pytest.mark.parametrize("sample", NEWS, ids=lambda s: f"{s.method} {s.case}")
def test_both_kinds_of_clients_are_told_the_same(sample: Sample) -> None:
    told = []
    for client in (NONE, ALL):
        state = SessionState(client)
        for method, params in sample.before:
            step(state, method, params)
        told.append(updates.said(step(state, sample.method, sample.params)))

    plain, notices = [[line.replace("```\n", "") for line in lines] for lines in told]
    assert [line.removesuffix("\n```").replace("`", "") for line in plain] == notices
