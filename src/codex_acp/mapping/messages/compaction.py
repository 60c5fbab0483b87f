"""Compaction of the context → ``compaction_update``, or a tool call for other clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.acp._generated.v1.models import (
    CompactionUpdateSessionUpdate,
    ToolCallSessionUpdate,
)
from codex_acp.mapping.calls.tool_calls import announce, call_ended

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import ToolCallStatus
    from codex_acp.codex._generated.models import ContextCompactionThreadItem
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["TITLE", "close_compactions", "compaction_completed", "compaction_started"]

TITLE: Final = "Compact conversation"
"""The tool call's title."""


def compaction_started(state: SessionState, item: ContextCompactionThreadItem) -> Updates:
    """A compaction begins."""
    if not state.client.compaction:
        return announce(state, _call(item.id, "in_progress"))
    if item.id in state.open_compactions:
        return ()
    state.open_compactions.append(item.id)
    return (CompactionUpdateSessionUpdate(compaction_id=item.id, status="in_progress"),)


def compaction_completed(state: SessionState, item: ContextCompactionThreadItem) -> Updates:
    """A compaction is done; one that was not seen to begin (a replay) is shown whole."""
    if not state.client.compaction:
        if item.id in state.open_calls:
            return call_ended(state, item.id, ended_well=True)
        return (_call(item.id, "completed"),)
    if item.id in state.open_compactions:
        state.open_compactions.remove(item.id)
    return (CompactionUpdateSessionUpdate(compaction_id=item.id, status="completed"),)


def close_compactions(state: SessionState) -> Updates:
    """The turn ended: a compaction that has not completed will not do so any more."""
    left, state.open_compactions = state.open_compactions, []
    return [CompactionUpdateSessionUpdate(compaction_id=i, status="cancelled") for i in left]


def _call(item_id: str, status: ToolCallStatus) -> ToolCallSessionUpdate:
    return ToolCallSessionUpdate(tool_call_id=item_id, title=TITLE, kind="think", status=status)
