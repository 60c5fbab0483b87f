"""What `codex.approvals.classify` says of a server request → its route (contract 1.1, 1.2).

The tables say what becomes of each method, mode, kind and decision of the schema, in words. They
are checked to be complete: a new one upstream fails the type check of `classify`, the import of
this module, and ``nox -s regen``, which names the arm and the row to add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex._generated.discriminators import (
    COMMAND_DECISIONS,
    COMMAND_KINDS,
    ELICITATION_ACTIONS,
    ELICITATION_MODES,
    FILE_CHANGE_DECISIONS,
    PERMISSION_SCOPES,
    REVIEW_DECISIONS,
)
from codex_acp.codex._generated.methods import SERVER_REQUESTS
from codex_acp.codex.approvals import classify as kinds
from codex_acp.codex.approvals.actions import place_of
from codex_acp.codex.approvals.classify import classify
from codex_acp.codex.approvals.grants import allows, digest_of, offered
from codex_acp.mapping.events.session_events import (
    ToolCallAnnounced,
    ToolCallChanged,
    tool_call_id,
)
from codex_acp.routing.approvals import announced_content, identity_of, shown
from codex_acp.routing.askability import Unaskable, asked_of
from codex_acp.routing.display import visible
from codex_acp.routing.route import (
    Approval,
    Decline,
    Elicitation,
    Route,
    RoutingContext,
    asking_thread,
)
from codex_acp.wire.registry import require_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.codex._generated.methods import ServerRequestMethod
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.mapping.events.content import CallContent

SERVER_REQUEST_ROUTES: Final[dict[ServerRequestMethod, str]] = {
    "item/commandExecution/requestApproval": "approval",
    "item/fileChange/requestApproval": "approval",
    "item/tool/requestUserInput": "elicitation, or approval if it is Codex's older way to ask",
    "mcpServer/elicitation/request": "elicitation or approval: see ELICITATION_MODES",
    "item/permissions/requestApproval": "approval",
    "item/tool/call": "decline: only a program's handler can answer it",
    "account/chatgptAuthTokens/refresh": "decline: only a program's handler can answer it",
    "attestation/generate": "decline: only a program's handler can answer it",
    "currentTime/read": "decline: only a program's handler can answer it",
    "applyPatchApproval": "approval",
    "execCommandApproval": "approval",
}
"""Method → what its requests can be. Each can be declined besides."""

_OFFERED: Final = "offered as an option when the request offers it"
_NEGATIVE: Final = "a negative reply; never offered as a grant"

DISCRIMINATORS: Final[dict[str, dict[str, str]]] = {
    "ELICITATION_MODES": {
        "openai/userVerification": "decline: a proof by this device cannot travel over ACP",
        "form": "elicitation; approval if Codex's items bear out a claimed tool approval",
        "openai/form": "elicitation if ACP's form schema holds it without loss, else decline",
        "openaiForm": "elicitation if ACP's form schema holds it without loss, else decline",
        "url": "elicitation; approval never",
    },
    "COMMAND_KINDS": {
        "command": "approval",
        "writeStdin": "approval",
        "humanCommand": "approval, for this one time only: a checkpoint that wants a person",
    },
    "COMMAND_DECISIONS": {
        "accept": _OFFERED,
        "acceptForSession": _OFFERED,
        "decline": _NEGATIVE,
        "cancel": f"{_NEGATIVE}: it ends the turn, so only a cancelled prompt sends it",
        "acceptWithExecpolicyAmendment": f"{_OFFERED}, with the proposed prefix only",
        "applyNetworkPolicyAmendment": f"{_OFFERED}, for the proposed host and action only",
    },
    "ELICITATION_ACTIONS": {
        "accept": "for an approval the ledger's grant; for an elicitation the person's own accept",
        "decline": _NEGATIVE,
        "cancel": f"{_NEGATIVE}; for a dismissed form or a cancelled prompt",
    },
    "FILE_CHANGE_DECISIONS": {
        "accept": "offered",
        "acceptForSession": "offered",
        "decline": _NEGATIVE,
        "cancel": f"{_NEGATIVE}: it ends the turn, so only a cancelled prompt sends it",
    },
    "PERMISSION_SCOPES": {"turn": "offered", "session": "offered"},
    "REVIEW_DECISIONS": {
        "approved": "offered",
        "approved_for_session": "offered",
        "approved_mcp_policy_amendment": "never sent: MCP calls are asked for in another way",
        "timed_out": "never sent: a time-out is a refusal",
        "abort": f"{_NEGATIVE}: it ends the turn, so only a cancelled prompt sends it",
        "approved_execpolicy_amendment": "never sent: the request proposes none",
        "network_policy_amendment": "never sent: the request proposes none",
        "denied": _NEGATIVE,
    },
}
"""List of `codex._generated.discriminators` → each of its values and what becomes of it."""

_TABLE: Final = "codex_acp/routing/table.py"
require_rows(f"SERVER_REQUEST_ROUTES in {_TABLE}", SERVER_REQUEST_ROUTES, SERVER_REQUESTS)
for _name, _values in {
    "ELICITATION_ACTIONS": ELICITATION_ACTIONS,
    "ELICITATION_MODES": ELICITATION_MODES,
    "COMMAND_KINDS": COMMAND_KINDS,
    "COMMAND_DECISIONS": COMMAND_DECISIONS,
    "FILE_CHANGE_DECISIONS": FILE_CHANGE_DECISIONS,
    "PERMISSION_SCOPES": PERMISSION_SCOPES,
    "REVIEW_DECISIONS": REVIEW_DECISIONS,
}.items():
    require_rows(f"DISCRIMINATORS[{_name!r}] in {_TABLE}", DISCRIMINATORS[_name], _values)


def route(request: ServerRequest, context: RoutingContext) -> Route:
    """The route of one request (contract 1.1)."""
    what = classify(request, context.items)
    match what:
        case kinds.Refused() | kinds.ProgramOnly():
            return _decline(request, visible(what.reason), context)
        case kinds.McpForm() | kinds.McpUrl() | kinds.UserInput():
            return _elicitation(what, context)
        case (
            kinds.CommandApproval()
            | kinds.FileChangeApproval()
            | kinds.PermissionsApproval()
            | kinds.McpToolApproval()
            | kinds.McpToolQuestion()
            | kinds.LegacyCommandApproval()
            | kinds.LegacyPatchApproval()
        ):
            return _approval(what, context)
        case _:
            assert_never(what)


# --- building the three ------------------------------------------------------------------------


def _session_of(thread_id: str | None, context: RoutingContext) -> str | None:
    """The open session whose thread, or whose sub-agent's thread, asks (contract 3.9)."""
    if thread_id is None:
        return None
    line = (thread_id, *context.items.ancestors_of(thread_id))
    return next((thread for thread in line if thread in context.sessions), None)


def _decline(request: ServerRequest, reason: str, context: RoutingContext) -> Decline:
    return Decline(request, reason, _session_of(asking_thread(request), context))


def _approval(what: kinds.ApprovalRequest, context: RoutingContext) -> Route:
    request = what.request
    thread_id = asking_thread(request)
    session_id = _session_of(thread_id, context)
    if session_id is None or thread_id is None:
        return _decline(request, "no open session holds the thread that asks", context)
    grants = offered(what)
    if not any(allows(grant) for grant in grants.grants):
        return _decline(request, "Codex offers no way to allow it", context)
    turn_id = getattr(request.params, "turn_id", None) or context.items.running_turn(thread_id)
    if turn_id is None:
        return _decline(request, "Codex asks for an approval without a turn", context)
    place = place_of(what)
    child = thread_id if thread_id != session_id else None
    call_id, looks = tool_call_id(place.item_id, place.part, child), context.looks
    update = shown(what, call_id, child, looks)
    return Approval(
        approval=what,
        session_id=session_id,
        thread_id=thread_id,
        turn_id=turn_id,
        item_id=place.item_id,
        tool=identity_of(what),
        digest=digest_of(what, looks),
        offered=grants,
        shown=update,
        announcement=announcement(update, announced_content(what, update, looks)),
        looks=looks,
    )


def _elicitation(what: kinds.ElicitationRequest, context: RoutingContext) -> Route:
    request = what.request
    thread_id = asking_thread(request)
    session_id = _session_of(thread_id, context)
    if session_id is None or thread_id is None:
        return _decline(request, "no open session holds the thread that asks", context)
    asked = asked_of(what, context.client)
    if isinstance(asked, Unaskable):
        return _decline(request, asked.reason, context)
    return Elicitation(
        request=request,
        session_id=session_id,
        thread_id=thread_id,
        turn_id=getattr(request.params, "turn_id", None),
        asked=asked,
    )


def announcement(shown: ToolCallChanged, content: Sequence[CallContent]) -> ToolCallAnnounced:
    """The tool call to send first, when no item of Codex has announced it."""
    return ToolCallAnnounced(
        id=shown.id,
        title=shown.title or "Tool call",
        kind=shown.kind or "other",
        status="pending",
        content=content or None,
        locations=shown.locations,
        raw_input=shown.raw_input,
    )
