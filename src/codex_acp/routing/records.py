"""Turns what happens to a server request into events of the transcript (contract 5.1)."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp._json import text_at
from codex_acp.codex.approvals import classify as kinds
from codex_acp.codex.approvals.actions import move_target
from codex_acp.codex.approvals.grants import RememberHost
from codex_acp.routing.elicitations import FormElicitation
from codex_acp.routing.route import Decline, Elicitation, asking_thread
from codex_acp.transcript import events as transcript
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.codex._generated.models import FileUpdateChange
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.jsonrpc.message import JsonValue, RequestId
    from codex_acp.routing.approvals import PermissionChoice
    from codex_acp.routing.elicitations import (
        AsyncQuestions,
        ElicitationReply,  # made elsewhere: contract 2.3
    )
    from codex_acp.routing.ledger import LedgerEntry, Settlement

_MAX_KIND: Final = 60
"""Characters of a claimed approval kind that are recorded: a server may write anything there."""

_MAX_FILES: Final = 100
"""Files of one approval that are recorded by name; the rest is counted."""


def approval_requested(entry: LedgerEntry) -> transcript.ApprovalRequested:
    """The permission request that is about to be sent."""
    return transcript.ApprovalRequested(
        ref=_approval_ref(entry),
        tool=entry.route.tool,
        arguments_sha256=entry.route.digest,
        subject=_subject(entry.route.approval),
        options=tuple(_option(choice) for choice in entry.choices),
    )


def approval_settled(
    settlement: Settlement,
) -> list[transcript.ApprovalRefused | transcript.ApprovalDecided]:
    """The failed check of an answer, if one failed; and how the approval was settled."""
    entry = settlement.entry
    ref, tool, digest = _approval_ref(entry), entry.route.tool, entry.route.digest
    subject = _subject(entry.route.approval)
    events: list[transcript.ApprovalRefused | transcript.ApprovalDecided] = []
    if settlement.failed_check is not None:
        events.append(
            transcript.ApprovalRefused(
                ref=ref,
                tool=tool,
                arguments_sha256=digest,
                subject=subject,
                code=settlement.failed_check,
                reason=settlement.reason,
            )
        )
    events.append(
        transcript.ApprovalDecided(
            ref=ref,
            tool=tool,
            arguments_sha256=digest,
            subject=subject,
            outcome=settlement.outcome,
            by=settlement.by,
            option=None if settlement.choice is None else _option(settlement.choice),
            decision=_decision(settlement),
        )
    )
    return events


def acceptance_in_doubt(entry: LedgerEntry, reason: str) -> transcript.ApprovalRefused:
    """An approval was accepted, and another action may run in its place."""
    return transcript.ApprovalRefused(
        ref=_approval_ref(entry),
        tool=entry.route.tool,
        arguments_sha256=entry.route.digest,
        subject=_subject(entry.route.approval),
        code="shared_id",
        reason=reason,
    )


def _subject(approval: kinds.ApprovalRequest) -> tuple[str, ...]:
    """Return what is decided on, as it came: the transcript cuts texts and takes secrets out."""
    match approval:
        case kinds.CommandApproval(request=request):
            params, context = request.params, request.params.network_approval_context
            if context is not None:
                return (f"{context.protocol}://{context.host}",)
            return (params.command or "",)
        case kinds.LegacyCommandApproval(request=legacy):
            return (shlex.join(legacy.params.command),)
        case kinds.FileChangeApproval(item=item):
            return _files(map(_file_changed, item.changes), len(item.changes))
        case kinds.LegacyPatchApproval(request=patch):
            changes = patch.params.file_changes
            return _files((f"{c.type} {path}" for path, c in changes.items()), len(changes))
        case kinds.PermissionsApproval(request=asked):
            return (json.dumps(plain(asked.params.permissions), ensure_ascii=False),)
        case kinds.McpToolApproval(item=call) | kinds.McpToolQuestion(item=call):
            return (f"{call.server}/{call.tool}",)
        case _:
            assert_never(approval)


def _files(changes: Iterable[str], count: int) -> tuple[str, ...]:
    more = (f"and {count - _MAX_FILES:,} more",) if count > _MAX_FILES else ()
    return (*islice(changes, _MAX_FILES), *more)


def _file_changed(change: FileUpdateChange) -> str:
    target = move_target(change)
    moved = "" if target is None else f" -> {target}"
    return f"{change.kind.type} {change.path}{moved}"


def _decision(settlement: Settlement) -> str:
    if settlement.reply is None:
        return "none: Codex is gone"
    grant = None if settlement.choice is None else settlement.choice.grant
    if grant is None:
        return "cancel" if settlement.by == "turn_cancelled" else "decline"
    if isinstance(grant, RememberHost):
        return f"RememberHost {grant.action}"
    return type(grant).__name__


def elicitation_requested(
    routed: Elicitation, generation: int, acp_request_id: RequestId | None = None
) -> transcript.ElicitationRequested:
    """The elicitation that is about to be sent, as ``acp_request_id``."""
    return transcript.ElicitationRequested(
        ref=_elicitation_ref(routed, generation, acp_request_id),
        mode=_mode(routed),
        server=routed.asked.server,
        fields=_fields(routed),
        url=None if isinstance(routed.asked, FormElicitation) else routed.asked.url.url,
    )


def elicitation_answered(
    routed: Elicitation,
    generation: int,
    reply: ElicitationReply,
    by: transcript.ElicitationSettler,
    acp_request_id: RequestId | None = None,
) -> transcript.ElicitationAnswered:
    """How it was settled; names of fields, never what was typed."""
    accepted = reply.how == "accepted"
    return transcript.ElicitationAnswered(
        ref=_elicitation_ref(routed, generation, acp_request_id),
        mode=_mode(routed),
        server=routed.asked.server,
        action="accept" if accepted else "decline" if reply.how == "declined" else "cancel",
        by=by,
        fields=_fields(routed) if accepted else (),
        problem=reply.problem,
    )


def request_declined(routed: Decline, generation: int) -> transcript.RequestDeclined:
    """A request that nobody was asked about."""
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
    """A request that was refused before it had a route; its params need not fit anything."""
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
    """The thread that plain params name, in either version of the protocol."""
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


def _approval_ref(entry: LedgerEntry) -> transcript.RequestRef:
    routed = entry.route
    ref = _ref(routed.approval.request, routed.session_id, entry.key.generation, routed.item_id)
    # The protocol's first version does not name the turn.
    return replace(ref, turn_id=routed.turn_id, acp_request_id=entry.acp_request_id)


def _elicitation_ref(
    routed: Elicitation, generation: int, acp_request_id: RequestId | None
) -> transcript.RequestRef:
    ref = _ref(routed.request, routed.session_id, generation)
    return replace(ref, acp_request_id=acp_request_id)


def _mode(routed: Elicitation) -> transcript.ElicitationMode:
    return "form" if isinstance(routed.asked, FormElicitation) else "url"


def _fields(routed: Elicitation) -> tuple[str, ...]:
    if not isinstance(routed.asked, FormElicitation):
        return ()
    return tuple(routed.asked.form.schema.get("properties", ()))


def _discriminator(request: ServerRequest) -> str | None:
    """Return the value that made it this case inside its method: a claimed approval kind, the mode,
    the kind."""
    params = request.params
    if isinstance(params, UnknownVariant):
        mode = params.wire().get("mode")
        return mode if isinstance(mode, str) else None
    meta = getattr(params, "meta", None)
    if isinstance(meta, dict) and kinds.APPROVAL_KIND in meta:
        return f"{kinds.APPROVAL_KIND} {meta[kinds.APPROVAL_KIND]!r:.{_MAX_KIND}}"
    mode = getattr(params, "mode", None)
    kind = getattr(params, "kind", None)
    return str(mode or kind) if mode or kind else None


def _option(choice: PermissionChoice) -> transcript.OfferedOption:
    option = choice.option
    return transcript.OfferedOption(id=option.option_id, kind=option.kind, name=option.name)
