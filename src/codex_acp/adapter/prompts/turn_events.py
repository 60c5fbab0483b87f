"""Read from raw params what a thread's notifications mean for its turns.

That works also if the rest of a notification does not fit the schema: a prompt must return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._json import object_at, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.adapter.session.driver import SessionDriver
    from codex_acp.jsonrpc.message import JsonValue

_STOPPED: Final = frozenset({"idle", "systemError", "notLoaded"})
"""Statuses of a thread in which none of its turns runs."""


def turn_of(params: JsonValue) -> str | None:
    """Return the id of a notification's turn: ``turnId``, or ``turn.id``. Accepts any params."""
    return text_at(params, "turnId") or text_at(params, "turn", "id")


def item_of(params: JsonValue) -> str | None:
    """Return the id of the item in a notification about an item."""
    return text_at(params, "item", "id")


def _turn_started(driver: SessionDriver, params: JsonValue) -> None:
    turn_id = turn_of(params)
    turn = object_at(params, "turn")
    if turn_id is not None:
        # Codex 0.147 does not name the root turn: then it is the running one.
        root_id = text_at(turn, "rootTurnId") if "rootTurnId" in turn else driver.running_turn
        driver.turn_began(turn_id, root_id)


def _item_started(driver: SessionDriver, params: JsonValue) -> None:
    item, turn_id = object_at(params, "item"), turn_of(params)
    if item.get("type") == "userMessage":
        message_id = text_at(item, "clientId")
        if message_id is not None and turn_id is not None:
            driver.message_read(message_id, turn_id)
    elif item.get("type") == "contextCompaction":
        if turn_id is not None:
            driver.compaction_began(turn_id)
    elif item.get("type") == "commandExecution":
        item_id = text_at(item, "id")
        if item_id is not None:
            driver.command_began(item_id)


def _item_completed(driver: SessionDriver, params: JsonValue) -> None:
    item_id = item_of(params)
    if item_id is not None:
        driver.command_ended(item_id)


def _status_changed(driver: SessionDriver, params: JsonValue) -> None:
    if text_at(params, "status", "type") in _STOPPED:
        driver.thread_stopped()


def _closed(driver: SessionDriver, params: JsonValue) -> None:
    del params
    driver.thread_stopped()


TURN_EVENTS: Final[Mapping[str, Callable[[SessionDriver, JsonValue], None]]] = {
    "turn/started": _turn_started,
    "item/started": _item_started,
    "item/completed": _item_completed,
    "thread/status/changed": _status_changed,
    "thread/closed": _closed,
}
"""Method → what it means for turns. Without ``turn/completed``, which must be shown first."""
