"""What a message of the agent needs of the client beyond the baseline of ACP v1.

Reads plain JSON and the published schemas; knows nothing of this library's models or of what it
thinks that a client can do. Sources: schema definition ``ClientCapabilities``, ACP pages
"Initialization", "Elicitation", "Session Config Options", and Zed's convention of ``_meta``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

Json = dict[str, Any]

UNSTABLE_METHODS: Final = frozenset(
    {
        "session/fork",
        "session/set_title",
        "session/archive",
        "session/unarchive",
        "session/status",
        "auth/status",
        "providers/list",
        "providers/set",
        "providers/disable",
    }
)
"""The methods outside the stable schema that our agent offers; any other is a mistake."""

EXTENSIONS: Final = frozenset({"_session/steering"})
"""The methods outside of every schema that our agent offers."""

NOTHING: Final = "no client of ACP v1"
"""Stands for a capability that cannot be advertised."""

_SCHEMAS: Final = Path(__file__).parents[2] / "schema" / "acp"


class Need(NamedTuple):
    """A capability, and what of a message needs it."""

    capability: str
    what: str


_UPDATES: Final[Mapping[str, str]] = {
    "notice": "session.notices",
    "compaction_update": "session.compaction",
    "compaction_summary_chunk": "session.compaction",
    "subagent_update": "subagents",
    "session_message": "subagents",
}
"""Kinds of updates that are not for everybody."""

_METHODS: Final[Mapping[str, str]] = {
    "session/update": "",
    "session/request_permission": "",
    "$/cancel_request": "",
    "auth/status_update": "",
    "elicitation/complete": "elicitation.url",
    "fs/read_text_file": "fs.readTextFile",
    "fs/write_text_file": "fs.writeTextFile",
    "terminal/create": "terminal",
    "terminal/output": "terminal",
    "terminal/wait_for_exit": "terminal",
    "terminal/kill": "terminal",
    "terminal/release": "terminal",
}
"""What an agent may send, and the capability that it needs; ``elicitation/create`` needs a mode."""

_ADVERTISED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "session.notices": lambda c: _is_object(c, "session", "notices"),
    "session.compaction": lambda c: _is_object(c, "session", "compaction"),
    "session.configOptions.boolean": lambda c: _is_object(c, "session", "configOptions", "boolean"),
    "elicitation.form": lambda c: _is_object(c, "elicitation", "form"),
    "elicitation.url": lambda c: _is_object(c, "elicitation", "url"),
    "fs.readTextFile": lambda c: _at(c, "fs", "readTextFile") is True,
    "fs.writeTextFile": lambda c: _at(c, "fs", "writeTextFile") is True,
    "terminal": lambda c: _at(c, "terminal") is True,
    "subagents": lambda c: _is_object(c, "subagents"),
    "auth.terminal": lambda c: (
        _at(c, "auth", "terminal") is True or _is_object(c, "auth", "terminal")
    ),
    "_meta.terminal_output": lambda c: _at(c, "_meta", "terminal_output") is True,
    "_meta.terminal-auth": lambda c: _at(c, "_meta", "terminal-auth") is True,
    NOTHING: lambda c: c is NOTHING,
}
"""Whether ``clientCapabilities`` advertise it; an object that is there does, also an empty one."""


def unadvertised(
    message: Json, asked: str | None, capabilities: object, version: int = 1
) -> list[str]:
    """What is wrong with a message of the agent for a client with these capabilities.

    Of what v1 makes optional, v2 leaves two choices to a client: which elicitations it can show,
    and whether it has a terminal for a login. All else is baseline, or not in the schema.
    """
    found = needs(message, asked) if version == 1 else _needs_of_v2(message, asked)
    return [
        f"{need.what} needs {need.capability}, which the client did not advertise"
        for need in found
        if not _ADVERTISED[need.capability](capabilities)
    ]


def needs(message: Json, asked: str | None) -> Iterator[Need]:
    """What a message of the agent needs; ``asked`` is the method that it answers, if any."""
    method = message.get("method")
    params = message.get("params") or {}
    if method is None:
        yield from _of_result(asked, message.get("result"))
    elif method == "elicitation/create":
        mode = params.get("mode")
        known = f"elicitation.{mode}" in _ADVERTISED
        yield Need(f"elicitation.{mode}" if known else NOTHING, f"an elicitation of mode {mode}")
    elif method not in _METHODS:
        yield Need(NOTHING, method)
    elif _METHODS[method]:
        yield Need(_METHODS[method], method)
    elif method == "session/update":
        yield from _of_update(params.get("update") or {})
    elif method == "session/request_permission":
        yield from _of_tool_call(params.get("toolCall") or {})


def _needs_of_v2(message: Json, asked: str | None) -> Iterator[Need]:
    if message.get("method") == "elicitation/create":
        yield from needs(message, asked)
    elif asked == "initialize" and "result" in message:
        for method in message["result"].get("authMethods") or ():
            if method.get("type") == "terminal":
                yield Need("auth.terminal", f"the login {method.get('methodId')}")


def _of_update(update: Json) -> Iterator[Need]:
    kind = str(update.get("sessionUpdate"))
    if kind in _UPDATES:
        yield Need(_UPDATES[kind], f"an update of kind {kind}")
    elif kind not in _stable_updates():
        yield Need(NOTHING, f"an update of kind {kind}")
    elif kind in ("tool_call", "tool_call_update"):
        yield from _of_tool_call(update)
    elif kind == "config_option_update":
        yield from _of_options(update)


def _of_tool_call(call: Json) -> Iterator[Need]:
    """A terminal of the client's own would need ``terminal/create``, which we never ask for."""
    for part in call.get("content") or ():
        if part.get("type") == "terminal":
            yield Need("_meta.terminal_output", "terminal content")
    for key in call.get("_meta") or ():
        if key.startswith("terminal_"):
            yield Need("_meta.terminal_output", f"_meta.{key}")


def _of_options(holder: Json) -> Iterator[Need]:
    for option in holder.get("configOptions") or ():
        if option.get("type") == "boolean":
            yield Need("session.configOptions.boolean", f"the boolean option {option.get('id')}")


def _of_result(asked: str | None, result: object) -> Iterator[Need]:
    if not isinstance(result, dict):
        return
    if asked not in _stable_methods() | UNSTABLE_METHODS | EXTENSIONS:
        yield Need(NOTHING, f"a result for {asked}")
    yield from _of_options(result)
    for method in result.get("authMethods") or ():
        if method.get("type") == "terminal":
            yield Need("auth.terminal", f"the login {method.get('id')}")
        if "terminal-auth" in (method.get("_meta") or {}):
            yield Need("_meta.terminal-auth", f"the login {method.get('id')}")
    if asked == "initialize":
        # What is advertised of the unstable methods has the shape that their schema gives it.
        misfit = _unstable_misfit(json.dumps(result))
        if misfit is not None:
            yield Need(NOTHING, misfit)


def _at(value: object, *path: str) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _is_object(value: object, *path: str) -> bool:
    return isinstance(_at(value, *path), dict)


@cache
def _definitions(name: str) -> Json:
    schema: Json = json.loads((_SCHEMAS / name).read_text("utf-8"))
    definitions: Json = schema["$defs"]
    return definitions


@cache
def _stable_updates() -> frozenset[str]:
    members = _definitions("v1.json")["SessionUpdate"]["oneOf"]
    return frozenset(member["properties"]["sessionUpdate"]["const"] for member in members)


@cache
def _stable_methods() -> frozenset[str]:
    found = _definitions("v1.json").values()
    return frozenset(each["x-method"] for each in found if "x-method" in each)


@cache
def _unstable_misfit(introduction: str) -> str | None:
    definitions = _definitions("v1_unstable.json")
    schema = {"$ref": "#/$defs/InitializeResponse", "$defs": definitions}
    error = best_match(Draft202012Validator(schema).iter_errors(json.loads(introduction)))
    if error is None:
        return None
    return f"{error.json_path} in the answer of initialize ({error.message})"
