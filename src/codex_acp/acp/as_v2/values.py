"""PURE: values of version 1 as those of version 2, and requests of version 2 as those of version 1.

All as plain JSON. What version 2 lacks is left out: modes, terminals and files of the client.
"""

from __future__ import annotations

from difflib import unified_diff
from typing import Any

Json = dict[str, Any]


def agent_capabilities(said: Json) -> Json:
    """Return an agent's capabilities; sessions are listed, resumed and closed by every agent of
    version 2."""
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
    """Only ``\\n`` ends one."""
    parts = text.split("\n")
    last = parts.pop()
    return [f"{part}\n" for part in parts] + ([last] if last else [])


def _renamed(value: Json, old: str, new: str) -> Json:
    return {new if key == old else key: inner for key, inner in value.items()}
