"""PURE: the negative reply of every server request.

Owns the table, which has a row for each method of the generated registry; must not know why a
request is refused. Rows ignore the params: even malformed params can be refused. The class of a
reply is imported when its row is first used.

Source: the response definitions of ``schema/codex/experimental.json``. Codex reports a declined
action to the model, and the turn continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from codex_acp.codex._generated import models
from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import METHOD_NOT_FOUND
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex._generated.server_requests import Refusals
    from codex_acp.wire.model import WireModel


def _denied(reason: str) -> models.DeniedReviewDecision:
    return models.DeniedReviewDecision(denied=models.DeniedDetails(rejection=reason))


def _not_offered(_params: object, reason: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, reason)


REFUSALS: Final[Refusals] = {
    "item/commandExecution/requestApproval": lambda _, __: (
        models.CommandExecutionRequestApprovalResponse(decision="decline")
    ),
    "item/fileChange/requestApproval": lambda _, __: models.FileChangeRequestApprovalResponse(
        decision="decline"
    ),
    "item/tool/requestUserInput": lambda _, __: models.ToolRequestUserInputResponse(answers={}),
    "mcpServer/elicitation/request": lambda _, __: models.McpServerElicitationRequestResponse(
        action="decline"
    ),
    "item/permissions/requestApproval": lambda _, __: models.PermissionsRequestApprovalResponse(
        permissions=models.GrantedPermissionProfile(), scope="turn"
    ),
    "item/tool/call": lambda _, reason: models.DynamicToolCallResponse(
        success=False, content_items=[models.InputTextDynamicToolCallOutputContentItem(text=reason)]
    ),
    "account/chatgptAuthTokens/refresh": _not_offered,
    "attestation/generate": _not_offered,
    "currentTime/read": _not_offered,
    "applyPatchApproval": lambda _, reason: models.ApplyPatchApprovalResponse(
        decision=_denied(reason)
    ),
    "execCommandApproval": lambda _, reason: models.ExecCommandApprovalResponse(
        decision=_denied(reason)
    ),
}
"""Method → function that makes the negative reply from the params and the reason."""


require_rows("REFUSALS in codex_acp/codex/approvals/refusals.py", REFUSALS, SERVER_REQUESTS)

_ROWS: Final = cast("dict[str, Callable[[object, str], WireModel | RpcError]]", REFUSALS)
"""The table as a plain mapping, for a method that is only known at run time."""


def has_negative_form(method: str) -> bool:
    """Return whether the method has a negative reply; a request without one gets an error."""
    return _ROWS.get(method) not in (None, _not_offered)


def refusal(method: str, params: object, reason: str) -> WireModel | RpcError:
    """Return the negative reply to one request of ``method``, an error if the method has none.

    ``reason`` is one sentence for the model or the log of Codex.
    """
    return _ROWS.get(method, _not_offered)(params, reason)


def cancellation(method: str, params: object, reason: str) -> WireModel | RpcError:
    """Return the reply that declines the action and ends the turn, or the refusal if the method
    has no such reply. Only for a turn that is being cancelled, never for a plain "no"."""
    match method:
        case "item/commandExecution/requestApproval":
            return models.CommandExecutionRequestApprovalResponse(decision="cancel")
        case "item/fileChange/requestApproval":
            return models.FileChangeRequestApprovalResponse(decision="cancel")
        case "mcpServer/elicitation/request":
            return models.McpServerElicitationRequestResponse(action="cancel")
        case "execCommandApproval":
            return models.ExecCommandApprovalResponse(decision="abort")
        case "applyPatchApproval":
            return models.ApplyPatchApprovalResponse(decision="abort")
    return refusal(method, params, reason)


def is_negative(reply: WireModel) -> bool:
    """Return whether a reply certainly declines the action of an approval."""
    match reply:
        case (
            models.CommandExecutionRequestApprovalResponse(decision=decision)
            | models.FileChangeRequestApprovalResponse(decision=decision)
            | models.ExecCommandApprovalResponse(decision=decision)
            | models.ApplyPatchApprovalResponse(decision=decision)
        ):
            denied = isinstance(decision, models.DeniedReviewDecision)
            return denied or decision in ("decline", "cancel", "abort", "timed_out")
        case models.McpServerElicitationRequestResponse(action=action):
            return action in ("decline", "cancel")
        case models.PermissionsRequestApprovalResponse(permissions=granted):
            return granted == models.GrantedPermissionProfile()
        case models.ToolRequestUserInputResponse(answers=answers):
            return not answers
    return False
