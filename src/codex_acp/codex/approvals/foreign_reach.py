"""PURE: which turns have reached for threads of other sessions, or began because of that.

Where Codex runs the hook that refuses such a call, none does (`codex.connection.agent_guard`).
Where it runs no hooks, both turns are to be interrupted (contract 3.9c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codex_acp._last_ones import LastOnes
from codex_acp.codex._generated.notifications import (
    ItemCompletedEvent,
    ItemStartedEvent,
    TurnStartedEvent,
)
from codex_acp.codex.approvals.running_items import MAX_ENDED

if TYPE_CHECKING:
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.approvals.running_items import Items


class Reach(NamedTuple):
    """A turn to be interrupted; ``others`` are the threads that its model has reached for, none if
    it began because of such a call."""

    thread_id: str
    turn_id: str
    others: tuple[str, ...]


class ForeignReach:
    """Follows one connection; `Items` is told of each notification first."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._fed: set[tuple[str, str, str]] = set()
        """Idle threads to whose agents another session's model has just written, each with the
        thread and the item of the call."""
        self.reached: LastOnes[str, tuple[str, ...]] = LastOnes(MAX_ENDED)
        """Turns that were to be interrupted, with the threads that they have reached for."""

    def apply(self, event: ServerNotification) -> Reach | None:
        """Return the turn that is to be interrupted now, if any."""
        if isinstance(event, ItemStartedEvent):
            return self._called(event)
        if isinstance(event, ItemCompletedEvent):
            if getattr(event.params.item, "status", None) == "failed":
                self._forget(event.params.thread_id, getattr(event.params.item, "id", None))
        elif isinstance(event, TurnStartedEvent):
            thread, turn = event.params.thread_id, event.params.turn.id
            fed = {each for each in self._fed if each[0] == thread}
            if fed:
                self._fed -= fed
                return self._noted(thread, turn, ())
        return None

    def _called(self, event: ItemStartedEvent) -> Reach | None:
        thread, turn, item = event.params.thread_id, event.params.turn_id, event.params.item
        others = self._items.reached_elsewhere(thread, item)
        if not others:
            return None
        if getattr(item, "tool", None) == "sendInput":
            idle = (each for each in others if self._items.running_turn(each) is None)
            self._fed.update((each, thread, getattr(item, "id", "")) for each in idle)
        if turn in self.reached:  # an interrupt that is sent twice would end the next turn
            return None
        return self._noted(thread, turn, tuple(others))

    def _noted(self, thread: str, turn: str, others: tuple[str, ...]) -> Reach:
        self.reached[turn] = others
        return Reach(thread, turn, others)

    def _forget(self, thread: str, item: str | None) -> None:
        """The call has failed: nothing begins because of it."""
        self._fed -= {each for each in self._fed if each[1:] == (thread, item)}
