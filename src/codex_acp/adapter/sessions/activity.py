"""The activity of sub-agents, and of sessions before they are open."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from codex_acp.mapping.events import Activity, PromptEnd, PromptStop, StateChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SessionActivity:
    """Activity of a sub-agent, or of a session before it is open. The activity of an open session
    is in its `SessionMachine`. ``send`` is called with each change."""

    def __init__(self, send: Callable[[StateChanged], None]) -> None:
        self.send = send
        self._has_turn = False
        self._questions = 0
        self._sent: Activity = "idle"

    @property
    def now(self) -> Activity:
        """Return the activity; a turn that waits for an answer requires action."""
        if not self._has_turn:
            return "idle"
        return "requires_action" if self._questions else "running"

    def turn_runs(self) -> None:
        """Note that a turn runs; a second call for a turn changes nothing."""
        self._has_turn = True
        self._send_if_changed()

    def turn_ended(self, end: PromptEnd) -> None:
        """Note that the turn is over; send ``end`` once."""
        if self._has_turn:
            self._has_turn = False
            self._sent = "idle"
            self.send(StateChanged("idle", end))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a question to the person as open, in a ``with`` block."""
        self._questions += 1
        self._send_if_changed()
        try:
            yield
        finally:
            self._questions -= 1
            self._send_if_changed()

    @contextmanager
    def asking_first(self) -> Iterator[None]:
        """Count a question of a session that is not open yet as a turn, in a ``with`` block."""
        self.turn_runs()
        try:
            with self.waiting():
                yield
        finally:
            self.turn_ended(PromptStop("end_turn"))

    def _send_if_changed(self) -> None:
        if self.now != self._sent:
            self._sent = self.now
            self.send(StateChanged(self._sent))
