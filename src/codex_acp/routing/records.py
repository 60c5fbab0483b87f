"""PURE: make the transcript's events of a server request (contract 5.1)."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, assert_never

from codex_acp._json import text_at
from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals.actions import command_written_to, is_input
from codex_acp.codex.approvals.grants import RememberHost
from codex_acp.codex.approvals.running_items import move_target, server_of
from codex_acp.routing.approvals import UNKNOWN_COMMAND, other_environment
from codex_acp.routing.elicitations import FormElicitation
from codex_acp.routing.route import Decline, Elicitation, asking_thread
from codex_acp.transcript import events as transcript
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.jsonrpc import JsonValue, RequestId
    from codex_acp.routing.approvals import PermissionChoice
    from codex_acp.routing.elicitations import AsyncQuestions, ElicitationReply
    from codex_acp.routing.ledger import LedgerEntry, Settlement

_MAX_KIND: Final = 60
"""Characters of a claimed approval kind that are recorded; an MCP server chooses the text."""
_MAX_FILES: Final = 100
"""Files of one approval that are recorded by name; the rest is counted."""


def approval_requested(entry: LedgerEntry) -> transcript.ApprovalRequested:
    """Record the permission request that is about to be sent."""
    options = tuple(_option(choice) for choice in entry.choices)
    return transcript.ApprovalRequested(**_fields_of_approval(entry), options=options)


def approval_settled(
    settlement: Settlement,
) -> list[transcript.ApprovalRefused | transcript.ApprovalDecided]:
    """Record how an approval was settled, and before that a check that its answer failed."""
    fields, choice = _fields_of_approval(settlement.entry), settlement.choice
    grant = None if choice is None else choice.grant
    if settlement.reply is None:
        decision = "none: Codex is gone"
    elif grant is None:
        decision = "cancel" if settlement.by == "turn_cancelled" else "decline"
    elif isinstance(grant, RememberHost):
        decision = f"RememberHost {grant.action}"
    else:
        decision = type(grant).__name__
    decided = transcript.ApprovalDecided(
        **fields,
        outcome=settlement.outcome,
        by=settlement.by,
        option=None if choice is None else _option(choice),
        decision=decision,
    )
    check = settlement.failed_check
    if check is None:
        return [decided]
    return [transcript.ApprovalRefused(**fields, code=check, reason=settlement.reason), decided]


def acceptance_in_doubt(entry: LedgerEntry, reason: str) -> transcript.ApprovalRefused:
    """Record that Codex may run another action in place of the accepted one."""
    return transcript.ApprovalRefused(**_fields_of_approval(entry), code="shared_id", reason=reason)


def _fields_of_approval(entry: LedgerEntry) -> dict[str, Any]:
    """Return the fields that all events of an approval share."""
    routed, where = entry.route, other_environment(entry.route.approval)
    ref = _ref(routed.approval.request, routed.session_id, entry.key.generation, routed.item_id)
    return {
        # Requests of the protocol's first version do not name the turn, but the route does.
        "ref": replace(ref, turn_id=routed.turn_id, acp_request_id=entry.acp_request_id),
        "tool": routed.tool,
        "arguments_sha256": routed.digest,
        "subject": (*_subject(routed.approval), *([where] if where else [])),
    }


def _subject(approval: classes.ApprovalRequest) -> tuple[str, ...]:
    """Return the command, paths or tool in question; the transcript cuts and redacts them."""
    match approval:
        case classes.CommandApproval(request=request):
            params, context = request.params, request.params.network_approval_context
            if context is not None:
                return (f"{context.protocol}://{context.host}",)
            if is_input(approval):
                running = command_written_to(approval)
                target = UNKNOWN_COMMAND if running is None else running
                return (params.command or "", f"written to {target}")
            return (params.command or "",)
        case classes.LegacyCommandApproval(request=legacy):
            return (shlex.join(legacy.params.command),)
        case classes.FileChangeApproval(item=item):
            named = []
            for change in item.changes[:_MAX_FILES]:
                new_path = move_target(change)
                moved = "" if new_path is None else f" -> {new_path}"
                named.append(f"{change.kind.type} {change.path}{moved}")
            return _first_changes(named, len(item.changes))
        case classes.LegacyPatchApproval(request=patch):
            changes = patch.params.file_changes
            named_paths = (f"{change.type} {path}" for path, change in changes.items())
            return _first_changes(named_paths, len(changes))
        case classes.PermissionsApproval(request=asked):
            return (json.dumps(plain(asked.params.permissions), ensure_ascii=False),)
        case classes.McpToolApproval(item=call) | classes.McpToolQuestion(item=call):
            return (f"{server_of(call)}/{call.tool}",)
        case _:
            assert_never(approval)


def _first_changes(changes: Iterable[str], total: int) -> tuple[str, ...]:
    more = (f"and {total - _MAX_FILES:,} more",) if total > _MAX_FILES else ()
    return (*islice(changes, _MAX_FILES), *more)


def elicitation_requested(
    routed: Elicitation, generation: int, acp_request_id: RequestId | None = None
) -> transcript.ElicitationRequested:
    """Record the elicitation that is about to be sent, as ``acp_request_id``."""
    return transcript.ElicitationRequested(
        **_fields_of_elicitation(routed, generation, acp_request_id),
        fields=_field_names(routed),
        url=None if isinstance(routed.form_or_url, FormElicitation) else routed.form_or_url.url.url,
    )


def elicitation_answered(
    routed: Elicitation,
    generation: int,
    reply: ElicitationReply,
    by: transcript.ElicitationSettler,
    acp_request_id: RequestId | None = None,
) -> transcript.ElicitationAnswered:
    """Record how the elicitation was settled; with the names of fields, never with values."""
    accepted = reply.how == "accepted"
    return transcript.ElicitationAnswered(
        **_fields_of_elicitation(routed, generation, acp_request_id),
        action="accept" if accepted else "decline" if reply.how == "declined" else "cancel",
        by=by,
        fields=_field_names(routed) if accepted else (),
        problem=reply.problem,
    )


def _fields_of_elicitation(
    routed: Elicitation, generation: int, acp_request_id: RequestId | None
) -> dict[str, Any]:
    """Return the fields that all events of an elicitation share."""
    ref = _ref(routed.request, routed.session_id, generation)
    return {
        "ref": replace(ref, acp_request_id=acp_request_id),
        "mode": "form" if isinstance(routed.form_or_url, FormElicitation) else "url",
        "server": routed.form_or_url.server,
    }


def request_declined(routed: Decline, generation: int) -> transcript.RequestDeclined:
    """Record a request that was declined without a question to the person."""
    return transcript.RequestDeclined(
        ref=_ref(routed.request, routed.session_id, generation),
        route="decline",
        discriminator=_discriminator(routed.request),
        reason=routed.reason,
        asked=False,
    )


def request_refused(
    request_id: RequestId,
    method: str,
    params: JsonValue,
    reason: str,
    session_id: str | None,
    generation: int,
) -> transcript.RequestDeclined:
    """Record a request that was refused before it had a route; ``params`` may be malformed."""
    return transcript.RequestDeclined(
        ref=transcript.RequestRef(
            session_id=session_id,
            thread_id=thread_named(params),
            generation=generation,
            turn_id=text_at(params, "turnId"),
            codex_request_id=request_id,
            method=method,
            item_id=text_at(params, "itemId"),
        ),
        route="decline",
        discriminator=None,
        reason=reason,
        asked=False,
    )


def thread_named(params: JsonValue) -> str | None:
    """Return the thread that plain params name, in either version of the protocol."""
    return text_at(params, "threadId") or text_at(params, "conversationId")


def _ref(
    request: ServerRequest | AsyncQuestions,
    session_id: str | None,
    generation: int,
    item_id: str | None = None,
) -> transcript.RequestRef:
    params = request.params
    return transcript.RequestRef(
        session_id=session_id,
        thread_id=asking_thread(request),
        generation=generation,
        turn_id=getattr(params, "turn_id", None),
        codex_request_id=request.id,
        method=request.method,
        item_id=item_id or getattr(params, "item_id", None),
    )


def _field_names(routed: Elicitation) -> tuple[str, ...]:
    if not isinstance(routed.form_or_url, FormElicitation):
        return ()
    return tuple(routed.form_or_url.schema.get("properties", ()))


def _discriminator(request: ServerRequest) -> str | None:
    """Return the case of a request within its method: a claimed approval kind, a mode or a kind."""
    params = request.params
    if isinstance(params, UnknownVariant):
        mode = params.wire().get("mode")
        return mode if isinstance(mode, str) else None
    meta = getattr(params, "meta", None)
    if isinstance(meta, dict) and classes.APPROVAL_KIND in meta:
        return f"{classes.APPROVAL_KIND} {meta[classes.APPROVAL_KIND]!r:.{_MAX_KIND}}"
    mode = getattr(params, "mode", None)
    kind = getattr(params, "kind", None)
    return str(mode or kind) if mode or kind else None


def _option(choice: PermissionChoice) -> transcript.OfferedOption:
    option = choice.option
    return transcript.OfferedOption(id=option.option_id, kind=option.kind, name=option.name)
