"""Shows what a sub-agent's thread does, while it runs and in the history of a loaded session.

A client that knows sub-agents' sessions is shown one (`ShownSubAgent`); another is shown lines in
the tool call that started the sub-agent (`NotedSubAgent`), and only while a prompt runs: ACP v1 has
no room for them then. Questions to a person belong to the session at the top (contract 3.9).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.prompts.turn_events import turn_of
from codex_acp.adapter.server.held_notifications import deliver
from codex_acp.adapter.sessions.activity import SessionActivity
from codex_acp.adapter.sessions.loading import HistoryReader
from codex_acp.adapter.sessions.shown_thread import ShownThread
from codex_acp.codex._generated import models
from codex_acp.codex._generated.notifications import ItemCompletedEvent
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.events import (
    PromptFailure,
    SessionEvent,
    StateChanged,
    SubAgentChanged,
    TitleChanged,
)
from codex_acp.mapping.items import show_history_item
from codex_acp.mapping.messages import notice_of
from codex_acp.mapping.session import end_of_turn
from codex_acp.mapping.state import SessionState, SubAgent
from codex_acp.mapping.sub_agents import (
    MAX_SHOWN,
    MORE_THAN_SHOWN,
    SubAgentNotes,
    event_in_child,
    named_by,
)
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.session_client import Outgoing, SessionClient
    from codex_acp.codex._generated.models import Turn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import Activity, PromptEnd, SessionEvents

    Names = Callable[[str, str, JsonValue], None]
    """Is given all that is said of a thread: an item may name another sub-agent."""

NOTE_SECONDS: Final = 0.25
"""Seconds for which lines are gathered before the tool call is sent anew."""


class ShownSubAgent:
    """Shows one sub-agent as a session of its own: the notification sink of its thread.

    ``names`` learns of those that it starts, ``ended`` is called when a turn of it is over.
    """

    def __init__(
        self,
        agent: SubAgent,
        codex: AppServerConnection,
        outflow: Outgoing,
        state: SessionState,
        names: Names,
        ended: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._outflow = outflow
        self._names = names
        self._ended = ended
        self._thread = ShownThread(codex, agent.thread_id, state, self)
        self._activity = SessionActivity(self._tell_activity)

    def announce(self) -> None:
        """Tell the client of the sub-agent in the session above, before anything that it does.

        Called again when the session is shown to another client.
        """
        agent, running = self._agent, self._agent.turn_id is not None
        title, description = agent.title, agent.description
        self._tell_parent(SubAgentChanged(agent.thread_id, title, description, stoppable=running))
        if running:
            self._activity.begins()

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Show the ``earlier`` notifications of the thread, then each that comes from now on."""
        deliver(earlier, self._thread)
        self._thread.follow()

    def waiting(self) -> AbstractContextManager[None]:
        """Show, while the context is open, that a person is asked something for the sub-agent."""
        return self._activity.waiting()

    def detach(self) -> None:
        """Follow the thread no longer, and send nothing more of it."""
        self._thread.drop()

    @property
    def now(self) -> Activity:
        """Return its activity."""
        return self._activity.now

    def _tell_parent(self, event: SubAgentChanged) -> None:
        self._outflow.send(self._agent.parent_id, event)

    def _tell_activity(self, activity: StateChanged) -> None:
        """Tell the activity in both sessions, as ACP v2 wants; v1 reads it in the one above."""
        self._outflow.send(self._agent.thread_id, activity)
        stoppable = activity.state != "idle"
        self._tell_parent(
            SubAgentChanged(self._agent.thread_id, state=activity, stoppable=stoppable)
        )

    def _ends(self, end: PromptEnd, turn_id: str | None = None) -> None:
        self._agent.end_turn(turn_id)
        self._activity.ends(end)
        self._outflow.flush()
        self._ended()

    # ThreadOwner

    def on_arrival(self, method: str, params: JsonValue) -> None:
        self._names(self._agent.thread_id, method, params)

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        if method == "turn/started" and self._agent.begin_turn(turn_of(params)):
            self._activity.begins()

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Return True: no prompt of a client depends on its turns."""
        del method, params
        return True

    def may_show_pieces(self, turn_id: str) -> bool:
        del turn_id
        return True

    def send_events(self, events: SessionEvents) -> None:
        for event in events:
            self._outflow.send(self._agent.thread_id, event_in_child(event, self._agent))
            if isinstance(event, TitleChanged) and event.title:
                self._agent.title = event.title
                self._tell_parent(SubAgentChanged(self._agent.thread_id, title=event.title))

    def turn_ended(self, turn: Turn) -> None:
        """Note the end of a turn, which may have begun before the thread was named."""
        self._activity.begins()
        self._ends(end_of_turn(turn, self._thread.state.turn_errors.pop(turn.id, None)), turn.id)

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        message = f"Codex ended the turn in a way that could not be read: {problem}"
        self._thread.close_open()
        self._activity.begins()
        self._ends(PromptFailure(INTERNAL_ERROR, message, {}), turn_of(params))

    def after_read(self) -> None:
        """Do nothing: nothing waits for it."""

    def thread_gone(self, error: TransportError | None) -> None:
        """End what ran in it, which is gone with its app-server."""
        why = "it has ended" if error is None else str(error)
        self._ends(PromptFailure(INTERNAL_ERROR, f"the Codex of this session is gone: {why}", {}))


class NotesOutlet:
    """Sends the lines of one tool call, of all sub-agents that write there."""

    def __init__(self, notes: SubAgentNotes, send: Callable[[SubAgentNotes], bool]) -> None:
        self.notes = notes
        self._send = send
        self._timer: asyncio.TimerHandle | None = None

    def added(self) -> None:
        """Send the lines that were added soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.flush)

    def flush(self) -> None:
        """Send the lines that were added; what cannot be sent now goes with the next ones."""
        if self._timer is None:
            return
        self.drop()
        self._send(self.notes)

    def drop(self) -> None:
        """Send nothing of the lines that were added."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class NotedSubAgent(NotificationSink):
    """Shows one sub-agent as lines in ``outlet``: the notification sink of its thread.

    ``names`` and ``ended`` are those of `ShownSubAgent`, which has the same methods.
    """

    def __init__(
        self,
        agent: SubAgent,
        codex: AppServerConnection,
        outlet: NotesOutlet,
        state: SessionState,
        names: Names,
        ended: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._codex = codex
        self._outlet = outlet
        self._state = state
        self._names = names
        self._ended = ended

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
    def now(self) -> Activity:
        """Return its activity."""
        return "idle" if self._agent.turn_id is None else "running"

    def detach(self) -> None:
        """Follow the thread no longer, and send nothing more of it."""
        self._codex.unsubscribe(self._agent.thread_id, self)
        self._outlet.drop()

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Note what is over: only that is worth a line."""
        self._names(self._agent.thread_id, method, params)
        if method == "turn/started":
            self._agent.begin_turn(turn_of(params))
        elif method == "turn/completed":
            self._over(turn_of(params))
        elif method == "item/completed":
            event = self._codex.decode_notification(method, params)
            if isinstance(event, ItemCompletedEvent):
                item, client = event.params.item, self._state.client
                if self._outlet.notes.add_item(self._agent, item, client):
                    self._outlet.added()

    def on_closed(self, error: TransportError | None) -> None:
        """Do nothing: the session at the top says it."""
        del error
        self._over()

    def _over(self, turn_id: str | None = None) -> None:
        self._agent.end_turn(turn_id)
        self._outlet.flush()
        self._ended()


class SubAgentHistories:
    """Shows the histories of the sub-agents below ``session_id`` to the client ``client``."""

    def __init__(self, client: SessionClient, session_id: str) -> None:
        self._outflow = client.outflow
        self._client = client.features
        self._session_id = session_id
        self.agents: dict[str, SubAgent] = {}
        """All sub-agents that the histories name, in order."""
        self._notes: dict[str, SubAgentNotes] = {}
        self._more = False
        """True if the histories name more sub-agents than are shown."""

    def learn(self, thread_id: str, item: models.ThreadItem) -> None:
        """Note the sub-agents that an item names, before it is shown."""
        if not isinstance(
            item, models.CollabAgentToolCallThreadItem | models.SubAgentActivityThreadItem
        ):
            return
        for agent in named_by(thread_id, plain(item)):
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
        """Note an event of the session's own history: it may begin the tool call of a sub-agent."""
        for notes in self._notes.values():
            notes.note_event(event)

    async def show(self, codex: AppServerConnection) -> None:
        """Show the histories, one by one. Raises TransportError if Codex or the client is gone."""
        shown = 0
        while shown < len(self.agents):  # each may name more
            agent = list(self.agents.values())[shown]
            shown += 1
            if agent.thread_id in codex.opened_threads:
                continue  # it is a session of its own
            show = self._show_session if self._client.subagents else self._show_notes
            await show(codex, agent)
        if self._more:
            self._outflow.send(self._session_id, notice_of(MORE_THAN_SHOWN))

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
            for event in show_history_item(state, item, turn_running=False):
                self._outflow.send(agent.thread_id, event_in_child(event, agent))

        missing = await HistoryReader(codex, agent.thread_id, show, self._outflow.drained).read()
        if missing is not None:
            self._outflow.send(agent.thread_id, notice_of(missing))

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
            wrote = notes.add_item(agent, item, self._client) or wrote

        missing = await HistoryReader(codex, agent.thread_id, show, self._outflow.drained).read()
        if missing is not None:
            notes.add_line(agent, missing)
        if wrote or missing is not None:
            self._outflow.send(self._session_id, notes.shown())
