"""Read from raw params what a thread's notifications mean for its turns.

That works also if the rest of a notification does not fit the schema: a prompt must return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, text_at
from codex_acp.adapter.session import events as ev

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

TURN_METHODS: Final = frozenset(
    {"turn/started", "item/started", "item/completed", "thread/status/changed", "thread/closed"}
)
"""Notifications of turns, without ``turn/completed``, which must be shown first."""

_STOPPED: Final = frozenset({"idle", "systemError", "notLoaded"})
"""Statuses of a thread in which none of its turns runs."""


def turn_of(params: JsonValue) -> str | None:
    """Return the id of a notification's turn: ``turnId``, or ``turn.id``. Accepts any params."""
    return text_at(params, "turnId") or text_at(params, "turn", "id")


def item_of(params: JsonValue) -> str | None:
    """Return the id of the item in a notification about an item."""
    return text_at(params, "item", "id")


def turn_event(method: str, params: JsonValue, running: str | None) -> ev.CodexEvent | None:
    """Return the event that a notification of `TURN_METHODS` is; ``running``: the turn that runs.

    None: it means nothing for turns.
    """
    turn_id, item_id = turn_of(params), item_of(params)
    match method, text_at(params, "item", "type"):
        case "turn/started", _ if turn_id is not None:
            turn = object_at(params, "turn")
            # Codex 0.147 does not name the root turn: then it is the running one.
            root_id = text_at(turn, "rootTurnId") if "rootTurnId" in turn else running
            return ev.TurnBegan(turn_id, root_id)
        case "item/started", "userMessage":
            message_id = text_at(params, "item", "clientId")
            if message_id is not None and turn_id is not None:
                return ev.MessageRead(message_id, turn_id)
        case "item/started", "contextCompaction" if turn_id is not None:
            return ev.CompactionBegan(turn_id)
        case "item/started", "commandExecution" if item_id is not None:
            return ev.CommandBegan(item_id)
        case "item/completed", _ if item_id is not None:
            return ev.CommandEnded(item_id)
        case "thread/status/changed", _ if text_at(params, "status", "type") in _STOPPED:
            return ev.ThreadStopped()
        case "thread/closed", _:
            return ev.ThreadStopped()
    return None
