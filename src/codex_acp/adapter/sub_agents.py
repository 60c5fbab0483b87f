"""The sub-agents of one session, at any depth, and how its client is shown each of them.

A client that knows sub-agents' sessions gets one for each; another gets what they do as lines of
the tool call that started them. Owns who hears which thread. What they ask a person, and that they
are interrupted with the session, goes by Codex's own word for who is below whom
(`codex.approvals.running_items`), not by what is shown.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from codex_acp._json import text_at, value_at
from codex_acp.adapter.prompts.turn_events import item_of
from codex_acp.mapping.events import StateChanged
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import MAX_SHOWN, MORE_THAN_SHOWN, NAMING, named_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session_client import Outgoing
    from codex_acp.adapter.shown_sub_agents import NotedSubAgent, NotesOutlet, ShownSubAgent
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import SessionEvent
    from codex_acp.mapping.sub_agents import SubAgentNotes


class SubAgents:
    """``state`` is what the mapping remembers of the session, ``say`` tells its person a line.

    ``may_note`` says whether a tool call of the session may be changed now. ``may_be_below`` says
    whether a thread can be a sub-agent of the session, because a model can name any thread.
    ``earlier`` returns, once, the notifications of a thread that came before it is followed.
    """

    def __init__(
        self,
        session_id: str,
        codex: AppServerConnection,
        outflow: Outgoing,
        state: SessionState,
        *,
        say: Callable[[str], None],
        may_note: Callable[[], bool],
        may_be_below: Callable[[str], bool],
        earlier: Callable[[str], list[tuple[str, JsonValue]]],
    ) -> None:
        self._session_id = session_id
        self._codex = codex
        self._outflow = outflow
        self._state = state
        self._say = say
        self._may_note = may_note
        self._may_be_below = may_be_below
        self._earlier = earlier
        self._sinks: dict[str, ShownSubAgent | NotedSubAgent] = {}
        self.outlets: dict[str, NotesOutlet] = {}
        """By tool call, where lines go; without any there is nothing to be `told`."""
        self._told_of_more = False
        self._changed = asyncio.Event()
        for agent in list(state.sub_agents.values()):  # those of a history
            if may_be_below(agent.thread_id):
                self._follow(agent, announce=False)
            else:
                del state.sub_agents[agent.thread_id]

    def __contains__(self, thread_id: object) -> bool:
        return thread_id in self._state.sub_agents

    def has_started(self, thread_id: str) -> bool:
        """Return whether Codex says that the thread was started here: it is nobody else's then."""
        agent = self._state.sub_agents.get(thread_id)
        return agent is not None and agent.started

    def state(self, thread_id: str) -> StateChanged:
        """Return the activity of a sub-agent."""
        return StateChanged(self._sinks[thread_id].now)

    def forget(self, thread_id: str) -> None:
        """Forget a thread, because it is opened as a session of its own."""
        agent = self._state.sub_agents.pop(thread_id, None)
        if agent is not None:
            if thread_id in self._sinks:  # else the session is just being opened anew
                self._sinks.pop(thread_id).detach()
            for other in self._state.sub_agents.values():
                if other.parent_id == thread_id:  # it may be named again, by one of these
                    other.parent_id = agent.parent_id
            self._wake()

    @property
    def threads(self) -> tuple[str, ...]:
        """Return the threads of all sub-agents."""
        return tuple(self._state.sub_agents)

    def hear(self, thread_id: str, method: str, params: JsonValue) -> None:
        """Follow sub-agents that a notification of the session's thread, or one below, names."""
        if method in NAMING:
            for agent in named_by(thread_id, value_at(params, "item")):
                self._named(agent)

    def told(self, event: SessionEvent) -> None:
        """Note an event for the session's client: it may begin the tool call of a sub-agent."""
        for outlet in self.outlets.values():
            outlet.notes.note_event(event)

    def waiting(self, thread_id: str) -> AbstractContextManager[None]:
        """Show, while the context is open, that a person is asked something for a thread."""
        sink = self._sinks.get(thread_id)
        return nullcontext() if sink is None else sink.waiting()

    def shown_to_another(self) -> None:
        """Show all sub-agents anew: the client is another one."""
        self._leave()
        for agent in list(self._state.sub_agents.values()):
            self._follow(agent, announce=True)

    def move(self, codex: AppServerConnection) -> None:
        """Follow all sub-agents on another app-server, on which none of them runs."""
        self._leave()
        self._codex = codex
        for agent in list(self._state.sub_agents.values()):
            agent.turn_id = None
            self._follow(agent, announce=False)

    @property
    def work(self) -> bool:
        """Return whether anything runs in a sub-agent."""
        return any(agent.turn_id is not None for agent in self._state.sub_agents.values())

    async def settled(self) -> None:
        """Wait until nothing runs in any sub-agent."""
        while self.work:
            await self._changed.wait()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def detach(self) -> None:
        """Follow no sub-agent any more: nobody waits for their end."""
        self._leave()
        for agent in self._state.sub_agents.values():
            agent.turn_id = None
        self._wake()

    def _named(self, agent: SubAgent) -> None:
        known = self._state.sub_agents
        if agent.thread_id == self._session_id:
            return
        if agent.thread_id in known:
            earlier = known[agent.thread_id]
            earlier.started = earlier.started or agent.started
            new_title = agent.title and not earlier.title
            if new_title or (agent.description and not earlier.description):
                earlier.title = earlier.title or agent.title
                earlier.description = earlier.description or agent.description
                self._sinks[earlier.thread_id].announce()
        elif not self._may_be_below(agent.thread_id):
            return
        elif len(known) < MAX_SHOWN:
            known[agent.thread_id] = agent
            self._follow(agent, announce=True)
        elif not self._told_of_more:
            self._told_of_more = True
            self._say(MORE_THAN_SHOWN)

    def _follow(self, agent: SubAgent, *, announce: bool) -> None:
        """Show a sub-agent's thread; ``announce`` the sub-agent to a client that is new to it."""
        from codex_acp.adapter.shown_sub_agents import NotedSubAgent, ShownSubAgent

        above = self._state
        state = SessionState(
            above.client, roots=above.roots, notices=above.notices, is_sub_agent=True
        )
        codex, heard, ended = self._codex, self.hear, self._wake
        sink: ShownSubAgent | NotedSubAgent
        if above.client.subagents:
            sink = ShownSubAgent(agent, codex, self._outflow, state, heard, ended)
        else:
            sink = NotedSubAgent(agent, codex, self._outlet(agent), state, heard, ended)
        self._sinks[agent.thread_id] = sink
        if announce:
            sink.announce()
        earlier = []
        for method, params in self._earlier(agent.thread_id):
            item_id = item_of(params) or text_at(params, "itemId")
            # A history that was read meanwhile may have shown the item.
            if item_id is None or item_id not in agent.replayed:
                earlier.append((method, params))
        sink.follow(earlier)

    def _outlet(self, agent: SubAgent) -> NotesOutlet:
        """Return where a sub-agent's lines go: the session's own tool call above it."""
        from codex_acp.adapter.shown_sub_agents import NotesOutlet
        from codex_acp.mapping.sub_agents import SubAgentNotes

        while agent.parent_id in self._state.sub_agents:
            agent = self._state.sub_agents[agent.parent_id]
        if agent.call_id not in self.outlets:
            notes = SubAgentNotes(agent.call_id)
            self.outlets[agent.call_id] = NotesOutlet(notes, self._send_notes)
        return self.outlets[agent.call_id]

    def _send_notes(self, notes: SubAgentNotes) -> bool:
        told = notes.shown()
        asked = self._state.open_calls.get(told.id)
        if not self._may_note() or (asked is not None and asked.pending):
            return False  # nothing changes the card of an open question
        self._outflow.send(self._session_id, told)
        return True

    def _leave(self) -> None:
        for sink in self._sinks.values():
            sink.detach()
        self._sinks.clear()
