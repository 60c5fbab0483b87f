"""Compaction of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.events.session_events import (
    CompactionChanged,
    SessionEvents,
    tool_call_id,
)

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ContextCompactionThreadItem
    from codex_acp.mapping.state import SessionState


def compaction_started(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """A compaction begins."""
    compaction_id = tool_call_id(item.id)
    if compaction_id in state.open_compactions:
        return ()
    state.open_compactions.append(compaction_id)
    return (CompactionChanged(compaction_id, "in_progress", known=False),)


def compaction_completed(state: SessionState, item: ContextCompactionThreadItem) -> SessionEvents:
    """A compaction is done; one that was not seen to begin (a replay) is told whole."""
    compaction_id = tool_call_id(item.id)
    known = compaction_id in state.open_compactions
    if known:
        state.open_compactions.remove(compaction_id)
    return (CompactionChanged(compaction_id, "completed", known=known),)


def close_compactions(state: SessionState) -> SessionEvents:
    """The turn ended: a compaction that has not completed will not do so any more."""
    left, state.open_compactions = state.open_compactions, []
    return [CompactionChanged(compaction_id, "cancelled", known=True) for compaction_id in left]
