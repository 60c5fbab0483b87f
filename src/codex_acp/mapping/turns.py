"""A turn's end, as far as the mapping's memory is concerned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.tool_calls import close_open_calls

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ErrorNotification, TurnCompletedNotification
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["error", "turn_completed"]


def error(state: SessionState, params: ErrorNotification) -> Updates:
    """``error``: one that is final is kept for the turn's end, in case that names none."""
    if not params.will_retry:
        state.turn_errors[params.turn_id] = params.error
    return ()


def turn_completed(state: SessionState, params: TurnCompletedNotification) -> Updates:
    """``turn/completed``: what was sent is forgotten, and no tool call of it stays open."""
    del params
    state.sent_text.clear()
    return close_open_calls(state)
