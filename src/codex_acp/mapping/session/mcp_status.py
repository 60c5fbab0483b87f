"""MCP servers: a person hears of those that did not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.mapping.messages.lines import say_once

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import McpServerStatusUpdatedNotification
    from codex_acp.mapping.events.session_events import SessionEvents
    from codex_acp.mapping.state import SessionState

_SIGN_IN = "reauthenticationRequired"


def startup_status_updated(
    state: SessionState, params: McpServerStatusUpdatedNotification
) -> SessionEvents:
    """``mcpServer/startupStatus/updated`` → a line if the server failed, with its error.

    A server that is ready may fail again, and that is news again.
    """
    key = ("mcpServer", params.name)
    if params.status == "ready":
        for said in [said for said in state.said if said[:2] == key]:
            del state.said[said]
    if params.status != "failed":
        return ()
    reason = params.failure_reason
    why = ": sign in to it again" if reason == _SIGN_IN else f": {reason}" if reason else ""
    text = f'The MCP server "{params.name}" did not start{why}'
    return say_once(state, text, "error", params.error, key=(*key, text, params.error))
