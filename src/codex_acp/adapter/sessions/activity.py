"""Tells a client the activity of a session: running, waiting, idle."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from codex_acp.mapping.events import Activity, PromptEnd, PromptStop, StateChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.prompts.turn_calls import TurnCalls
    from codex_acp.mapping.state import SessionState


class SessionActivity:
    """Of a sub-agent, or of a session that is being opened: of one that is open, its machine says
    it. ``tell`` is called with each change, in order."""

    def __init__(self, tell: Callable[[StateChanged], None]) -> None:
        self._tell = tell
        self._works = False
        self._questions = 0
        self._told: Activity = "idle"

    @property
    def now(self) -> Activity:
        """Return its activity: Codex asks from within its turn, and waits for the answer."""
        if not self._works:
            return "idle"
        return "requires_action" if self._questions else "running"

    def begins(self) -> None:
        """A turn runs."""
        self._works = True
        self._look()

    def ends(self, end: PromptEnd) -> None:
        """That is over; said once, with why."""
        if self._works:
            self._works = False
            self._told = "idle"
            self._tell(StateChanged("idle", end))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While a person is asked something."""
        self._questions += 1
        self._look()
        try:
            yield
        finally:
            self._questions -= 1
            self._look()

    @contextmanager
    def asking_first(self) -> Iterator[None]:
        """While a person is asked before a session is open."""
        self.begins()
        try:
            with self.waiting():
                yield
        finally:
            self.ends(PromptStop("end_turn"))

    def _look(self) -> None:
        if self.now != self._told:
            self._told = self.now
            self._tell(StateChanged(self._told))


async def stop_command(state: SessionState, calls: TurnCalls, call_id: str) -> bool:
    """End the command of a tool call that runs; whether there was one that could be ended."""
    open_call = state.open_calls.get(call_id)
    item = state.background.get(call_id) if open_call is None else open_call.item
    process_id = getattr(item, "process_id", None)
    if process_id is None:
        return False
    state.cancelled_calls.add(call_id)  # before Codex tells what came of it
    stopped = False
    try:
        stopped = await calls.terminate(process_id)
    finally:
        if not stopped:
            state.cancelled_calls.discard(call_id)
    return stopped
