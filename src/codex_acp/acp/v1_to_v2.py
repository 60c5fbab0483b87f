"""PURE: convert plain JSON between versions of ACP: the messages of an agent from version 1 to 2,
and the client's MCP servers from 2 to 1.

Leaves out what version 2 lacks: modes, and the terminals and files of the client. Must not know
connections or which sessions are open.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from itertools import count
from typing import Any, Final

from codex_acp._json import with_key_renamed, without_none

Json = dict[str, Any]


def agent_capabilities(capabilities: Json) -> Json:
    """Convert capabilities, but not ``list``, ``resume`` and ``close``: each agent of version 2 has
    these."""
    old_session = capabilities.get("sessionCapabilities") or {}
    prompt = capabilities.get("promptCapabilities") or {}
    mcp = capabilities.get("mcpCapabilities") or {}
    new_session: Json = {
        "prompt": {name: {} for name in ("image", "audio", "embeddedContext") if prompt.get(name)},
        "mcp": {"stdio": {}, **({"http": {}} if mcp.get("http") else {})},
        **{name: {} for name in ("delete", "additionalDirectories") if name in old_session},
    }
    meta = {"_meta": capabilities["_meta"]} if "_meta" in capabilities else {}
    return {"session": new_session, **meta}


def auth_method(method: Json) -> Json:
    """Convert a login method; without a type, the method is ``agent``: the agent runs the login."""
    converted = {"type": "agent", **with_key_renamed(method, "id", "methodId")}
    if isinstance(converted.get("env"), dict):
        variables = converted["env"].items()
        converted["env"] = [{"name": name, "value": value} for name, value in variables]
    return converted


def command(offered: Json) -> Json:
    """Convert a slash command."""
    converted: Json = {"type": "command", **offered}
    if isinstance(offered.get("input"), dict):
        converted["input"] = {"type": "text", **offered["input"]}
    return converted


def config_option(option: Json) -> Json:
    """Convert a select or a boolean option."""
    converted = with_key_renamed(option, "id", "configId")
    if "options" in converted:
        converted["options"] = [
            with_key_renamed(choice, "group", "groupId") for choice in converted["options"]
        ]
    return converted


def mcp_server(server: Json) -> Json:
    """Convert an MCP server to version 1, which requires ``headers``, or ``args`` and ``env``."""
    if server.get("type") == "http":
        return {"headers": [], **server}
    rest = {key: value for key, value in server.items() if key != "type"}
    return {"args": [], "env": [], **rest}


def session_result(result: Json) -> Json:
    """Convert the result of ``session/new``, ``load``, ``resume`` or ``set_config_option``."""
    converted = {key: value for key, value in result.items() if key != "modes"}
    if converted.get("configOptions") is not None:
        converted["configOptions"] = [*map(config_option, converted["configOptions"])]
    return converted


_LINE: Final = re.compile("[^\n]*\n|[^\n]+")
"""A line with its ``\\n``, if it has one; no other character ends a line."""


def _diff(part: Json) -> Json:
    """Convert a diff, with a git patch if the path needs no quotes in the patch's header."""
    path, old, new = part["path"], part.get("oldText"), part["newText"]
    is_new = old is None
    converted: Json = {
        "type": "diff",
        "changes": [{"operation": "add" if is_new else "modify", "path": path}],
    }
    # git would quote unprintable characters, `"` and `\`; a space makes the header ambiguous.
    if path.isprintable() and not set(path) & set(' "\\'):
        from_path = "/dev/null" if is_new else path
        lines = [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in unified_diff(_LINE.findall(old or ""), _LINE.findall(new), from_path, path)
        ]
        mode = "new file mode 100644\n" if is_new else ""
        # ACP's ``git_patch`` has absolute paths, without git's prefixes ``a/`` and ``b/``.
        text = f"diff --git {path} {path}\n{mode}{''.join(lines)}"
        converted["patch"] = {"format": "git_patch", "text": text}
    return converted | ({"_meta": part["_meta"]} if "_meta" in part else {})


_CHUNKS: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_KINDS_OF_BOTH: Final = (
    "session_info_update", "usage_update", "notice", "compaction_update", "plan_update",
    "plan_removed",
)  # fmt: skip
"""Kinds of updates that are the same in both versions. A message whose chunks have no ids goes on
after such an update; any other update ends the message."""


class UpdatesToV2:
    """Converts the updates of one session, in order."""

    def __init__(self) -> None:
        self._message: tuple[str, str] | None = None
        """Kind and made-up id of the message whose chunks arrive without an id."""
        self._numbers = count(1)
        self._titles: dict[str, str] = {}
        """Id of a tool call → its last title."""

    def title_of(self, call: Json) -> str:
        """Return the title of the tool call that a permission request is about."""
        return str(call.get("title") or self._titles.get(call["toolCallId"]) or "Allow this?")

    def convert(self, update: Json) -> Json | None:
        """Convert an update; return None for a kind that version 2 lacks."""
        kind = update["sessionUpdate"]
        if kind in _CHUNKS:
            return {**update, "messageId": update.get("messageId") or self._made_up_id(kind)}
        if kind in _KINDS_OF_BOTH:
            return update
        self._message = None  # every kind below ends the message
        match kind:
            case "tool_call" | "tool_call_update":
                return {**self.convert_tool_call(update), "sessionUpdate": "tool_call_update"}
            case "plan":
                plan = {"type": "items", "planId": "plan", "entries": update["entries"]}
                return {"sessionUpdate": "plan_update", "plan": plan}
            case "available_commands_update":
                return {**update, "availableCommands": [*map(command, update["availableCommands"])]}
            case "config_option_update":
                return {**update, "configOptions": [*map(config_option, update["configOptions"])]}
        return None

    def convert_tool_call(self, call: Json) -> Json:
        """Convert an update of a tool call; a new one is ``pending`` if it has no status."""
        # null changes nothing in version 1, but clears a field in version 2.
        converted = without_none(call)
        if converted.get("content") is not None:  # version 2 has no terminals of the client
            pieces = [p for p in converted["content"] if p.get("type") in ("content", "diff")]
            converted["content"] = [_diff(p) if p["type"] == "diff" else p for p in pieces]
        if call.get("sessionUpdate") == "tool_call":
            converted.setdefault("status", "pending")
        if "title" in converted:
            self._titles[call["toolCallId"]] = converted["title"]
        return converted

    def end_message(self) -> None:
        """End the message whose chunks lack ids: the next such chunk begins a new message."""
        self._message = None

    def _made_up_id(self, kind: str) -> str:
        if self._message is None or self._message[0] != kind:
            self._message = (kind, f"{kind.removesuffix('_chunk')}-{next(self._numbers)}")
        return self._message[1]
