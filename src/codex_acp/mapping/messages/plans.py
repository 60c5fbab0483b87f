"""Plans: the list of steps of a turn, and the text that plan mode proposes.

The list becomes the session's plan. The text is a message: ACP v1 has no update for it that every
client could be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.mapping.events.permissions import PermissionOption, PermissionQuestion
from codex_acp.mapping.events.session_events import (
    PlanChanged,
    PlanStep,
    ThoughtLine,
    ToolCallAnnounced,
    ToolCallChanged,
    tool_call_id,
)
from codex_acp.mapping.messages.message_chunks import text_completed, text_delta
from codex_acp.routing.content import code_content
from codex_acp.wire.model import UnknownValue

if TYPE_CHECKING:
    from codex_acp.codex._generated import models
    from codex_acp.mapping.events.session_events import (
        CallStatus,
        SessionEvent,
        SessionEvents,
        StepStatus,
    )
    from codex_acp.mapping.state import SessionState

REVIEW: Final = "Implement this plan?"
IMPLEMENT: Final = "implement_plan"
"""Option that has a plan carried out."""


def plan_updated(state: SessionState, params: models.TurnPlanUpdatedNotification) -> SessionEvents:
    """``turn/plan/updated`` → the whole plan; before it the explanation, if it is a new one."""
    events: list[SessionEvent] = []
    if params.explanation and params.explanation != state.plan_explanation:
        state.plan_explanation = params.explanation
        events.append(ThoughtLine(f"{params.turn_id}-plan", params.explanation))
    steps = [PlanStep(step.step, _status(step)) for step in params.plan]
    events.append(PlanChanged(params.turn_id, steps))
    return events


def plan_delta(state: SessionState, params: models.PlanDeltaNotification) -> SessionEvents:
    """``item/plan/delta`` → a piece of the message that is the proposed plan."""
    return text_delta(state, params.item_id, params.delta)


def plan_completed(state: SessionState, item: models.PlanThreadItem) -> SessionEvents:
    """The plan that was proposed: what counts, whatever its deltas have said."""
    state.proposed_plan = (item.id, item.text)
    return text_completed(state, item.id, item.text)


def review_question(
    session_id: str, item_id: str, plan: str
) -> tuple[ToolCallAnnounced, PermissionQuestion]:
    """Return the tool call and the question whether a plan is to be carried out.

    The plan is shown in it, although the agent has just said it: a message hides what it likes.
    """
    call_id, content = tool_call_id(item_id, "plan-review"), [code_content(plan, "markdown")]
    given = {"plan": plan}
    announced = ToolCallAnnounced(
        id=call_id, title=REVIEW, kind="switch_mode", status="pending", content=content,
        raw_input=given,
    )  # fmt: skip
    shown = ToolCallChanged(
        id=call_id, title=REVIEW, kind="switch_mode", status="pending", content=content,
        raw_input=given,
    )  # fmt: skip
    options = (
        PermissionOption(IMPLEMENT, "Yes, implement this plan", "allow_once"),
        PermissionOption("revise_plan", "No, and tell Codex what to do differently", "reject_once"),
    )
    return announced, PermissionQuestion(session_id, shown, options)


def review_ended(call_id: str, *, approved: bool | None) -> ToolCallChanged:
    """Return what became of it; None: it was withdrawn."""
    status: CallStatus = "cancelled" if approved is None else "completed" if approved else "failed"
    return ToolCallChanged(id=call_id, status=status)


def _status(step: models.TurnPlanStep) -> StepStatus:
    status = step.status
    match status:
        case "pending":
            return "pending"
        case "completed":
            return "completed"
        case "inProgress":
            return "in_progress"
        case UnknownValue():
            return "pending"
        case _:
            assert_never(status)
