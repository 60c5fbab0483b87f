"""Items of a thread → updates, when they start and when they complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated.models import AgentMessageThreadItem
from codex_acp.mapping.messages import agent_message_completed
from codex_acp.mapping.tool_calls import item_ended

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ItemCompletedNotification
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["item_completed"]


def item_completed(state: SessionState, params: ItemCompletedNotification) -> Updates:
    """``item/completed``: what the item's deltas have not shown."""
    item = params.item
    if isinstance(item, AgentMessageThreadItem):
        return agent_message_completed(state, item)
    return item_ended(state, item)
