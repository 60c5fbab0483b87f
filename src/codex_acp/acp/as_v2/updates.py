"""PURE: the updates of one session of version 1, in order, as those of version 2, as plain JSON.

In version 2 every piece of a message has the message's id: pieces that follow each other are one.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from codex_acp.acp.as_v2.values import command, config_option, content

Json = dict[str, Any]

_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")

_SAME: Final = (
    "session_info_update", "usage_update", "notice", "compaction_update", "plan_update",
    "plan_removed",
)  # fmt: skip
"""Kinds that both versions write alike."""


class Updates:
    """Translates the updates of one session."""

    def __init__(self) -> None:
        self._message: tuple[str, str] | None = None
        """Kind and id of the message whose pieces come."""
        self._numbers = count(1)
        self._titles: dict[str, str] = {}
        """Tool calls that were announced, and what they are called."""

    def title_of(self, call: Json) -> str:
        """Return the title of the tool call that a question is about."""
        return str(call.get("title") or self._titles.get(call["toolCallId"]) or "Allow this?")

    def translated(self, update: Json) -> Json | None:
        """Return an update as version 2 has it; None: that version has nothing of the kind."""
        kind = update["sessionUpdate"]
        if kind in _CHUNKS:
            return {**update, "messageId": update.get("messageId") or self._id_of(kind)}
        if kind in _SAME:
            return update
        self._message = None
        match kind:
            case "tool_call" | "tool_call_update":
                return {**self.tool_call(update), "sessionUpdate": "tool_call_update"}
            case "plan":
                plan = {"type": "items", "planId": "plan", "entries": update["entries"]}
                return {"sessionUpdate": "plan_update", "plan": plan}
            case "available_commands_update":
                return {**update, "availableCommands": [*map(command, update["availableCommands"])]}
            case "config_option_update":
                return {**update, "configOptions": [*map(config_option, update["configOptions"])]}
        return None

    def tool_call(self, call: Json) -> Json:
        """Return an update of a tool call, ``pending`` until version 1 sends another status."""
        call_id = call["toolCallId"]
        made = {key: value for key, value in call.items() if value is not None}
        if made.get("content") is not None:
            made["content"] = content(made["content"])
        if call.get("sessionUpdate") == "tool_call":
            made.setdefault("status", "pending")
        if "title" in made:
            self._titles[call_id] = made["title"]
        return made

    def ended(self) -> None:
        """End the open messages: the next chunk begins a new one."""
        self._message = None

    def _id_of(self, kind: str) -> str:
        if self._message is None or self._message[0] != kind:
            self._message = (kind, f"{kind.removesuffix('_chunk')}-{next(self._numbers)}")
        return self._message[1]
