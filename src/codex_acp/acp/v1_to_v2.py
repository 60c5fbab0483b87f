"""PURE: values of version 1 as those of version 2, and requests of version 2 as those of version 1.

All as plain JSON. What version 2 lacks is left out: modes, terminals and files of the client.
"""

from __future__ import annotations

from difflib import unified_diff
from itertools import count
from typing import Any, Final

Json = dict[str, Any]


def agent_capabilities(said: Json) -> Json:
    """Return an agent's capabilities; all of version 2 list, resume and close sessions."""
    sessions = said.get("sessionCapabilities") or {}
    prompt, mcp = said.get("promptCapabilities") or {}, said.get("mcpCapabilities") or {}
    session: Json = {
        "prompt": {name: {} for name in ("image", "audio", "embeddedContext") if prompt.get(name)},
        "mcp": {"stdio": {}, **({"http": {}} if mcp.get("http") else {})},
        **{name: {} for name in ("delete", "additionalDirectories") if name in sessions},
    }
    meta = {"_meta": said["_meta"]} if "_meta" in said else {}
    return {"session": session, **meta}


def auth_method(method: Json) -> Json:
    """A login; one that has no type is the agent's own."""
    made = {"type": "agent", **_renamed(method, "id", "methodId")}
    if isinstance(made.get("env"), dict):
        made["env"] = [{"name": name, "value": value} for name, value in made["env"].items()]
    return made


def command(given: Json) -> Json:
    """A slash command."""
    made: Json = {"type": "command", **given}
    if isinstance(given.get("input"), dict):
        made["input"] = {"type": "text", **given["input"]}
    return made


def config_option(option: Json) -> Json:
    """A select or a boolean."""
    made = _renamed(option, "id", "configId")
    if "options" in made:
        made["options"] = [_renamed(each, "group", "groupId") for each in made["options"]]
    return made


def mcp_server(server: Json) -> Json:
    """One of version 2 as version 1 has it, where the lists must be there."""
    if server.get("type") == "http":
        return {"headers": [], **server}
    rest = {key: value for key, value in server.items() if key != "type"}
    return {"args": [], "env": [], **rest}


def opened(answer: Json) -> Json:
    """The answer to a session's opening."""
    made = {key: value for key, value in answer.items() if key != "modes"}
    if made.get("configOptions") is not None:
        made["configOptions"] = [config_option(option) for option in made["configOptions"]]
    return made


def content(parts: list[Json]) -> list[Json]:
    """Return the content of a tool call: blocks and diffs."""
    known = {"content": lambda part: part, "diff": _diff}
    return [known[part["type"]](part) for part in parts if part.get("type") in known]


def _diff(part: Json) -> Json:
    path, old, new = part["path"], part.get("oldText"), part["newText"]
    before = "/dev/null" if old is None else path
    lines = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in unified_diff(_lines(old or ""), _lines(new), before, path)
    ]
    kind = "new file mode 100644\n" if old is None else ""
    made: Json = {
        "type": "diff",
        "changes": [{"operation": "add" if old is None else "modify", "path": path}],
    }
    if path.isprintable() and not set(path) & set(' "\\'):  # git quotes any other
        text = f"diff --git {path} {path}\n{kind}{''.join(lines)}"
        made["patch"] = {"format": "git_patch", "text": text}
    return made | ({"_meta": part["_meta"]} if "_meta" in part else {})


def _lines(text: str) -> list[str]:
    """Split at ``\n`` alone, and keep it."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _renamed(value: Json, old: str, new: str) -> Json:
    return {new if key == old else key: inner for key, inner in value.items()}


# PURE: the updates of one session of version 1, in order, as those of version 2, as plain JSON.


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
