"""PURE: values of version 2 as those of version 1, as plain JSON; and back, where they are sent.

None: version 1 has nothing of the kind. Nobody is told that a value is what it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp._generated.v1.methods import STABLE_MODELS
from codex_acp.errors import InvalidPayload

if TYPE_CHECKING:
    from codex_acp.wire.model import WireModel

Json = dict[str, Any]

_PLAN_STATUSES: Final = ("pending", "in_progress", "completed")


def as_json(model: WireModel) -> Json:
    """A model as plain JSON data under its wire names: what was set, nothing else."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True, serialize_as_any=True)


def fitting(name: str, value: object) -> Any:
    """``value`` as a model of version 1; None if it does not fit."""
    try:
        return STABLE_MODELS.decode(name, value, name)
    except InvalidPayload:
        return None


def each(make: Callable[[Json], Json | None], values: object) -> list[Json]:
    """Those of a list that version 1 has."""
    return list(_each(make, values))


def _each(make: Callable[[Json], Json | None], values: object) -> Iterator[Json]:
    if isinstance(values, Sequence):
        for value in values:
            made = make(value) if isinstance(value, dict) else None
            if made is not None:
                yield made


def config_option(option: Json) -> Json | None:
    """A select or a boolean; their ids have other names."""
    if option.get("type") not in ("select", "boolean"):
        return None
    made = _renamed(option, "configId", "id")
    if "options" in made:
        made["options"] = [_renamed(each, "groupId", "group") for each in made["options"]]
    return made


def command(given: Json) -> Json | None:
    """A command with free text behind it, or with nothing."""
    if given.get("type") != "command":
        return None
    made = {key: value for key, value in given.items() if key not in ("type", "input")}
    text = given.get("input")
    if isinstance(text, Mapping) and text.get("type") == "text":
        made["input"] = {key: value for key, value in text.items() if key != "type"}
    return made


def auth_method(method: Json) -> Json | None:
    """A login that the agent runs, or one in a terminal."""
    made = _renamed(method, "methodId", "id")
    if method.get("type") == "agent":
        del made["type"]
        return made
    if method.get("type") != "terminal":
        return None
    made["env"] = {each["name"]: each["value"] for each in method.get("env") or ()}
    return made


def agent_capabilities(said: Json, *, has_logins: bool) -> Json:
    """Those of an agent; what is baseline in version 2 is said in version 1."""
    made: Json = {key: said[key] for key in ("_meta",) if key in said}
    if has_logins:
        made["auth"] = {"logout": {}}
    session = said.get("session")
    if not isinstance(session, dict):
        return made
    prompt, mcp = session.get("prompt") or {}, session.get("mcp") or {}
    may_be = ("delete", "fork", "additionalDirectories")
    offered = [name for name in may_be if session.get(name) is not None]
    return {
        **made,
        "loadSession": True,
        "sessionCapabilities": {name: {} for name in ("list", "resume", "close", *offered)},
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {"http": mcp.get("http") is not None, "sse": False},
    }


def mcp_server(server: Json) -> Json:
    """One of version 1 as version 2 has it, where each says what it is."""
    return server if "type" in server else {"type": "stdio", **server}


def plan(content: object) -> list[Json] | None:
    """The entries of a plan of items; one that was given up is no longer part of it."""
    if not isinstance(content, dict) or content.get("type") != "items":
        return None
    entries = content.get("entries") or ()
    kept = [entry for entry in entries if entry.get("status") in _PLAN_STATUSES]
    known = ("high", "medium", "low")
    return [e if e.get("priority") in known else {**e, "priority": "medium"} for e in kept]


def _renamed(value: Json, old: str, new: str) -> Json:
    return {new if key == old else key: inner for key, inner in value.items()}
