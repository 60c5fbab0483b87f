"""Messages and reasoning of the agent → chunks. A completed item sends only what deltas did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import AgentMessageChunkSessionUpdate, TextContentBlock
from codex_acp.mapping.step import TextChunk

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import (
        AgentMessageDeltaNotification,
        AgentMessageThreadItem,
    )
    from codex_acp.mapping.state import SessionState
    from codex_acp.mapping.step import Updates

__all__ = ["agent_message_completed", "agent_message_delta", "message_chunk"]


def message_chunk(text: str, message_id: str) -> AgentMessageChunkSessionUpdate:
    """A piece of the agent's message ``message_id`` (ACP schema: ContentChunk)."""
    return AgentMessageChunkSessionUpdate(
        content=TextContentBlock(text=text), message_id=message_id
    )


def agent_message_delta(state: SessionState, params: AgentMessageDeltaNotification) -> Updates:
    """``item/agentMessage/delta`` → one chunk; an empty delta sends nothing."""
    if not params.delta:
        return ()
    item_id = params.item_id
    state.sent_text[item_id] = state.sent_text.get(item_id, 0) + len(params.delta)
    return (TextChunk(item_id, params.delta),)


def agent_message_completed(state: SessionState, item: AgentMessageThreadItem) -> Updates:
    """The rest of a message's text that no delta has carried; nothing the second time."""
    sent = state.sent_text.get(item.id, 0)
    rest = item.text[sent:]
    state.sent_text[item.id] = sent + len(rest)
    return (TextChunk(item.id, rest),) if rest else ()
