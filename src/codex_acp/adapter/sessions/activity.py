"""The activity of a session without a machine, and the stop of a command."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from codex_acp.mapping.events import Activity, PromptEnd, PromptStop, StateChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.prompts.turn_calls import TurnCalls
    from codex_acp.mapping.state import SessionState


class SessionActivity:
    """Activity of a sub-agent, or of a session that is being opened. (The machine of an open
    session has that session's activity.) ``send`` is called with each change."""

    def __init__(self, send: Callable[[StateChanged], None]) -> None:
        self._send = send
        self._works = False
        self._questions = 0
        self._sent: Activity = "idle"

    @property
    def now(self) -> Activity:
        """Return the activity; a question is asked within a turn, which waits for the answer."""
        if not self._works:
            return "idle"
        return "requires_action" if self._questions else "running"

    def begins(self) -> None:
        """Note that a turn runs."""
        self._works = True
        self._send_if_changed()

    def ends(self, end: PromptEnd) -> None:
        """Note that the turn is over; send ``end`` once."""
        if self._works:
            self._works = False
            self._sent = "idle"
            self._send(StateChanged("idle", end))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a question to the person as open in a ``with`` block."""
        self._questions += 1
        self._send_if_changed()
        try:
            yield
        finally:
            self._questions -= 1
            self._send_if_changed()

    @contextmanager
    def asking_first(self) -> Iterator[None]:
        """Count a question before a session is open in a ``with`` block."""
        self.begins()
        try:
            with self.waiting():
                yield
        finally:
            self.ends(PromptStop("end_turn"))

    def _send_if_changed(self) -> None:
        if self.now != self._sent:
            self._sent = self.now
            self._send(StateChanged(self._sent))


async def stop_command(state: SessionState, calls: TurnCalls, call_id: str) -> bool:
    """End the command of a tool call; return whether it ran and Codex ended it."""
    open_call = state.open_calls.get(call_id)
    item = state.background.get(call_id) if open_call is None else open_call.item
    process_id = getattr(item, "process_id", None)
    if process_id is None:
        return False
    state.cancelled_calls.add(call_id)  # before Codex reports the command's end
    stopped = False
    try:
        stopped = await calls.terminate(process_id)
    finally:
        if not stopped:
            state.cancelled_calls.discard(call_id)
    return stopped
