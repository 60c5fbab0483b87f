"""Read the events about turns from the raw params of a thread's notifications.

Params that do not fit the schema still give events, because a prompt must always return.
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
"""Notifications about turns, except ``turn/completed``, which is handled after it is shown."""

_STOPPED: Final = frozenset({"idle", "systemError", "notLoaded"})
"""Statuses of a thread without a running turn."""


def turn_of(params: JsonValue) -> str | None:
    """Return the id of a notification's turn: ``turnId``, or ``turn.id``."""
    return text_at(params, "turnId") or text_at(params, "turn", "id")


def item_of(params: JsonValue) -> str | None:
    return text_at(params, "item", "id")


def turn_event(method: str, params: JsonValue, running: str | None) -> ev.CodexEvent | None:
    """Return the event of a notification of `TURN_METHODS`, None if turns do not depend on it.
    ``running`` is the id of the turn that runs."""
    turn_id, item_id = turn_of(params), item_of(params)
    match method, text_at(params, "item", "type"):
        case "turn/started", _ if turn_id is not None:
            turn = object_at(params, "turn")
            # Codex 0.147 does not name the root turn, which is then the running turn.
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
