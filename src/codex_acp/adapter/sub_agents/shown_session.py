"""A sub-agent's thread, shown as a session of its own below the one that started it.

What it asks a person is asked in the session at the top (contract 3.9); here is only what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codex_acp.adapter.prompts.turn_events import turn_of
from codex_acp.adapter.server.held_notifications import hand_over
from codex_acp.adapter.sessions.activity import SessionActivity
from codex_acp.adapter.sessions.shown_thread import ShownThread
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.events.session_events import (
    PromptFailure,
    StateChanged,
    SubAgentChanged,
    TitleChanged,
)
from codex_acp.mapping.session.states import end_of_turn
from codex_acp.mapping.session.sub_agents import told_in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from codex_acp.adapter.session_client import Outgoing
    from codex_acp.codex._generated.models import Turn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import Activity, PromptEnd, SessionEvents
    from codex_acp.mapping.state import SessionState, SubAgent

    Names = Callable[[str, str, JsonValue], None]
    """Is given all that is said of a thread: an item may name another sub-agent."""


class SubAgentSink(Protocol):
    """Follows a sub-agent's thread, in whichever form it is shown."""

    def announce(self) -> None:
        """Tell the client of it, before anything that it does; again to another client."""

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Hear what was said of it earlier, then what comes from now on."""

    def waiting(self) -> AbstractContextManager[None]:
        """While a person is asked something for it."""

    def detach(self) -> None:
        """Hear and send nothing more of it."""

    @property
    def now(self) -> Activity:
        """Return its activity."""


class ShownSubAgent:
    """``agent`` on ``codex``, a sink of its thread.

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
        """Announce the sub-agent, as `SubAgentSink` does: told in the session above."""
        agent, running = self._agent, self._agent.turn_id is not None
        title, description = agent.title, agent.description
        self._tell_parent(SubAgentChanged(agent.thread_id, title, description, stoppable=running))
        if running:
            self._activity.begins()

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Follow the thread, as `SubAgentSink` does."""
        hand_over(earlier, self._thread)
        self._thread.follow()

    def waiting(self) -> AbstractContextManager[None]:
        return self._activity.waiting()

    def detach(self) -> None:
        self._thread.drop()

    @property
    def now(self) -> Activity:
        """Return its activity, as `SubAgentSink` does."""
        return self._activity.now

    def _tell_parent(self, event: SubAgentChanged) -> None:
        self._outflow.send(self._agent.parent_id, event)

    def _tell_activity(self, activity: StateChanged) -> None:
        """ACP v2 wants it in both sessions, v1 in the one above."""
        self._outflow.send(self._agent.thread_id, activity)
        stoppable = activity.state != "idle"
        self._tell_parent(
            SubAgentChanged(self._agent.thread_id, state=activity, stoppable=stoppable)
        )

    def _ends(self, end: PromptEnd, turn_id: str | None = None) -> None:
        self._agent.ended(turn_id)
        self._activity.ends(end)
        self._outflow.flush()
        self._ended()

    # ThreadOwner

    def on_arrival(self, method: str, params: JsonValue) -> None:
        self._names(self._agent.thread_id, method, params)

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        if method == "turn/started" and self._agent.began(turn_of(params)):
            self._activity.begins()

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Return True: no prompt of a client depends on its turns."""
        del method, params
        return True

    def may_show_pieces(self, turn_id: str) -> bool:
        del turn_id
        return True

    def tell(self, told: SessionEvents) -> None:
        for event in told:
            self._outflow.send(self._agent.thread_id, told_in_child(event, self._agent))
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
