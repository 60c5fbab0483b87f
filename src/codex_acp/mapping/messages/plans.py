"""Plans: the list of steps of a turn, and the text that plan mode proposes.

The list becomes ACP's ``plan``. The text is a message: ACP v1 has no update for it that every
client could be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1.models import PlanEntry, PlanSessionUpdate
from codex_acp.mapping.messages.lines import thought_line
from codex_acp.mapping.messages.message_chunks import text_completed, text_delta
from codex_acp.wire.model import UnknownValue

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import PlanEntryStatus
    from codex_acp.codex._generated.models import (
        PlanDeltaNotification,
        PlanThreadItem,
        TurnPlanStep,
        TurnPlanUpdatedNotification,
    )
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Update, Updates

__all__ = ["plan_completed", "plan_delta", "plan_updated"]


def plan_updated(state: SessionState, params: TurnPlanUpdatedNotification) -> Updates:
    """``turn/plan/updated`` → the whole ``plan``; before it the explanation, if it is a new one."""
    updates: list[Update] = []
    if params.explanation and params.explanation != state.plan_explanation:
        state.plan_explanation = params.explanation
        updates.append(thought_line(params.explanation))
    updates.append(PlanSessionUpdate(entries=[_entry(step) for step in params.plan]))
    return updates


def plan_delta(state: SessionState, params: PlanDeltaNotification) -> Updates:
    """``item/plan/delta`` → a piece of the message that is the proposed plan."""
    return text_delta(state, params.item_id, params.delta)


def plan_completed(state: SessionState, item: PlanThreadItem) -> Updates:
    """The plan that was proposed: what counts, whatever its deltas have said."""
    return text_completed(state, item.id, item.text)


def _entry(step: TurnPlanStep) -> PlanEntry:
    # Codex has no priorities, ACP requires one.
    return PlanEntry(content=step.step, priority="medium", status=_status(step))


def _status(step: TurnPlanStep) -> PlanEntryStatus:
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
