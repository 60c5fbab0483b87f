"""Which tool call an approval belongs to, and how that is announced (contract 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1.models import ToolCallSessionUpdate
from codex_acp.codex.approvals.classify import (
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpToolApproval,
    McpToolQuestion,
    PermissionsApproval,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import ToolCallContent, ToolCallUpdate
    from codex_acp.codex.approvals.classify import Approval

__all__ = ["announcement", "item_of", "tool_call_id"]


def item_of(approval: Approval) -> tuple[str, str | None]:
    """The item that is asked about, and what tells this approval from others of the same item."""
    match approval:
        case CommandApproval(request=command):
            params = command.params
            other = params.approval_id if params.approval_id != params.item_id else None
            return params.item_id, other
        case FileChangeApproval(request=change):
            return change.params.item_id, None
        case PermissionsApproval(request=permissions):
            return permissions.params.item_id, None
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return call.id, None
        case LegacyCommandApproval(request=legacy):
            return legacy.params.call_id, legacy.params.approval_id
        case LegacyPatchApproval(request=patch):
            return patch.params.call_id, None
        case _:
            assert_never(approval)


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
