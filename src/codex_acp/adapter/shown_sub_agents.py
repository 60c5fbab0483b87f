"""Show what a sub-agent does while it runs.

A client with the feature ``subagents`` gets a session for each sub-agent (`ShownSubAgent`). Other
clients get lines in the tool call that started the sub-agent (`NotedSubAgent`), but only while a
prompt runs, as ACP v1 wants. The session at the top asks the person the sub-agents' questions
(contract 3.9).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.server.held_notifications import deliver
from codex_acp.adapter.sessions.activity import SessionActivity
from codex_acp.adapter.sessions.shown_thread import ShownThread, ThreadHost, turn_of
from codex_acp.codex._generated.notifications import ItemCompletedEvent
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.events import PromptFailure, StateChanged, SubAgentChanged, TitleChanged
from codex_acp.mapping.session import end_of_shown_turn
from codex_acp.mapping.sub_agents import SubAgentNotes, as_event_of_sub_agent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.session_client import SessionOutflow
    from codex_acp.codex._generated import models
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import Activity, PromptEnd, SessionEvents
    from codex_acp.mapping.state import SessionState, SubAgent

    FollowNamed = Callable[[str, str, JsonValue], None]
    """Follows the sub-agents that a notification names (thread, method, params)."""

NOTE_SECONDS: Final = 0.25
"""Seconds for which lines are gathered before an update of the tool call is sent."""


class ShownSubAgent(ThreadHost):
    """Shows one sub-agent as a session of its own. No prompt of a client waits for its turns.

    ``state`` is the state of the sub-agent alone. ``follow_named`` is called with each
    notification, ``on_turn_end`` when a turn has ended, ``on_activity`` when the activity was sent.
    """

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
        """Announce the sub-agent in its parent's session, before any event of its own; again for
        another client, or when the title becomes known."""
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
        self._activity.send = lambda _: None  # its open questions are settled later

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
        """End the turn that ran, because its app-server is gone."""
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
    """Shows one sub-agent as lines in ``outlet``; has the methods and parameters of
    `ShownSubAgent`."""

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
