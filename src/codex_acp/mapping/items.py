"""Map the items of a thread to events: when they start, when they complete, and those of the past.

Owns which module an item belongs to (tool calls, messages, thoughts, plans, notices), and how
reviews are shown: Codex's automatic review of an approval, and its review mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.codex._generated import models
from codex_acp.mapping import messages
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import (
    MessageRestarted,
    TextChunk,
    ThoughtChunk,
    ThoughtLine,
    ToolCallAnnounced,
    ToolCallChanged,
)
from codex_acp.mapping.item_calls import status_of
from codex_acp.mapping.running_calls import announce, call_completed, call_started, whole_call
from codex_acp.routing.display import TITLE_LIMIT, block, inline, listed
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownValue, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.events import CallStatus, SessionEvent, SessionEvents
    from codex_acp.mapping.state import SessionState


def item_started(state: SessionState, params: models.ItemStartedNotification) -> SessionEvents:
    """``item/started``: a tool call begins; what is only text comes with its deltas."""
    return started(state, params.item)


def item_completed(state: SessionState, params: models.ItemCompletedNotification) -> SessionEvents:
    """``item/completed``: a tool call as it ended; of a text what its deltas have not shown."""
    return finished(state, params.item, live=True)


def started(state: SessionState, item: models.ThreadItem) -> SessionEvents:
    """Show an item that may still change."""
    match item:
        case models.ContextCompactionThreadItem():
            return messages.compaction_started(state, item)
        case (
            models.AgentMessageThreadItem()
            | models.ReasoningThreadItem()
            | models.PlanThreadItem()
            | models.UserMessageThreadItem()
            | models.HookPromptThreadItem()
            | models.EnteredReviewModeThreadItem()
            | models.ExitedReviewModeThreadItem()
        ):
            return ()  # shown when it completes, or piece by piece
    return call_started(state, item)


def finished(state: SessionState, item: models.ThreadItem, *, live: bool) -> SessionEvents:
    """Show an item as it ended; ``live`` unless it is told of a past turn."""
    match item:
        case models.ContextCompactionThreadItem():
            return messages.compaction_completed(state, item)
        case models.AgentMessageThreadItem():
            return messages.agent_message_completed(state, item)
        case models.ReasoningThreadItem():
            return messages.reasoning_completed(state, item)
        case models.PlanThreadItem():
            return messages.plan_completed(state, item)
        case models.UserMessageThreadItem():
            return messages.user_message(state, item, live=live)
        case models.HookPromptThreadItem():
            return messages.hook_prompt(state, item)
        case models.EnteredReviewModeThreadItem() | models.ExitedReviewModeThreadItem():
            return _review_mode(state, item)
    return call_completed(state, item) if live else whole_call(state, item)


def whole_item(
    state: SessionState, item: models.ThreadItem, *, turn_running: bool
) -> SessionEvents:
    """Show an item of a thread's history: a tool call is final in its one ``tool_call``.

    One that is in progress stays open if its turn runs; else it was cut off, and has failed.
    A `MessageRestarted` stands before the first piece of each message.
    """
    if turn_running and status_of(item) == "inProgress":
        return started(state, item)
    events: list[SessionEvent] = []
    begun: set[str] = set()
    for event in finished(state, item, live=False):
        if isinstance(event, TextChunk | ThoughtChunk | ThoughtLine):
            if event.message_id not in begun:
                events.append(MessageRestarted(event.message_id, not isinstance(event, TextChunk)))
            begun.add(event.message_id)
        events.append(event)
    return events


if TYPE_CHECKING:
    _Review = (
        models.ItemGuardianApprovalReviewCompletedNotification
        | models.ItemGuardianApprovalReviewStartedNotification
    )


def approval_review_started(
    state: SessionState, params: models.ItemGuardianApprovalReviewStartedNotification
) -> SessionEvents:
    """``item/autoApprovalReview/started`` → a tool call in progress."""
    return announce(state, _review_call(params, "in_progress"))


def approval_review_completed(
    state: SessionState, params: models.ItemGuardianApprovalReviewCompletedNotification
) -> SessionEvents:
    """``item/autoApprovalReview/completed`` → its end: an approval completes, all else fails."""
    status: CallStatus = "completed" if params.review.status == "approved" else "failed"
    state.open_calls.pop(params.review_id, None)
    if params.review_id not in state.announced:
        state.announced[params.review_id] = None
        return (_review_call(params, status),)
    changed = ToolCallChanged(id=params.review_id, status=status, content=_review_content(params))
    changed.raw_output = plain(params.review)
    return (changed,)


def _review_mode(
    state: SessionState,
    item: models.EnteredReviewModeThreadItem | models.ExitedReviewModeThreadItem,
) -> SessionEvents:
    """Show what is reviewed, and the review; each once.

    Codex also sends the review as a message of the agent: the one that comes second is left out
    (`messages.agent_message_completed`).
    """
    if isinstance(item, models.EnteredReviewModeThreadItem):
        # Older servers give both items the turn's id.
        text = f"Review started: {inline(item.review)}\n\n"
        return messages.text_completed(state, f"{item.id}:entered", text)
    if any("".join(pieces) == item.review for pieces in state.sent_text.values()):
        return ()
    state.review_text = item.review
    return messages.text_completed(state, item.id, item.review)


def _review_call(params: _Review, status: CallStatus) -> ToolCallAnnounced:
    call = ToolCallAnnounced(
        id=params.review_id,
        title=f"Review: {action_words(params.action)}",
        kind="think",
        status=status,
        content=_review_content(params),
        raw_input={"targetItemId": params.target_item_id, "action": plain(params.action)},
    )
    if status != "in_progress":
        call.raw_output = plain(params.review)
    return call


def _review_content(params: _Review) -> list[CallContent]:
    review = params.review
    lines = [f"Codex reviews by itself whether it may {action_words(params.action, None)}"]
    if params.target_item_id is not None:
        lines.append(f"Tool call: {inline(params.target_item_id)}")
    match review.status:
        case "inProgress":
            pass
        case "approved":
            lines.append("Approved.")
        case "denied":
            lines.append("Denied.")
        case "timedOut":
            lines.append("Not approved: the review took too long.")
        case "aborted":
            lines.append("Not approved: the review was aborted.")
        case UnknownValue():
            lines.append(f"Not approved: {inline(review.status)}.")
        case _:
            assert_never(review.status)
    if review.risk_level is not None:
        lines.append(f"Risk: {inline(review.risk_level)}")
    if review.user_authorization is not None:
        lines.append(f"Authorization by the user: {inline(review.user_authorization)}")
    if review.rationale:
        lines.append(block(review.rationale))
    return [TextBlock("\n".join(lines))]


def action_words(
    action: models.GuardianApprovalReviewAction, limit: int | None = TITLE_LIMIT
) -> str:
    """Return words such as ``run: touch made``, at most ``limit`` characters of each; None: all."""

    def code(text: str) -> str:
        return inline(text, limit)

    match action:
        case models.CommandGuardianApprovalReviewAction():
            return f"run: {code(action.command)}"
        case models.ExecveGuardianApprovalReviewAction():
            return f"run: {code(' '.join([action.program, *action.argv[1:]]))}"
        case models.WriteStdinGuardianApprovalReviewAction():
            return f"write to a running command: {code(action.stdin)}"
        case models.ApplyPatchGuardianApprovalReviewAction():
            return f"change {listed([code(path) for path in action.files]) or 'files'}"
        case models.NetworkAccessGuardianApprovalReviewAction():
            return f"connect to {code(f'{action.protocol}://{action.host}:{action.port}')}"
        case models.McpToolCallGuardianApprovalReviewAction():
            return f"call {code(action.server)}: {code(action.tool_title or action.tool_name)}"
        case models.RequestPermissionsGuardianApprovalReviewAction():
            reason = f" ({code(action.reason)})" if action.reason else ""
            return f"have more permissions{reason}"
        case UnknownVariant():
            return f"do what this version does not know ({code(str(action.wire().get('type')))})"
        case _:
            assert_never(action)
