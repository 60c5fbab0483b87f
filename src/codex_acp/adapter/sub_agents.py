"""The sub-agents of one session, at any depth, and the sinks that show them to the client.

A client with the feature ``subagents`` gets a session for each sub-agent. Other clients get lines
in the tool call that started the sub-agent. Owns the sinks. `codex.approvals.running_items` decides
which questions and interrupts concern a sub-agent, by Codex's reports of which thread started
which.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp.adapter.sessions.shown_thread import item_of
from codex_acp.mapping.events import StateChanged
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import MAX_SHOWN, MORE_THAN_SHOWN, NAMING, agents_named_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session_client import SessionOutflow
    from codex_acp.adapter.shown_sub_agents import NotedSubAgent, NotesOutlet, ShownSubAgent
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import SessionEvent
    from codex_acp.mapping.sub_agents import SubAgentNotes

    OnSubAgent: TypeAlias = Callable[[str, str], None]
    """Called with the thread of a new sub-agent that Codex names, and the thread above it."""


class SubAgents:
    """The sub-agents below ``session_id``. ``say`` sends a notice to the session's client.

    ``state`` is the mapping's state of the session. ``may_change_call`` returns whether a tool call
    of the session may be changed now. ``may_be_below`` returns whether a thread can be a sub-agent
    of the session, because a model can name any thread. ``take_held`` removes and returns the held
    notifications of a thread."""

    def __init__(
        self,
        session_id: str,
        codex: AppServerConnection,
        outflow: SessionOutflow,
        state: SessionState,
        *,
        say: Callable[[str], None],
        may_change_call: Callable[[], bool],
        may_be_below: Callable[[str], bool],
        on_found: OnSubAgent,
        take_held: Callable[[str], list[tuple[str, JsonValue]]],
    ) -> None:
        self._session_id = session_id
        self._codex = codex
        self._outflow = outflow
        self._state = state
        self._say = say
        self._may_change_call = may_change_call
        self._may_be_below = may_be_below
        self._on_found = on_found
        self.on_activity: Callable[[], None] = lambda: None
        """Called when a change of a sub-agent's own session was sent; set by `Session`."""
        self._take_held = take_held
        self._sinks: dict[str, ShownSubAgent | NotedSubAgent] = {}
        self._outlets: dict[str, NotesOutlet] = {}
        """The outlet of each tool call that gets lines."""
        self._more_reported = False
        self._turn_over = asyncio.Event()
        """Set, and replaced by a new event, when a turn of any sub-agent is over."""
        for agent in list(state.sub_agents.values()):  # the history has named them
            if may_be_below(agent.thread_id):
                self._follow(agent, announce=False)
            else:
                del state.sub_agents[agent.thread_id]

    def __contains__(self, thread_id: object) -> bool:
        return thread_id in self._state.sub_agents

    def has_started(self, thread_id: str) -> bool:
        """Return whether, according to Codex, this session started the thread."""
        agent = self._state.sub_agents.get(thread_id)
        return agent is not None and agent.started

    def state(self, thread_id: str) -> StateChanged:
        return StateChanged(self._sinks[thread_id].activity)

    @property
    def working(self) -> list[str]:
        """Return the ids of the sub-agents right below the session that work, if they are sessions
        to the client."""
        if not self._state.features.subagents:
            return []
        agents = self._state.sub_agents
        return [
            thread_id
            for thread_id, sink in self._sinks.items()
            if agents[thread_id].parent_id == self._session_id and sink.activity != "idle"
        ]

    def forget(self, thread_id: str) -> None:
        """Forget a thread, because it is opened as a session of its own."""
        agent = self._state.sub_agents.pop(thread_id, None)
        if agent is not None:
            if thread_id in self._sinks:  # none while the root session is opened again
                self._sinks.pop(thread_id).detach()
            for other in self._state.sub_agents.values():
                if other.parent_id == thread_id:
                    other.parent_id = agent.parent_id
            self._wake()

    @property
    def threads(self) -> tuple[str, ...]:
        """Ids of the threads of all sub-agents."""
        return tuple(self._state.sub_agents)

    def follow_named(self, thread_id: str, method: str, params: JsonValue) -> None:
        """Follow the sub-agents that a notification of the session or of a sub-agent names."""
        if method in NAMING:
            for agent in agents_named_by(thread_id, value_at(params, "item")):
                self._add(agent)

    def note_event(self, event: SessionEvent) -> None:
        """Note an event for the session's client, which may begin the tool call of a sub-agent."""
        for outlet in self._outlets.values():
            outlet.notes.note_event(event)

    def waiting(self, thread_id: str) -> AbstractContextManager[None]:
        """Show, within the context, that a thread waits for the person."""
        sink = self._sinks.get(thread_id)
        return nullcontext() if sink is None else sink.waiting()

    def announce_again(self) -> None:
        """Announce all sub-agents again, to another client."""
        self._detach_sinks()
        for agent in list(self._state.sub_agents.values()):
            self._follow(agent, announce=True)

    def move(self, codex: AppServerConnection) -> None:
        """Follow all sub-agents on another app-server, on which none of them runs."""
        self._detach_sinks()
        self._codex = codex
        for agent in list(self._state.sub_agents.values()):
            agent.turn_id = None
            self._follow(agent, announce=False)

    @property
    def busy(self) -> bool:
        """Whether a turn of any sub-agent runs."""
        return any(agent.turn_id is not None for agent in self._state.sub_agents.values())

    async def wait_idle(self) -> None:
        """Wait until no sub-agent's turn runs."""
        while self.busy:
            await self._turn_over.wait()

    def _wake(self) -> None:
        self._turn_over.set()
        self._turn_over = asyncio.Event()

    def detach(self) -> None:
        """Stop following all sub-agents, and wake `wait_idle`."""
        self._detach_sinks()
        for agent in self._state.sub_agents.values():
            agent.turn_id = None
        self._wake()

    def _add(self, agent: SubAgent) -> None:
        """Follow a sub-agent that was named; if it is known, complete the missing fields."""
        all_known = self._state.sub_agents
        if agent.thread_id == self._session_id:
            return
        known = all_known.get(agent.thread_id)
        if known is not None:
            known.started = known.started or agent.started
            new_title = agent.title and not known.title
            if new_title or (agent.description and not known.description):
                known.title = known.title or agent.title
                known.description = known.description or agent.description
                self._sinks[known.thread_id].announce()
            return
        if not self._may_be_below(agent.thread_id):
            return
        self._on_found(agent.thread_id, agent.parent_id)
        if len(all_known) < MAX_SHOWN:
            all_known[agent.thread_id] = agent
            self._follow(agent, announce=True)
        elif not self._more_reported:
            self._more_reported = True
            self._say(MORE_THAN_SHOWN)

    def _follow(self, agent: SubAgent, *, announce: bool) -> None:
        """Follow a sub-agent's thread; ``announce``: the client does not know the sub-agent yet."""
        from codex_acp.adapter.shown_sub_agents import NotedSubAgent, ShownSubAgent

        above = self._state
        state = SessionState(
            above.features,
            roots=above.roots,
            elsewhere=above.elsewhere,
            notices=above.notices,
            is_sub_agent=True,
        )
        codex, follow_named, wake = self._codex, self.follow_named, self._wake
        sink: ShownSubAgent | NotedSubAgent
        if above.features.subagents:
            sink = ShownSubAgent(
                agent,
                codex,
                self._outflow,
                state,
                follow_named,
                wake,
                lambda: self.on_activity(),  # noqa: PLW0108 - set later
            )
        else:
            sink = NotedSubAgent(agent, codex, self._outlet(agent), state, follow_named, wake)
        self._sinks[agent.thread_id] = sink
        if announce:
            sink.announce()
        not_shown = []
        for method, params in self._take_held(agent.thread_id):
            item_id = item_of(params) or text_at(params, "itemId")
            # A history that was read meanwhile may have shown the item already.
            if item_id is None or item_id not in agent.replayed:
                not_shown.append((method, params))
        sink.follow(not_shown)

    def _outlet(self, agent: SubAgent) -> NotesOutlet:
        """Return the outlet of a sub-agent's lines: the session's tool call that started the
        sub-agent or, for a sub-agent of a sub-agent, the topmost sub-agent above."""
        from codex_acp.adapter.shown_sub_agents import NotesOutlet
        from codex_acp.mapping.sub_agents import SubAgentNotes

        while agent.parent_id in self._state.sub_agents:
            agent = self._state.sub_agents[agent.parent_id]
        if agent.call_id not in self._outlets:
            notes = SubAgentNotes(agent.call_id)
            self._outlets[agent.call_id] = NotesOutlet(notes, self._send_notes)
        return self._outlets[agent.call_id]

    def _send_notes(self, notes: SubAgentNotes) -> None:
        """Send the lines, unless no prompt runs, or the person is asked about the tool call."""
        change = notes.shown()
        call = self._state.open_calls.get(change.id)
        if self._may_change_call() and (call is None or not call.pending):
            self._outflow.send(self._session_id, change)

    def _detach_sinks(self) -> None:
        for sink in self._sinks.values():
            sink.detach()
        self._sinks.clear()
