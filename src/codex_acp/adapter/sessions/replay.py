"""``session/load``: the history of a thread, shown to its client before anything live, and what
still runs of it.

Joins the reading (`loading`) with the mapping of each item and with the way to the client.
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
from codex_acp.mapping.items import whole_item
from codex_acp.mapping.messages import notice_of
from codex_acp.mapping.running_calls import still_runs
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
    """The history of one session on its way to ``audience``; ``result`` is of ``thread/resume``.

    What the mapping remembers lasts for one turn, as it does live.
    """

    def __init__(self, audience: SessionClient, session_id: str, result: JsonValue) -> None:
        self._outflow = audience.outflow
        self._client = audience.features
        self._session_id = session_id
        self._answer = result if isinstance(result, dict) else {}
        self._turn_id: str | None = None
        self._kept: Callable[[str], bool] = lambda _: False
        self._state = SessionState(self._client)
        self._below = SubAgentHistories(audience, session_id)
        self.missing: str | None = None
        """Line about what could not be shown."""

    async def run(
        self,
        codex: AppServerConnection,
        running: str | None,
        *,
        kept: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Show all items of the thread, whose turn ``running`` goes on.

        Of turns that are ``kept`` elsewhere only what the person has said. Raises TransportError
        if Codex or the client is gone.
        """
        self._kept = kept
        newest = self._answer.get("itemsBackwardsCursor")
        reader = HistoryReader(
            codex,
            self._session_id,
            lambda item, turn_id: self._show(item, turn_id, running=turn_id == running),
            self._outflow.drained,
            newest if isinstance(newest, str) else None,
        )
        self.missing = await reader.read()
        await self._below.show(codex)

    def end(self, running: str | None) -> SessionState:
        """Say what is missing, and the title; what the turn that runs goes on from."""
        if self.missing is not None:
            self._send(notice_of(self.missing))
        title = title_of(self._answer.get("thread"))
        if title is not None:
            self._send(TitleChanged(title))
        self._outflow.flush()
        goes_on = running is not None and running == self._turn_id
        state = self._state if goes_on else SessionState(self._client)
        state.sub_agents = self._below.agents
        state.titled = title is not None
        return state

    def _show(self, item: ThreadItem, turn_id: str, *, running: bool) -> None:
        if turn_id != self._turn_id:
            self._turn_id, self._state = turn_id, SessionState(self._client)
        self._below.learn(self._session_id, item)
        for event in whole_item(self._state, item, turn_running=running):
            if isinstance(event, UserMessage) or not self._kept(turn_id):
                self._send(event)

    def _send(self, event: SessionEvent) -> None:
        self._outflow.send(self._session_id, event)
        self._below.told(event)


async def left_running(
    codex: AppServerConnection,
    session_id: str,
    state: SessionState | None,
    audience: SessionClient,
    *,
    told: bool,
) -> SessionState | None:
    """Return the mapping's state with the commands that run on while their session is opened anew.

    Codex lists them, and keeps nothing of them in the history as long as they run. ``told``: the
    client hears of them now.
    """
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
