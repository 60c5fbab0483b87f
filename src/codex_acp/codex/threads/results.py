"""Collect the notifications of a turn into its result: items, text, usage and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from codex_acp.codex._generated import models, notifications

if TYPE_CHECKING:
    from collections.abc import Container

    from codex_acp.codex._generated.models import (
        ThreadItem,
        ThreadTokenUsage,
        TurnError,
        TurnStatus,
    )
    from codex_acp.codex._generated.models import Turn as TurnInfo
    from codex_acp.codex._generated.notifications import ServerNotification

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunResult(Generic[T]):
    """The result of a turn."""

    thread_id: str
    turn_id: str
    status: TurnStatus
    """``completed``; in `TurnUnfinished.result` ``failed``, ``interrupted`` or ``inProgress``."""
    text: str
    """The agent's final answer, else its last message; empty if there was no message."""
    output: T
    """The text parsed as the ``output_type`` of `Thread.run`; None without an ``output_type``."""
    items: tuple[ThreadItem, ...]
    """All items of the turn in the order of their start, each as Codex last reported it."""
    usage: ThreadTokenUsage | None
    """Tokens, as last reported: of the whole thread, and of its last request to the model."""
    error: TurnError | None
    """Error of a turn that failed, else None."""
    turn: TurnInfo | None
    """The turn as Codex reported it at the end, with its times; None while the turn runs."""


class TurnRecord:
    """Collects the notifications of one turn. A turn in ``ended_by_older_error`` was reported with
    the error of an earlier turn, and counts as completed."""

    def __init__(self, thread_id: str, ended_by_older_error: Container[str] = ()) -> None:
        self._thread_id = thread_id
        self._ended_by_older_error = ended_by_older_error
        self._items: dict[str, ThreadItem] = {}
        self._usage: ThreadTokenUsage | None = None
        self.final_turn: TurnInfo | None = None
        """The turn as Codex reported it at the end; None while the turn runs."""

    def add(self, event: ServerNotification) -> None:
        """Add the next notification of the turn; the caller leaves out other turns."""
        match event:
            case notifications.ItemStartedEvent() | notifications.ItemCompletedEvent():
                item_id = getattr(event.params.item, "id", None)
                # An unknown item may have no id: each report of the item then counts as an item.
                key = item_id if isinstance(item_id, str) else f"item {len(self._items)}"
                self._items[key] = event.params.item
            case notifications.ThreadTokenUsageUpdatedEvent(params=usage):
                self._usage = usage.token_usage
            case notifications.TurnCompletedEvent(params=end):
                self.final_turn = end.turn
                if end.turn.id in self._ended_by_older_error:
                    completed = {"status": "completed", "error": None}
                    self.final_turn = end.turn.model_copy(update=completed)
            case notifications.UnknownNotification(method="turn/completed"):
                why = f"Codex ended the turn in a way that could not be read: {event.problem}"
                error = models.TurnError(message=why)
                turn_id = turn_of(event) or ""
                self.final_turn = models.Turn(id=turn_id, items=[], status="failed", error=error)

    def result(self, turn_id: str) -> RunResult[None]:
        """Return the result so far."""
        final = self.final_turn
        return RunResult(
            thread_id=self._thread_id,
            turn_id=turn_id,
            status="inProgress" if final is None else final.status,
            text=self.text,
            output=None,
            items=tuple(self._items.values()),
            usage=self._usage,
            error=None if final is None else final.error,
            turn=final,
        )

    @property
    def text(self) -> str:
        """Return `RunResult.text`, ignoring messages whose ``phase`` marks them as comments."""
        last = ""
        for item in reversed(self._items.values()):
            if not isinstance(item, models.AgentMessageThreadItem):
                continue
            if item.phase == "final_answer":
                return item.text
            if item.phase is None and not last:
                last = item.text
        return last


def turn_of(event: ServerNotification) -> str | None:
    """Return the id of the turn that a notification names; None if it names none."""
    if isinstance(event, notifications.UnknownNotification):
        params = event.params if isinstance(event.params, dict) else {}
        turn = params.get("turn")
        turn_id = turn.get("id") if isinstance(turn, dict) else params.get("turnId")
    else:
        turn = getattr(event.params, "turn", None)
        turn_id = getattr(event.params, "turn_id", None) if turn is None else turn.id
    return turn_id if isinstance(turn_id, str) else None
