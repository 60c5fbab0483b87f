"""The sub-agents of one session, at any depth, and the sinks that show them to the client.

A client with the feature ``subagents`` gets a session for each sub-agent (`ShownSubAgent`). Other
clients get lines in the tool call that started the sub-agent (`NotedSubAgent`), but only while a
prompt runs, as ACP v1 wants. The session at the top asks the person the sub-agents' questions
(contract 3.9). Owns the sinks. `codex.approvals.running_items` decides which questions and
interrupts concern a sub-agent, by Codex's reports of which thread started which.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp._json import text_at, value_at
from codex_acp.adapter.server.threadless_notifications import deliver
from codex_acp.adapter.sessions.activity import SessionActivity
from codex_acp.adapter.sessions.shown_thread import ShownThread, ThreadHost, item_of, turn_of
from codex_acp.codex._generated.notifications import ItemCompletedEvent
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.jsonrpc import INTERNAL_ERROR
from codex_acp.mapping.events import PromptFailure, StateChanged, SubAgentChanged, TitleChanged
from codex_acp.mapping.session import end_of_shown_turn
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import (
    MAX_SHOWN,
    MORE_THAN_SHOWN,
    NAMING,
    SubAgentNotes,
    agents_named_by,
    as_event_of_sub_agent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.session_client import SessionOutflow
    from codex_acp.codex._generated import models
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.events import Activity, PromptEnd, SessionEvent, SessionEvents

    OnSubAgent: TypeAlias = Callable[[str, str], None]
    """Called with the thread of a new sub-agent that Codex names, and the thread above it."""
    FollowNamed = Callable[[str, str, JsonValue], None]
    """Follows the sub-agents that a notification names (thread, method, params)."""


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
        """Id of a tool call that gets lines → its outlet."""
        self._more_reported = False
        self._turn_over = asyncio.Event()
        """Set for a moment when a turn of any sub-agent is over."""
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
        """Return the sub-agents right below the session that work and are shown as sessions."""
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
        self._turn_over.clear()

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


NOTE_SECONDS: Final = 0.25
"""Seconds for which lines are gathered before an update of the tool call is sent."""


class ShownSubAgent(ThreadHost):
    """Shows one sub-agent as a session of its own. No prompt of a client waits for its turns.

    ``state`` is the state of the sub-agent alone. ``follow_named`` is called with each
    notification, ``on_turn_end`` after a turn's end, ``on_activity`` when the activity was sent."""

    def __init__(
        self,
        agent: SubAgent,
        codex: AppServerConnection,
        outflow: SessionOutflow,
        state: SessionState,
        follow_named: FollowNamed,
        on_turn_end: Callable[[], None],
        on_activity: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._outflow = outflow
        self._follow_named = follow_named
        self._on_turn_end = on_turn_end
        self._on_activity = on_activity
        self._thread = ShownThread(codex, agent.thread_id, state, self)
        self._activity = SessionActivity(self._send_activity)

    def announce(self) -> None:
        """Announce the sub-agent in its parent's session, before any event of the sub-agent. Called
        again for another client, and when the sub-agent gets a title."""
        agent, running = self._agent, self._agent.turn_id is not None
        title, description = agent.title, agent.description
        self._send_to_parent(
            SubAgentChanged(agent.thread_id, title, description, stoppable=running)
        )
        if running:
            self._activity.turn_runs()

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Show the ``earlier`` notifications of the thread, then each that comes from now on."""
        deliver(earlier, self._thread)
        self._thread.follow()

    def waiting(self) -> AbstractContextManager[None]:
        """Show, within the context, that the sub-agent waits for the person."""
        self._activity.turn_runs()  # its turn may have begun before the thread was followed
        return self._activity.waiting()

    def detach(self) -> None:
        """Stop following the thread, and send no more of its events."""
        self._thread.stop_showing()
        self._activity.send = lambda _: None  # open questions of the sub-agent are settled later

    @property
    def activity(self) -> Activity:
        return self._activity.now

    def _send_to_parent(self, event: SubAgentChanged) -> None:
        self._outflow.send(self._agent.parent_id, event)

    def _send_activity(self, activity: StateChanged) -> None:
        """Send the activity to both sessions, as ACP v2 wants; v1 clients see only the parent's."""
        self._outflow.send(self._agent.thread_id, activity)
        stoppable = activity.state != "idle"
        self._send_to_parent(
            SubAgentChanged(self._agent.thread_id, state=activity, stoppable=stoppable)
        )
        self._on_activity()

    def _end_turn(self, end: PromptEnd, turn_id: str | None = None) -> None:
        self._agent.end_turn(turn_id)
        self._activity.turn_ended(end)
        self._outflow.flush()
        self._on_turn_end()

    # Methods of `ThreadHost`, which has their docstrings, for `ShownThread`

    def on_arrival(self, method: str, params: JsonValue) -> None:
        self._follow_named(self._agent.thread_id, method, params)

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        if method == "turn/started":
            is_running = self._agent.begin_turn(turn_of(params))
            if is_running:
                self._activity.turn_runs()

    def send_events(self, events: SessionEvents) -> None:
        for event in events:
            self._outflow.send(self._agent.thread_id, as_event_of_sub_agent(event, self._agent))
            if isinstance(event, TitleChanged) and event.title:
                self._agent.title = event.title
                self._send_to_parent(SubAgentChanged(self._agent.thread_id, title=event.title))

    def turn_ended(self, turn: models.Turn) -> None:
        self._activity.turn_runs()  # the turn may have begun before the thread was followed
        self._end_turn(end_of_shown_turn(self._thread.state, turn), turn.id)

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        message = f"Codex ended the turn in a way that could not be read: {problem}"
        self._thread.end_open_calls()
        self._activity.turn_runs()
        self._end_turn(PromptFailure(INTERNAL_ERROR, message, {}), turn_of(params))

    def thread_gone(self, error: TransportError | None) -> None:
        """End the turn that ran, because its app-server has ended."""
        why = "it has ended" if error is None else str(error)
        message = f"the Codex of this session is gone: {why}"
        self._end_turn(PromptFailure(INTERNAL_ERROR, message, {}))


class NotesOutlet:
    """Sends the lines that sub-agents add to one tool call. While the tool call must not change,
    ``send`` sends nothing; a later call sends all lines."""

    def __init__(self, notes: SubAgentNotes, send: Callable[[SubAgentNotes], None]) -> None:
        self.notes = notes
        self._send = send
        self._timer: asyncio.TimerHandle | None = None

    def send_soon(self) -> None:
        """Send the added lines after `NOTE_SECONDS`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.flush)

    def flush(self) -> None:
        """Send the lines if the timer runs: only then were lines added since the last time."""
        if self._timer is not None:
            self.stop_timer()
            self._send(self.notes)

    def stop_timer(self) -> None:
        """Leave the added lines for the next `flush` or `send_soon`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class NotedSubAgent(NotificationSink):
    """Shows one sub-agent as lines in ``outlet``, with the methods of `ShownSubAgent`."""

    def __init__(
        self,
        agent: SubAgent,
        codex: AppServerConnection,
        outlet: NotesOutlet,
        state: SessionState,
        follow_named: FollowNamed,
        on_turn_end: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._codex = codex
        self._outlet = outlet
        self._state = state
        self._follow_named = follow_named
        self._on_turn_end = on_turn_end

    def announce(self) -> None:
        """Do nothing: the tool call announces the sub-agent."""

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Note the ``earlier`` notifications of the thread, then each that comes from now on."""
        deliver(earlier, self)
        self._codex.subscribe(self._agent.thread_id, self)

    def waiting(self) -> AbstractContextManager[None]:
        """Do nothing: the session at the top shows that a question waits."""
        return nullcontext()

    @property
    def activity(self) -> Activity:
        return "idle" if self._agent.turn_id is None else "running"

    def detach(self) -> None:
        """Stop following the thread, and send no more of its lines."""
        self._codex.unsubscribe(self._agent.thread_id, self)
        self._outlet.stop_timer()

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Add a line for a completed item."""
        self._follow_named(self._agent.thread_id, method, params)
        if method == "turn/started":
            self._agent.begin_turn(turn_of(params))
        elif method == "turn/completed":
            self._end_turn(turn_of(params))
        elif method == "item/completed":
            event = self._codex.decode_notification(method, params)
            if isinstance(event, ItemCompletedEvent):
                item, features = event.params.item, self._state.features
                if self._outlet.notes.add_item(self._agent, item, features):
                    self._outlet.send_soon()

    def on_closed(self, error: TransportError | None) -> None:
        """End the turn that ran; the session at the top reports the error."""
        del error
        self._end_turn()

    def _end_turn(self, turn_id: str | None = None) -> None:
        self._agent.end_turn(turn_id)
        self._outlet.flush()
        self._on_turn_end()
