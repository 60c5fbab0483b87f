"""What a session, or one of its sub-agents, is doing: as JSON, alike in every version of ACP.

Source: schema ``StateUpdate``, ``SubagentUpdate``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from codex_acp.mapping.session.stop_reasons import PromptFailure, PromptStop

if TYPE_CHECKING:
    from codex_acp.mapping.events.session_events import StateChanged, SubAgentChanged
    from codex_acp.mapping.session.stop_reasons import PromptEnd


def state_of(event: StateChanged) -> dict[str, Any]:
    """``StateUpdate``."""
    state: dict[str, Any] = {"state": event.state}
    if event.end is not None:
        state |= _stop(event.end)
    if event.background is not None:
        state["background"] = [{"type": "terminal", "terminalId": t} for t in event.background]
    return state


def sub_agent_of(event: SubAgentChanged) -> dict[str, Any]:
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
