"""How a turn's end becomes the prompt's: every reason of the schema has its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex.types import Turn, TurnError
from codex_acp.mapping.events import PromptFailure, PromptStop
from codex_acp.mapping.session import end_of_shown_turn, end_of_turn
from codex_acp.mapping.state import SessionState

SCHEMA = Path(__file__).parents[2] / "schema" / "codex" / "experimental.json"

STOPS = {
    "contextWindowExceeded": "max_tokens",
    "sessionBudgetExceeded": "max_turn_requests",
    "tooManyDenials": "max_turn_requests",
    "bioPolicy": "refusal",
    "cyberPolicy": "refusal",
    "misalignmentPolicyViolation": "refusal",
    "inferenceHookDenied": "refusal",
}
"""``codexErrorInfo`` → ACP's stop reason."""

ERRORS = {
    "usageLimitExceeded": -32603,
    "rateLimitExceeded": -32603,
    "flexUnavailable": -32603,
    "serverOverloaded": -32603,
    "modelNotFound": -32603,
    "policyCapacityUnavailable": -32603,
    "internalServerError": -32603,
    "unauthorized": -32000,
    "badRequest": -32603,
    "threadRollbackFailed": -32603,
    "sandboxError": -32603,
    "other": -32603,
}
"""``codexErrorInfo`` → code of the JSON-RPC error."""

WITH_STATUS = (
    "httpConnectionFailed",
    "responseStreamConnectionFailed",
    "responseStreamDisconnected",
    "responseTooManyFailedAttempts",
)
"""The variants that may carry the model server's HTTP status."""

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"httpStatusCode": 503} for name in WITH_STATUS},
    "activeTurnNotSteerable": {"turnKind": "review"},
}
"""``codexErrorInfo`` as an object: its one member → a value of it; all are -32603."""


def failed(info: object, message: str = "the reason") -> Turn:
    error = {"message": message, "codexErrorInfo": info, "additionalDetails": None}
    return Turn.model_validate({"id": "u", "items": [], "status": "failed", "error": error})


def schema_members() -> tuple[set[str], set[str]]:
    """The values and the variants of CodexErrorInfo."""
    definitions = json.loads(SCHEMA.read_text("utf-8"))["definitions"]
    info = definitions.get("CodexErrorInfo") or definitions["v2"]["CodexErrorInfo"]
    values: set[str] = set()
    variants: set[str] = set()
    for member in info["anyOf"] if "anyOf" in info else info["oneOf"]:
        values.update(member.get("enum", ()))
        variants.update(member.get("required", ()))
    return values, variants


def test_every_value_of_the_schema_is_placed_in_this_test() -> None:
    values, variants = schema_members()

    assert values == {*STOPS, *ERRORS}
    assert variants == set(VARIANTS)


@pytest.mark.parametrize(("info", "reason"), STOPS.items())
def test_an_end_that_acp_has_a_reason_for_is_that_reason_with_the_message(
    info: str, reason: str
) -> None:
    assert end_of_turn(failed(info), None) == PromptStop(reason, "the reason")  # type: ignore[arg-type]


def test_the_explanation_of_a_misalignment_is_part_of_the_message() -> None:
    error = {
        "message": "Stopped.",
        "codexErrorInfo": "misalignmentPolicyViolation",
        "misalignment": {"detailedExplanation": "It wrote to itself."},
    }
    turn = Turn.model_validate({"id": "u", "items": [], "status": "failed", "error": error})

    assert end_of_turn(turn, None) == PromptStop("refusal", "Stopped.\n\nIt wrote to itself.")


@pytest.mark.parametrize(("info", "code"), ERRORS.items())
def test_every_other_end_is_an_error_with_the_message(info: str, code: int) -> None:
    end = end_of_turn(failed(info), None)

    data: dict[str, object] = {"message": "the reason", "codexErrorInfo": info}
    assert end == PromptFailure(code, "the reason", data)


def test_the_message_of_an_error_steers_no_terminal() -> None:
    end = end_of_turn(failed("other", "a\x1b[2Jb\nc"), None)

    assert isinstance(end, PromptFailure)
    assert end.message == end.data["message"] == "a\u27e6U+001B\u27e7[2Jb\nc"


@pytest.mark.parametrize(("name", "details"), VARIANTS.items())
def test_a_variant_is_an_error_whose_data_holds_it(name: str, details: dict[str, Any]) -> None:
    end = end_of_turn(failed({name: details}), None)

    data: dict[str, object] = {"message": "the reason", "codexErrorInfo": {name: details}}
    assert end == PromptFailure(-32603, "the reason", data)


@pytest.mark.parametrize(
    ("status", "reason"), [("failed", "end_turn"), ("interrupted", "cancelled")]
)
def test_the_error_of_an_older_turn_changes_the_end_of_a_failed_turn_alone(
    status: str, reason: str
) -> None:
    turn = failed("other").model_copy(update={"status": status})
    assert turn.error is not None
    state = SessionState(turn_errors={"older": turn.error})

    assert end_of_shown_turn(state, turn) == PromptStop(reason)  # type: ignore[arg-type]
    assert not state.turn_errors


@pytest.mark.parametrize("name", WITH_STATUS)
def test_a_401_of_the_model_server_asks_for_authentication(name: str) -> None:
    end = end_of_turn(failed({name: {"httpStatusCode": 401}}), None)

    assert isinstance(end, PromptFailure)
    assert end.code == -32000


@pytest.mark.parametrize("info", ["notYetInvented", {"notYetInvented": {"n": 1}}])
def test_an_end_that_the_schema_does_not_know_is_an_error_that_keeps_it(info: object) -> None:
    end = end_of_turn(failed(info), None)

    data = {"message": "the reason", "codexErrorInfo": info}
    assert end == PromptFailure(-32603, "the reason", data)


def test_a_turn_that_names_no_error_takes_the_last_notification() -> None:
    turn = Turn(id="u", items=[], status="failed")
    last = TurnError(message="from the notification")

    end = end_of_turn(turn, last)

    assert isinstance(end, PromptFailure)
    assert end.message == "from the notification"


def test_a_turn_that_failed_without_any_reason_says_so() -> None:
    end = end_of_turn(Turn(id="u", items=[], status="failed"), None)

    assert isinstance(end, PromptFailure)
    assert "gave no reason" in end.message


@pytest.mark.parametrize(
    ("status", "reason"), [("completed", "end_turn"), ("interrupted", "cancelled")]
)
def test_a_turn_that_did_not_fail_gives_a_stop_reason(status: str, reason: str) -> None:
    turn = Turn.model_validate({"id": "u", "items": [], "status": status})

    assert end_of_turn(turn, None) == PromptStop(reason)  # type: ignore[arg-type]


INFOS = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from([*STOPS, *ERRORS]),
    st.sampled_from([{name: details} for name, details in VARIANTS.items()]),
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers(), min_size=1, max_size=2),
)


@given(
    status=st.sampled_from(["failed", "inProgress", "notYetInvented", ""]),
    info=INFOS,
    named=st.booleans(),
    message=st.text(max_size=20),
)
def test_4_4_a_turn_that_was_not_completed_never_reads_as_end_turn(
    status: str, info: object, named: bool, message: str
) -> None:
    error = {"message": message, "codexErrorInfo": info, "additionalDetails": None}
    raw: dict[str, object] = {
        "id": "u",
        "items": [],
        "status": status,
        "error": error if named else None,
    }
    end = end_of_turn(Turn.model_validate(raw), None if named else TurnError.model_validate(error))

    if isinstance(end, PromptStop):
        assert end.reason in set(STOPS.values())
        assert end.message == message
    else:
        assert end.code in (-32603, -32000)
