"""Map the items of a thread to events: at their start, at their end, and from the history.

Owns which module maps which kind of item, and how reviews are shown: Codex's automatic review of an
approval, and its review mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.codex._generated import models
from codex_acp.mapping import messages, running_calls
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
from codex_acp.routing.display import TITLE_LIMIT, block, inline, listed
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownValue, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.mapping.content import CallContent
    from codex_acp.mapping.events import CallStatus, SessionEvent, SessionEvents
    from codex_acp.mapping.state import SessionState


def item_started(state: SessionState, params: models.ItemStartedNotification) -> SessionEvents:
    """Map ``item/started``."""
    return show_start(state, params.item)


def item_completed(state: SessionState, params: models.ItemCompletedNotification) -> SessionEvents:
    """Map ``item/completed``."""
    return show_end(state, params.item, live=True)


def show_start(state: SessionState, item: models.ThreadItem) -> SessionEvents:
    """Show the start of a tool call or compaction; texts are shown by their deltas."""
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
            return ()
    return running_calls.call_started(state, item)


def show_end(state: SessionState, item: models.ThreadItem, *, live: bool) -> SessionEvents:
    """Show the end of a tool call, or the part of a text that no delta has shown. ``live``: the
    item's turn runs; else the item is from the history."""
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
    show = running_calls.call_completed if live else running_calls.show_history_call
    return show(state, item)


def show_history_item(
    state: SessionState, item: models.ThreadItem, *, turn_running: bool
) -> SessionEvents:
    """Show an item of a thread's history, a tool call in its last state. A tool call in progress
    stays open if its turn still runs; else it was cut off. A `MessageRestarted` stands before the
    first piece of each message."""
    if turn_running and status_of(item) == "inProgress":
        return show_start(state, item)
    events: list[SessionEvent] = []
    begun: set[str] = set()
    for event in show_end(state, item, live=False):
        if isinstance(event, TextChunk | ThoughtChunk | ThoughtLine):
            if event.message_id not in begun:
                is_thought = not isinstance(event, TextChunk)
                events.append(MessageRestarted(event.message_id, is_thought))
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
    """Map ``item/autoApprovalReview/started`` to a tool call in progress."""
    return running_calls.announce(state, _review_call(params, "in_progress"))


def approval_review_completed(
    state: SessionState, params: models.ItemGuardianApprovalReviewCompletedNotification
) -> SessionEvents:
    """Map ``item/autoApprovalReview/completed``; a review that does not approve fails the call."""
    call_id = params.review_id
    status: CallStatus = "completed" if params.review.status == "approved" else "failed"
    state.open_calls.pop(call_id, None)
    if call_id not in state.announced:
        state.announced[call_id] = None
        return (_review_call(params, status),)
    content, review = _review_content(params), plain(params.review)
    return (ToolCallChanged(id=call_id, status=status, content=content, raw_output=review),)


def _review_mode(
    state: SessionState,
    item: models.EnteredReviewModeThreadItem | models.ExitedReviewModeThreadItem,
) -> SessionEvents:
    """Show the subject of a review at its start, and the review at its end. Codex also sends the
    review as a message of the agent: only the first of item and message is shown
    (`messages.agent_message_completed`)."""
    if isinstance(item, models.EnteredReviewModeThreadItem):
        # A suffix, because older versions of Codex give both items the turn's id.
        text = f"Review started: {inline(item.review)}\n\n"
        return messages.text_completed(state, f"{item.id}:entered", text)
    if any("".join(pieces) == item.review for pieces in state.sent_text.values()):
        return ()
    state.review_text = item.review
    return messages.text_completed(state, item.id, item.review)


def _review_call(params: _Review, status: CallStatus) -> ToolCallAnnounced:
    return ToolCallAnnounced(
        id=params.review_id,
        title=f"Review: {action_words(params.action)}",
        kind="think",
        status=status,
        content=_review_content(params),
        raw_input={"targetItemId": params.target_item_id, "action": plain(params.action)},
        raw_output=None if status == "in_progress" else plain(params.review),
    )


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
    """Return text such as ``run: touch made``, with at most ``limit`` characters of each value."""

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
