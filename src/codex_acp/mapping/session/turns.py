"""A turn's end, as far as the mapping's memory is concerned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.calls.tool_calls import close_open_calls
from codex_acp.mapping.messages.compaction import close_compactions
from codex_acp.mapping.messages.lines import say_once

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ErrorNotification, TurnCompletedNotification
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState


def error(state: SessionState, params: ErrorNotification) -> SessionEvents:
    """``error``: one that is final is kept for the turn's end, in case that names none.

    One that Codex tries again after is said, once for each cause: Codex counts its attempts in
    the message, and the person learns nothing from the second.
    """
    failed = params.error
    if not params.will_retry:
        state.turn_errors[params.turn_id] = failed
        return ()
    details = failed.additional_details
    key = (params.turn_id, "retrying", details or failed.message)
    return say_once(state, f"Retrying: {failed.message}", "warning", details, key=key)


def turn_completed(state: SessionState, params: TurnCompletedNotification) -> SessionEvents:
    """``turn/completed``: what was sent is forgotten, and nothing of it stays open."""
    state.sent_text.clear()
    state.thoughts.clear()
    state.plan_explanation = None
    state.review_text = None
    return [
        *close_compactions(state),
        *close_open_calls(state, goes_on=params.turn.status == "completed"),
    ]
