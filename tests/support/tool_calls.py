"""A client's picture of its tool calls, and items as notifications: for tests of the mapping.

`Folded` does what ACP v1 asks of a client: given fields replace, lists as a whole.
"""

from __future__ import annotations

from typing import Any, Final

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.methods import MODELS
from codex_acp.mapping.items import show_history_item
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import completed, started
from tests.support.updates import step, wired

Json = dict[str, Any]

ZED: Final = ClientFeatures(terminal_output_meta=True)
"""A client that takes command output in ``_meta``."""


class Folded:
    """Tool calls by id, as a client without memory of the past knows them."""

    def __init__(self, client: ClientFeatures) -> None:
        self.client = client
        self.calls: dict[str, Json] = {}
        self.announced: list[str] = []
        self.terminals: dict[str, str] = {}

    def take(self, updates: list[Json]) -> None:
        """Apply updates. Raises AssertionError for one that a client could not understand."""
        for update in updates:
            kind = update["sessionUpdate"]
            if kind not in ("tool_call", "tool_call_update"):
                continue
            fields = {key: value for key, value in update.items() if key != "sessionUpdate"}
            self._check_terminal(update)
            call_id = fields.pop("toolCallId")
            meta = fields.pop("_meta", {})
            if kind == "tool_call":
                self.announced.append(call_id)
                self.calls[call_id] = fields
            else:
                self.patch(call_id, fields)
            self._terminal(meta)

    def patch(self, call_id: str, fields: Json) -> None:
        """Fields of a ``tool_call_update``, or of a permission request's tool call."""
        assert call_id in self.calls, f"{call_id} was never announced"
        given = {key: value for key, value in fields.items() if value is not None}
        self.calls[call_id] = self.calls[call_id] | given

    def _terminal(self, meta: Json) -> None:
        output = meta.get("terminal_output")
        if output is not None:
            at = output["terminal_id"]
            self.terminals[at] = self.terminals.get(at, "") + output["data"]

    def _check_terminal(self, update: Json) -> None:
        if not self.client.terminal_output_meta:
            assert not [key for key in update.get("_meta") or {} if key.startswith("terminal_")]
            assert all(part["type"] != "terminal" for part in update.get("content") or ())


def start(state: SessionState, item: Json) -> list[Json]:
    """``item/started`` → updates as written."""
    return step(state, *started(item))


def complete(state: SessionState, item: Json) -> list[Json]:
    """``item/completed`` → updates as written."""
    return step(state, *completed(item))


def item_of(item: Json) -> Any:
    """The item as a model."""
    return MODELS.decode("ItemStartedNotification", started(item)[1], "item/started").item


def replayed(state: SessionState, item: Json, *, turn_running: bool = False) -> list[Json]:
    """The item as one of a thread's history → updates as written."""
    return wired(state, show_history_item(state, item_of(item), turn_running=turn_running))


def text_of(call: Json) -> str:
    """All text of a tool call's content."""
    return "\n".join(
        part["content"]["text"]
        for part in call.get("content", ())
        if part["type"] == "content" and part["content"]["type"] == "text"
    )
