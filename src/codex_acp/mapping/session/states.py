"""Write updates of a session as a whole, as JSON that is alike in every version of ACP.

Source: schema ``SessionUpdate`` and its ``StateUpdate``, ``SubagentUpdate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from codex_acp.mapping.agent.capabilities import META_KEY
from codex_acp.mapping.events.session_events import (
    SessionMessage,
    StateChanged,
    SubAgentChanged,
    TitleChanged,
    UsageChanged,
)
from codex_acp.mapping.session.rate_limits import usage_update
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptFailure, PromptStop
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.mapping.events.content import Block
    from codex_acp.wire.model import WireModel


def told_alike(
    event: UsageChanged | TitleChanged | SubAgentChanged | SessionMessage,
    block_of: Callable[[Block], WireModel],
) -> dict[str, Any]:
    """``SessionUpdate``; ``block_of`` writes a block as the version does."""
    match event:
        case UsageChanged():
            return usage_update(event)
        case TitleChanged():
            return {"sessionUpdate": "session_info_update", "title": event.title}
        case SubAgentChanged():
            return {"sessionUpdate": "subagent_update", **_sub_agent_of(event)}
        case SessionMessage():
            return {
                "sessionUpdate": "session_message",
                "messageId": event.message_id,
                "senderSessionId": event.sender,
                "recipientSessionId": event.recipient,
                "content": [plain(block_of(part)) for part in event.content],
            }
        case _:
            assert_never(event)


def state_of(event: StateChanged) -> dict[str, Any]:
    """``StateUpdate``."""
    state: dict[str, Any] = {"state": event.state}
    if event.end is not None:
        state |= _stop(event.end)
    if event.usage is not None:
        state["_meta"] = {META_KEY: {"usage": event.usage}}
    if event.background is not None:
        state["background"] = [{"type": "terminal", "terminalId": t} for t in event.background]
    return state


def _sub_agent_of(event: SubAgentChanged) -> dict[str, Any]:
    """``SubagentUpdate``."""
    update: dict[str, Any] = {"sessionId": event.session_id}
    if event.title is not None:
        update["title"] = event.title
    if event.description is not None:
        update["description"] = event.description
    if event.state is not None:
        update["state"] = state_of(event.state)
    if event.stoppable is not None:
        update["capabilities"] = {"cancel": {}} if event.stoppable else {}
    return update


def _stop(end: PromptEnd) -> dict[str, Any]:
    match end:
        case PromptStop():
            return {"stopReason": end.reason}
        case PromptFailure():
            error: dict[str, Any] = {"code": end.code, "message": end.message}
            if end.data:
                error["data"] = end.data
            return {"stopReason": "error", "error": error}
        case _:
            assert_never(end)
