"""PURE: route a server request by its class of `codex.approvals.classify`. Sections like "contract
1.1" (each request has one route) are those of docs/contract.md.

The tables have a row for each method, mode, kind and decision of the schema, with its possible
routes and the reason. A missing, superfluous or impossible row fails the type check, the import of
this module, and ``nox -s regen``, which prints the row. Tests route a sample of each case: a route
that no row allows fails, and so does a row that no sample reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, cast

from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals import grants
from codex_acp.codex.approvals.actions import place_of, unshowable
from codex_acp.mapping.events import announcement, tool_call_id
from codex_acp.routing._generated.rows import FIELD_TYPES
from codex_acp.routing.approvals import announced_content, identity_of, permission_call
from codex_acp.routing.display import visible
from codex_acp.routing.elicitations import (
    AsyncQuestions,
    Unaskable,
    elicitation_for,
    user_input_elicitation,
)
from codex_acp.routing.forms import Unrepresentable
from codex_acp.routing.route import (
    Approval,
    Decline,
    Elicitation,
    Route,
    RoutingContext,
    asking_thread,
)
from codex_acp.routing.rows import Row, SentDecision, require_possible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.routing._generated.rows import DiscriminatorRows, ServerRequestRoutes
    from codex_acp.routing.rows import AnyRow

SERVER_REQUEST_ROUTES: Final[ServerRequestRoutes] = {
    "item/commandExecution/requestApproval": Row(
        approval=(classes.CommandApproval,), why="Codex waits to know whether one command may run."
    ),
    "item/fileChange/requestApproval": Row(
        approval=(classes.FileChangeApproval,),
        why="Codex waits to know whether the files of one item may change.",
    ),
    "item/tool/requestUserInput": Row(
        elicitation=(classes.UserInput,),
        approval=(classes.McpToolQuestion,),
        why="The model asks questions, or Codex asks in its older way whether an MCP call may run.",
    ),
    "mcpServer/elicitation/request": Row(
        elicitation=(classes.McpForm, classes.McpUrl),
        approval=(classes.McpToolApproval,),
        why="An MCP server asks for input, or Codex asks whether a call of its tool may run.",
    ),
    "item/permissions/requestApproval": Row(
        approval=(classes.PermissionsApproval,),
        why="Codex waits to know whether the turn gets more permissions.",
    ),
    "item/tool/call": Row(
        decline=(classes.ProgramOnly,),
        why="The tool belongs to a program: only its handler can answer.",
    ),
    "account/chatgptAuthTokens/refresh": Row(
        decline=(classes.ProgramOnly,),
        why="Only the handler of a program that holds the account's tokens can answer.",
    ),
    "attestation/generate": Row(
        decline=(classes.ProgramOnly,),
        why="Only the handler of a program that can attest to its device can answer.",
    ),
    "currentTime/read": Row(
        decline=(classes.ProgramOnly,),
        why="Only the handler of a program that keeps a clock for Codex can answer.",
    ),
    "applyPatchApproval": Row(
        approval=(classes.LegacyPatchApproval,),
        why="The protocol's first version asks whether files may change.",
    ),
    "execCommandApproval": Row(
        approval=(classes.LegacyCommandApproval,),
        why="The protocol's first version asks whether a command may run.",
    ),
}
"""Method → classes that its requests can become. Any request can be declined, too."""

DISCRIMINATORS: Final[DiscriminatorRows] = {
    "ELICITATION_MODES": {
        "openai/userVerification": Row(
            decline=(classes.Refused,), why="A proof by this device cannot travel over ACP."
        ),
        "form": Row(
            elicitation=(classes.McpForm,),
            approval=(classes.McpToolApproval,),
            why="It is a form, unless an item of Codex proves that it is a tool approval.",
        ),
        "openai/form": Row(
            elicitation=(classes.McpForm,),
            why="It is asked if ACP's form schema holds it without loss, else declined.",
        ),
        "openaiForm": Row(
            elicitation=(classes.McpForm,), why="It is the older name of openai/form."
        ),
        "url": Row(
            elicitation=(classes.McpUrl,),
            why="A page to open is never an approval, whatever the request claims.",
        ),
    },
    "COMMAND_KINDS": {
        "command": Row(approval=(classes.CommandApproval,), why="A command waits to begin."),
        "writeStdin": Row(
            approval=(classes.CommandApproval,),
            why="Text waits to be written to a running command; Codex asks anew for each text.",
        ),
        "humanCommand": Row(
            approval=(classes.CommandApproval,),
            why="A person must see each such command, so it can be allowed only once.",
        ),
    },
    # The decisions: their ``approval`` has the grants, ``elicitation`` the answered questions, and
    # ``decline`` the refusals that send the decision.
    "COMMAND_DECISIONS": {
        "accept": SentDecision(approval=(grants.Once,), why="It allows this one command."),
        "acceptForSession": SentDecision(
            approval=(grants.Session,),
            why="It allows the same command again, where Codex offers that.",
        ),
        "decline": SentDecision(
            decline=("refusal",), why="The command does not run and the turn goes on."
        ),
        "cancel": SentDecision(
            decline=("cancellation",), why="It ends the turn, so only a cancelled prompt sends it."
        ),
        "acceptWithExecpolicyAmendment": SentDecision(
            approval=(grants.RememberPrefix,),
            why="It allows only commands that begin with the proposed prefix.",
        ),
        "applyNetworkPolicyAmendment": SentDecision(
            approval=(grants.RememberHost,),
            why="It is a rule for the proposed host and action only.",
        ),
    },
    "ELICITATION_ACTIONS": {
        "accept": SentDecision(
            approval=(grants.Once, grants.Session, grants.Always),
            elicitation=(classes.McpForm, classes.McpUrl),
            why="The ledger's grant sends it for approvals; for a form, the person's answer does.",
        ),
        "decline": SentDecision(
            elicitation=(classes.McpForm, classes.McpUrl),
            decline=("refusal",),
            why="It says no to the server, and nothing else.",
        ),
        "cancel": SentDecision(
            elicitation=(classes.McpForm, classes.McpUrl),
            decline=("cancellation",),
            why="The form was dismissed or its prompt cancelled.",
        ),
    },
    "FILE_CHANGE_DECISIONS": {
        "accept": SentDecision(approval=(grants.Once,), why="It allows these changes."),
        "acceptForSession": SentDecision(
            approval=(grants.Session,), why="It allows any change at these paths in this session."
        ),
        "decline": SentDecision(decline=("refusal",), why="No file changes and the turn goes on."),
        "cancel": SentDecision(
            decline=("cancellation",),
            why="The turn ends with the files as they are, so only a cancelled prompt sends it.",
        ),
    },
    "PERMISSION_SCOPES": {
        "turn": SentDecision(
            approval=(grants.Once,),
            decline=("refusal", "cancellation"),
            why="The permissions end with the turn; a refusal has this scope, and no permissions.",
        ),
        "session": SentDecision(
            approval=(grants.Session,), why="The permissions last until the session ends."
        ),
    },
    "REVIEW_DECISIONS": {
        "approved": SentDecision(
            approval=(grants.Once,), why="It allows what the older request asks, once."
        ),
        "approved_for_session": SentDecision(
            approval=(grants.Session,), why="It allows what the older request asks for the session."
        ),
        "approved_mcp_policy_amendment": SentDecision(
            why="It is never sent: MCP calls are asked for in another way."
        ),
        "timed_out": SentDecision(why="It is never sent: a time-out is a refusal."),
        "abort": SentDecision(
            decline=("cancellation",),
            why="It ends the turn of the older request, so only a cancelled prompt sends it.",
        ),
        "approved_execpolicy_amendment": SentDecision(
            why="It is never sent: the older request proposes no prefix."
        ),
        "network_policy_amendment": SentDecision(
            why="It is never sent: the older request proposes no rule for a host."
        ),
        "denied": SentDecision(
            decline=("refusal",), why="It says no, with the reason, to the older request."
        ),
    },
}
"""Modes and kinds inside requests, and decisions that answer requests → the row of each."""

TABLES: Final[Mapping[str, Mapping[str, AnyRow]]] = cast(
    "Mapping[str, Mapping[str, AnyRow]]",
    {"SERVER_REQUEST_ROUTES": SERVER_REQUEST_ROUTES, **DISCRIMINATORS},
)
"""All tables by name."""

# The types that a row's classes must fit are generated. An error names the file in the argument.
require_possible("codex_acp/routing/table.py", TABLES, FIELD_TYPES)


def route(request: ServerRequest, context: RoutingContext) -> Route:
    """Return the route of one request (contract 1.1)."""
    classified = classes.classify(request, context.items)
    thread_id = asking_thread(request)
    # The session of the thread, or of its nearest ancestor that has one (contract 3.9).
    lineage = () if thread_id is None else (thread_id, *context.items.ancestors_of(thread_id))
    session_id = next((thread for thread in lineage if thread in context.sessions), None)
    if isinstance(classified, classes.Refused | classes.ProgramOnly):
        return Decline(request, visible(classified.reason), session_id)
    if session_id is None or thread_id is None:
        return Decline(request, "no open session holds the thread that asks", session_id)
    match classified:
        case classes.McpForm() | classes.McpUrl() | classes.UserInput():
            form_or_url = elicitation_for(classified, context.client)
            if isinstance(form_or_url, Unaskable):
                return Decline(request, form_or_url.reason, session_id)
            turn_id = getattr(request.params, "turn_id", None)
            return Elicitation(request, session_id, thread_id, turn_id, form_or_url)
        case (
            classes.CommandApproval()
            | classes.FileChangeApproval()
            | classes.PermissionsApproval()
            | classes.McpToolApproval()
            | classes.McpToolQuestion()
            | classes.LegacyCommandApproval()
            | classes.LegacyPatchApproval()
        ):
            routed = _approval(classified, session_id, thread_id, context)
            return Decline(request, routed, session_id) if isinstance(routed, str) else routed
        case _:
            assert_never(classified)


def form_of_questions(questions: AsyncQuestions, context: RoutingContext) -> Elicitation | None:
    """Return the elicitation of questions in a message, for whose answers the model does not wait;
    None if the client cannot be asked."""
    thread_id = questions.params.thread_id
    session_id = context.items.root_of(thread_id)  # a sub-agent asks in its root's session
    if session_id not in context.sessions or not context.client.elicitation_form:
        return None
    form = user_input_elicitation(questions.params, waits=False)
    if isinstance(form, Unrepresentable):
        return None
    return Elicitation(questions, session_id, thread_id, questions.params.turn_id, form)


def _approval(
    approval: classes.ApprovalRequest, session_id: str, thread_id: str, context: RoutingContext
) -> Approval | str:
    """Return the route that asks a person, or why the request is declined."""
    looks, offered = context.looks, grants.offered_grants(approval)
    if not any(grants.allows(grant) for grant in offered.grants):
        return "Codex offers no way to allow it"
    turn_id = getattr(approval.request.params, "turn_id", None)
    turn_id = turn_id or context.items.running_turn(thread_id)
    if turn_id is None:
        return "Codex asks for an approval without a turn"
    problem = unshowable(approval, looks)
    if problem is not None:
        return visible(problem)
    place = place_of(approval)
    sub_agent = thread_id if thread_id != session_id else None
    call_id = tool_call_id(place.item_id, place.part, sub_agent)
    shown = permission_call(approval, call_id, sub_agent, looks)
    return Approval(
        approval=approval,
        session_id=session_id,
        thread_id=thread_id,
        turn_id=turn_id,
        item_id=place.item_id,
        tool=identity_of(approval),
        digest=grants.digest_of(approval, looks),
        offered=offered,
        shown=shown,
        announcement=announcement(shown, announced_content(approval, shown, looks)),
        looks=looks,
    )
