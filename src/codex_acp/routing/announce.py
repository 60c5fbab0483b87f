"""Which tool call an approval belongs to, and how that is announced (contract 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.events.session_events import ToolCallAnnounced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.mapping.events.content import CallContent
    from codex_acp.mapping.events.session_events import ToolCallChanged


def tool_call_id(item_id: str, part: str | None, child: str | None) -> str:
    """The ACP tool call of an item: its id, made unique for a sub-command and for a sub-agent."""
    call = item_id if part is None else f"{item_id}:{part}"
    return call if child is None else f"{child}:{call}"


def announcement(shown: ToolCallChanged, content: Sequence[CallContent]) -> ToolCallAnnounced:
    """The tool call to send first, when no item of Codex has announced it."""
    return ToolCallAnnounced(
        id=shown.id,
        title=shown.title or "Tool call",
        kind=shown.kind or "other",
        status="pending",
        content=content or None,
        locations=shown.locations,
        raw_input=shown.raw_input,
    )
