"""``session/load``: what a thread's sub-agents have done, shown behind its own history.

In the form in which it would be shown live; see `SubAgents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.adapter.sessions.loading import HistoryReader
from codex_acp.adapter.sub_agents.sub_agents import MAX_SHOWN, MORE_THAN_SHOWN
from codex_acp.codex._generated import models
from codex_acp.mapping.events.session_events import SessionEvent, SubAgentChanged
from codex_acp.mapping.items import whole_item
from codex_acp.mapping.messages import said
from codex_acp.mapping.session.sub_agents import SubAgentNotes, named_by, told_in_child
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


class SubAgentHistories:
    """Of those below ``session_id``, on their way to ``audience``."""

    def __init__(self, audience: SessionClient, session_id: str) -> None:
        self._outflow = audience.outflow
        self._client = audience.features
        self._session_id = session_id
        self.agents: dict[str, SubAgent] = {}
        """All that the histories name, in order."""
        self._notes: dict[str, SubAgentNotes] = {}
        self._more = False
        """Whether the histories name more than are shown."""

    def learn(self, thread_id: str, item: models.ThreadItem) -> None:
        """An item of the session's thread, or of one below, is about to be shown."""
        if not isinstance(
            item, models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem
        ):
            return
        raw: JsonValue = plain(item)  # type: ignore[assignment] # a model is an object of JSON
        for agent in named_by(thread_id, raw):
            known = self.agents.get(agent.thread_id)
            if known is not None:
                known.title = known.title or agent.title
            elif not agent.started:
                continue  # a model may have named any thread that is stored
            elif agent.thread_id == self._session_id:
                continue
            elif len(self.agents) == MAX_SHOWN:
                self._more = True
            else:
                self.agents[agent.thread_id] = agent
                if not self._client.subagents and thread_id == self._session_id:
                    self._notes[agent.call_id] = SubAgentNotes(agent.call_id)

    def told(self, event: SessionEvent) -> None:
        """The session's own history has told something."""
        for notes in self._notes.values():
            notes.begun_with(event)

    async def show(self, codex: AppServerConnection) -> None:
        """Show them, one after the other. Raises TransportError if Codex or the client is gone."""
        shown = 0
        while shown < len(self.agents):  # each may name more
            agent = list(self.agents.values())[shown]
            shown += 1
            if agent.thread_id in codex.opened_threads:
                continue  # it is a session of its own
            if self._client.subagents:
                await self._show_session(codex, agent)
            else:
                await self._show_notes(codex, agent)
        if self._more:
            self._outflow.send(self._session_id, said(MORE_THAN_SHOWN))

    def _shown(self, agent: SubAgent, item: models.ThreadItem) -> None:
        self.learn(agent.thread_id, item)
        if not isinstance(item, UnknownVariant):
            agent.replayed |= {item.id}

    async def _show_session(self, codex: AppServerConnection, agent: SubAgent) -> None:
        announced = SubAgentChanged(
            agent.thread_id, agent.title, agent.description, stoppable=False
        )
        self._outflow.send(agent.parent_id, announced)
        turn, state = "", SessionState(self._client)

        def show(item: models.ThreadItem, turn_id: str) -> None:
            nonlocal turn, state
            self._shown(agent, item)
            if turn_id != turn:
                turn, state = turn_id, SessionState(self._client)
            for event in whole_item(state, item, turn_running=False):
                self._outflow.send(agent.thread_id, told_in_child(event, agent))

        missing = await HistoryReader(codex, agent.thread_id, show, self._outflow.drained).read()
        if missing is not None:
            self._outflow.send(agent.thread_id, said(missing))

    async def _show_notes(self, codex: AppServerConnection, agent: SubAgent) -> None:
        top = agent
        while top.parent_id in self.agents:
            top = self.agents[top.parent_id]
        notes = self._notes.get(top.call_id)
        if notes is None:
            return
        wrote = False

        def show(item: models.ThreadItem, turn_id: str) -> None:
            nonlocal wrote
            del turn_id
            self._shown(agent, item)
            wrote = notes.add(agent, item, self._client) or wrote

        missing = await HistoryReader(codex, agent.thread_id, show, self._outflow.drained).read()
        if missing is not None:
            notes.say(agent, missing)
        if wrote or missing is not None:
            self._outflow.send(self._session_id, notes.shown())
