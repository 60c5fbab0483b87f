"""Commands that run on in the background while their session is opened anew in the same process.

Codex lists them, and keeps nothing of them in the history as long as they run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.codex._generated.models import CommandExecutionThreadItem
from codex_acp.errors import CodexAcpError
from codex_acp.mapping.calls.running_calls import still_runs
from codex_acp.mapping.state import SessionState

if TYPE_CHECKING:
    from codex_acp.adapter.audience import Audience
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

logger = logging.getLogger(__name__)


async def left_running(
    codex: AppServerConnection,
    session_id: str,
    state: SessionState | None,
    audience: Audience,
    *,
    told: bool,
) -> SessionState | None:
    """Return the mapping's state with these commands. ``told``: the client hears of them now."""
    try:
        terminals = await TurnCalls(codex, session_id).background_terminals()
    except CodexAcpError as error:
        logger.warning("session %s: what runs in the background is unknown: %s", session_id, error)
        return state
    for terminal in terminals:
        state = state or SessionState(audience.features)
        item = CommandExecutionThreadItem(
            id=terminal.item_id,
            command=terminal.command,
            cwd=terminal.cwd,
            process_id=terminal.process_id,
            command_actions=[],
            status="inProgress",
            source="unifiedExecStartup",
        )
        events = still_runs(state, item)
        for event in events if told else ():
            audience.outflow.send(session_id, event)
    return state
