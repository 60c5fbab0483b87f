"""Tool calls that were announced: how an approval and the item's end change them (contract 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.acp._generated.v1.models import ToolCallUpdateSessionUpdate
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import ToolCallSessionUpdate, ToolCallStatus
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["announce", "approval_settled", "call_ended", "close_open_calls", "item_ended"]

_COMPLETED: Final = "completed"


def announce(state: SessionState, call: ToolCallSessionUpdate) -> Updates:
    """A tool call before anything refers to it; nothing if it was announced before."""
    if call.tool_call_id in state.open_calls:
        return ()
    state.open_calls.add(call.tool_call_id)
    return (call,)


def approval_settled(state: SessionState, tool_call_id: str, *, accepted: bool) -> Updates:
    """An accepted action is in progress from now on; any other has failed."""
    if tool_call_id not in state.open_calls:
        return ()
    if accepted:
        return (_status(tool_call_id, "in_progress"),)
    state.open_calls.discard(tool_call_id)
    return (_status(tool_call_id, "failed"),)


def item_ended(state: SessionState, item: ThreadItem) -> Updates:
    """An item completed: its tool call, if it is open, ends as the item did."""
    if isinstance(item, UnknownVariant):
        return ()
    ended_well = getattr(item, "status", _COMPLETED) == _COMPLETED
    return call_ended(state, item.id, ended_well=ended_well)


def call_ended(state: SessionState, tool_call_id: str, *, ended_well: bool) -> Updates:
    """What a tool call stands for is over; nothing if it has ended before."""
    if tool_call_id not in state.open_calls:
        return ()
    state.open_calls.discard(tool_call_id)
    return (_status(tool_call_id, "completed" if ended_well else "failed"),)


def close_open_calls(state: SessionState) -> Updates:
    """The turn ended: no tool call of it is left pending or in progress."""
    left = sorted(state.open_calls)
    state.open_calls.clear()
    return [_status(tool_call_id, "failed") for tool_call_id in left]


def _status(tool_call_id: str, status: ToolCallStatus) -> ToolCallUpdateSessionUpdate:
    return ToolCallUpdateSessionUpdate(tool_call_id=tool_call_id, status=status)
