"""Which tool call an approval belongs to, and how that is announced (contract 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import ToolCallSessionUpdate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import ToolCallContent, ToolCallUpdate

__all__ = ["announcement", "tool_call_id"]


def tool_call_id(item_id: str, part: str | None, child: str | None) -> str:
    """The ACP tool call of an item: its id, made unique for a sub-command and for a sub-agent."""
    call = item_id if part is None else f"{item_id}:{part}"
    return call if child is None else f"{child}:{call}"


def announcement(
    shown: ToolCallUpdate, content: Sequence[ToolCallContent]
) -> ToolCallSessionUpdate:
    """The tool call to send first, when no item of Codex has announced it."""
    call = ToolCallSessionUpdate(
        tool_call_id=shown.tool_call_id,
        title=shown.title or "Tool call",
        kind=shown.kind or "other",
        status="pending",
    )
    if content:
        call.content = list(content)
    if shown.locations:
        call.locations = shown.locations
    if "raw_input" in shown.model_fields_set:
        call.raw_input = shown.raw_input
    return call
