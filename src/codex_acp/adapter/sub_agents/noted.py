"""A sub-agent's thread, shown as lines in the tool call that started it: see `SubAgentNotes`.

Nothing is shown while no prompt of the session runs: ACP v1 has no room for it then.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.prompts.turn_events import turn_of
from codex_acp.adapter.server.held_notifications import hand_over
from codex_acp.codex._generated.notifications import ItemCompletedEvent
from codex_acp.codex.connection.notification_router import NotificationSink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.sub_agents.shown_session import Names
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.session_events import Activity
    from codex_acp.mapping.session.sub_agents import SubAgentNotes
    from codex_acp.mapping.state import SessionState, SubAgent

NOTE_SECONDS: Final = 0.25
"""How long lines are gathered before the tool call is sent anew."""


class NotesOutlet:
    """Sends the lines of one tool call, of all sub-agents that write there."""

    def __init__(self, notes: SubAgentNotes, send: Callable[[SubAgentNotes], bool]) -> None:
        self.notes = notes
        self._send = send
        self._timer: asyncio.TimerHandle | None = None

    def added(self) -> None:
        """There are lines to be sent soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTE_SECONDS, self.flush)

    def flush(self) -> None:
        """Send what was added; if it cannot be sent now it goes with the next."""
        if self._timer is None:
            return
        self.drop()
        self._send(self.notes)

    def drop(self) -> None:
        """Send nothing of what was added."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class NotedSubAgent(NotificationSink):
    """``agent`` on ``codex``, a sink of its thread; see `ShownSubAgent`."""

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
        """Announce the sub-agent, as `SubAgentSink` does: the tool call does that."""

    def follow(self, earlier: Sequence[tuple[str, JsonValue]]) -> None:
        """Follow the thread, as `SubAgentSink` does."""
        hand_over(earlier, self)
        self._codex.subscribe(self._agent.thread_id, self)

    def waiting(self) -> AbstractContextManager[None]:
        """Count a question that waits, as `SubAgentSink` does: the session at the top says so."""
        return nullcontext()

    @property
    def now(self) -> Activity:
        """Return its activity, as `SubAgentSink` does."""
        return "idle" if self._agent.turn_id is None else "running"

    def detach(self) -> None:
        self._codex.unsubscribe(self._agent.thread_id, self)
        self._outlet.drop()

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Note what is over: only that is worth a line."""
        self._names(self._agent.thread_id, method, params)
        if method == "turn/started":
            self._agent.began(turn_of(params))
        elif method == "turn/completed":
            self._over(turn_of(params))
        elif method == "item/completed":
            event = self._codex.decode_notification(method, params)
            if isinstance(event, ItemCompletedEvent):
                item, client = event.params.item, self._state.client
                if self._outlet.notes.add(self._agent, item, client):
                    self._outlet.added()

    def on_closed(self, error: TransportError | None) -> None:
        """Do nothing: the session at the top says it."""
        del error
        self._over()

    def _over(self, turn_id: str | None = None) -> None:
        self._agent.ended(turn_id)
        self._outlet.flush()
        self._ended()
