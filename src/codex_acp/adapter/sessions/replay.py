"""Replay a thread's history for ``session/load``, and show the thread's background commands.

The history is shown before any live event. `loading` reads the items, the mapping makes events.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.sessions.loading import HistoryReader
from codex_acp.adapter.shown_sub_agents import SubAgentHistories
from codex_acp.codex._generated.models import CommandExecutionThreadItem
from codex_acp.errors import CodexAcpError
from codex_acp.mapping.events import SessionEvent, TitleChanged, UserMessage
from codex_acp.mapping.items import show_history_item
from codex_acp.mapping.messages import make_notice
from codex_acp.mapping.running_calls import show_running
from codex_acp.mapping.session import title_of
from codex_acp.mapping.state import SessionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.codex._generated.models import ThreadItem
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)


class Replay:
    """Replay of one session's history to ``client``; ``result`` is the result of ``thread/resume``.
    Each turn has a `SessionState` of its own."""

    def __init__(self, client: SessionClient, session_id: str, result: JsonValue) -> None:
        self._outflow = client.outflow
        self._features = client.features
        self._session_id = session_id
        self._result = result if isinstance(result, dict) else {}
        self._turn_id: str | None = None
        self._state = SessionState(self._features)
        self._sub_agents = SubAgentHistories(client, session_id)
        self.missing: str | None = None
        """Text about the parts that could not be shown."""

    async def run(
        self,
        codex: AppServerConnection,
        running_turn_id: str | None,
        *,
        has_turn: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Show all items of the thread; ``running_turn_id`` is None if no turn runs.

        ``has_turn`` returns whether the journal of a network session has a turn's events: then only
        the turn's user messages are shown. Raises TransportError if Codex or the client is gone.
        """
        cursor = self._result.get("itemsBackwardsCursor")
        reader = HistoryReader(
            codex,
            self._session_id,
            show=lambda item, turn_id: self._show(item, turn_id, running_turn_id, has_turn),
            page_shown=self._outflow.drained,
            newest=cursor if isinstance(cursor, str) else None,
        )
        self.missing = await reader.read()
        await self._sub_agents.show(codex)

    def end(self, running_turn_id: str | None) -> SessionState:
        """Send `missing` and the title; return the running turn's mapping state, or a new one."""
        if self.missing is not None:
            self._send(make_notice(self.missing))
        title = title_of(self._result.get("thread"))
        if title is not None:
            self._send(TitleChanged(title))
        self._outflow.flush()
        turn_runs = running_turn_id is not None and running_turn_id == self._turn_id
        state = self._state if turn_runs else SessionState(self._features)
        state.sub_agents = self._sub_agents.agents
        state.has_title = title is not None
        return state

    def _show(
        self,
        item: ThreadItem,
        turn_id: str,
        running_turn_id: str | None,
        has_turn: Callable[[str], bool],
    ) -> None:
        if turn_id != self._turn_id:
            self._turn_id, self._state = turn_id, SessionState(self._features)
        self._sub_agents.learn(self._session_id, item)
        for event in show_history_item(self._state, item, turn_running=turn_id == running_turn_id):
            if isinstance(event, UserMessage) or not has_turn(turn_id):
                self._send(event)

    def _send(self, event: SessionEvent) -> None:
        self._outflow.send(self._session_id, event)
        self._sub_agents.note_event(event)


async def add_background_commands(
    codex: AppServerConnection,
    session_id: str,
    state: SessionState | None,
    client: SessionClient,
    *,
    with_history: bool,
) -> SessionState | None:
    """Return the mapping's state with the commands that run while the session is opened again.

    The history has no commands that run, so Codex is asked for a list. Sends the commands to the
    client if ``with_history``, or if the client shows the agent's terminals.
    """
    shown = with_history or client.features.agent_terminals
    try:
        terminals = await TurnCalls(codex, session_id).background_terminals()
    except CodexAcpError as error:
        logger.warning("session %s: what runs in the background is unknown: %s", session_id, error)
        return state
    for terminal in terminals:
        state = state or SessionState(client.features)
        item = CommandExecutionThreadItem(
            id=terminal.item_id, command=terminal.command, cwd=terminal.cwd,
            process_id=terminal.process_id, command_actions=[], status="inProgress",
            source="unifiedExecStartup",  # as of every command that Codex leaves in the background
        )  # fmt: skip
        events = show_running(state, item)
        if shown:
            for event in events:
                client.outflow.send(session_id, event)
    return state
