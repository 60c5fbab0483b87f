"""How a Codex turn ended → how the prompt ends. A failed turn never reads as ``end_turn``.

Source: contract 4.4; Codex schema ``Turn``, ``TurnError``, ``CodexErrorInfo``; ACP's page on the
prompt turn, "Stop Reasons".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, assert_never

from codex_acp.jsonrpc.message import AUTHENTICATION_REQUIRED, INTERNAL_ERROR
from codex_acp.routing.display import prose
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownValue, WireModel

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import CodexErrorInfo, Turn, TurnError

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
"""Why a prompt has ended that did not fail; alike in every version of ACP."""

_UNAUTHORIZED_STATUS = 401


class PromptStop(NamedTuple):
    """The prompt returns a stop reason; ``message`` says why where the reason alone does not."""

    reason: StopReason
    message: str | None = None


class PromptFailure(NamedTuple):
    """The prompt returns a JSON-RPC error."""

    code: int
    message: str
    data: dict[str, object]


PromptEnd: TypeAlias = PromptStop | PromptFailure

_STOPS: dict[str, StopReason] = {
    "contextWindowExceeded": "max_tokens",
    "sessionBudgetExceeded": "max_turn_requests",
    "tooManyDenials": "max_turn_requests",
    "cyberPolicy": "refusal",
    "misalignmentPolicyViolation": "refusal",
    "inferenceHookDenied": "refusal",  # since Codex 0.169
}
"""``codexErrorInfo`` values that ACP has a stop reason for; every other one is an error."""


def end_of_turn(turn: Turn, last_error: TurnError | None) -> PromptEnd:
    """How the prompt ends whose turn is ``turn``, unless the client has cancelled it.

    ``last_error`` is the turn's last ``error`` notification, used when the turn names none.
    """
    status = turn.status
    match status:
        case "completed":
            return PromptStop("end_turn")
        case "interrupted":
            return PromptStop("cancelled")
        case "failed":
            return failure(turn.error or last_error)
        case "inProgress":
            return PromptFailure(INTERNAL_ERROR, "Codex ended a turn that is in progress", {})
        case UnknownValue():
            message = f"Codex ended the turn with the unknown status {status!r}"
            return PromptFailure(INTERNAL_ERROR, message, {"status": str(status)})
        case _:
            assert_never(status)


def failure(error: TurnError | None) -> PromptEnd:
    """A failed turn: a stop reason that says so, or a JSON-RPC error with Codex's message."""
    if error is None:
        return PromptFailure(INTERNAL_ERROR, "Codex failed the turn and gave no reason", {})
    info = error.codex_error_info
    if isinstance(info, str) and info in _STOPS:
        return PromptStop(_STOPS[info], _why(error))
    code = AUTHENTICATION_REQUIRED if _is_unauthorized(info) else INTERNAL_ERROR
    message = prose(error.message)
    data: dict[str, object] = {"message": message}
    if info is not None:
        data["codexErrorInfo"] = _wire(info)
    if error.additional_details is not None:
        data["additionalDetails"] = prose(error.additional_details)
    return PromptFailure(code, message, data)


def _why(error: TurnError) -> str:
    """The message, with the explanation that the model server gives of a misalignment."""
    details = error.misalignment.detailed_explanation if error.misalignment else None
    return f"{error.message}\n\n{details}" if details else error.message


def _wire(info: CodexErrorInfo) -> object:
    if isinstance(info, WireModel):
        return plain(info)
    return str(info)


def _is_unauthorized(info: CodexErrorInfo | None) -> bool:
    if info == "unauthorized":
        return True
    if not isinstance(info, WireModel):
        return False
    details = _wire(info)
    values = details.values() if isinstance(details, dict) else ()
    return any(
        isinstance(v, dict) and v.get("httpStatusCode") == _UNAUTHORIZED_STATUS for v in values
    )
