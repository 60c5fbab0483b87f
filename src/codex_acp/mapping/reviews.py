"""Shows reviews: Codex's automatic review of an approval, and its review mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.running_calls import announce
from codex_acp.mapping.events.session_events import ToolCallAnnounced, ToolCallChanged
from codex_acp.mapping.messages import text_completed
from codex_acp.routing.content import text_content
from codex_acp.routing.display import TITLE_LIMIT, block, inline, listed
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownValue, UnknownVariant

if TYPE_CHECKING:
    from codex_acp.mapping.events.content import CallContent
    from codex_acp.mapping.events.session_events import CallStatus, SessionEvents
    from codex_acp.mapping.state import SessionState

    _Review = (
        models.ItemGuardianApprovalReviewCompletedNotification
        | models.ItemGuardianApprovalReviewStartedNotification
    )
_ENDED_WELL = ("approved",)


def approval_review_started(
    state: SessionState, params: models.ItemGuardianApprovalReviewStartedNotification
) -> SessionEvents:
    """``item/autoApprovalReview/started`` → a tool call in progress."""
    return announce(state, _call(params, "in_progress"))


def approval_review_completed(
    state: SessionState, params: models.ItemGuardianApprovalReviewCompletedNotification
) -> SessionEvents:
    """``item/autoApprovalReview/completed`` → its end: an approval completes, all else fails."""
    status: CallStatus = "completed" if params.review.status in _ENDED_WELL else "failed"
    state.open_calls.pop(params.review_id, None)
    if params.review_id not in state.announced:
        state.announced[params.review_id] = None
        return (_call(params, status),)
    return (
        ToolCallChanged(
            id=params.review_id,
            status=status,
            content=_content(params),
            raw_output=plain(params.review),
        ),
    )


def review_mode(
    state: SessionState,
    item: models.EnteredReviewModeThreadItem | models.ExitedReviewModeThreadItem,
) -> SessionEvents:
    """``enteredReviewMode``, ``exitedReviewMode`` → what is reviewed, and the review; each once.

    Codex also sends the review as a message of the agent: the one that comes second is left out
    (`messages.agent_message_completed`).
    """
    if isinstance(item, models.EnteredReviewModeThreadItem):
        # Older servers give both items the turn's id.
        return text_completed(
            state, f"{item.id}:entered", f"Review started: {inline(item.review)}\n\n"
        )
    if any("".join(pieces) == item.review for pieces in state.sent_text.values()):
        return ()
    state.review_text = item.review
    return text_completed(state, item.id, item.review)


def _call(params: _Review, status: CallStatus) -> ToolCallAnnounced:
    call = ToolCallAnnounced(
        id=params.review_id,
        title=f"Review: {action_words(params.action)}",
        kind="think",
        status=status,
        content=_content(params),
        raw_input={"targetItemId": params.target_item_id, "action": plain(params.action)},
    )
    if status != "in_progress":
        call.raw_output = plain(params.review)
    return call


def _content(params: _Review) -> list[CallContent]:
    lines = [f"Codex reviews by itself whether it may {action_words(params.action, None)}"]
    if params.target_item_id is not None:
        lines.append(f"Tool call: {inline(params.target_item_id)}")
    lines += _verdict(params.review)
    return [text_content("\n".join(lines))]


def _verdict(review: models.GuardianApprovalReview) -> list[str]:
    lines = [word] if (word := _outcome(review)) else []
    if review.risk_level is not None:
        lines.append(f"Risk: {inline(review.risk_level)}")
    if review.user_authorization is not None:
        lines.append(f"Authorization by the user: {inline(review.user_authorization)}")
    if review.rationale:
        lines.append(block(review.rationale))
    return lines


def _outcome(review: models.GuardianApprovalReview) -> str | None:
    status = review.status
    match status:
        case "inProgress":
            return None
        case "approved":
            return "Approved."
        case "denied":
            return "Denied."
        case "timedOut":
            return "Not approved: the review took too long."
        case "aborted":
            return "Not approved: the review was aborted."
        case UnknownValue():
            return f"Not approved: {inline(status)}."
        case _:
            assert_never(status)


def action_words(
    action: models.GuardianApprovalReviewAction, limit: int | None = TITLE_LIMIT
) -> str:
    """For example ``run: touch made``; at most ``limit`` characters of each thing, None: all."""

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
