"""PURE: find every difference of two schema sets that can be seen on the wire.

Compares the IR of the schemas: methods by direction, and types. Descriptions are not compared. Must
not know what a difference means to this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from codegen.aliases import python_type
from codegen.drift_model import Area, Change, Flow, Kind, SchemaSet
from codegen.ir import (
    AliasDef,
    ClassDef,
    Definition,
    EnumDef,
    FieldDef,
    Method,
    Node,
    Protocol,
    UnionDef,
)
from codegen.normalise import is_nullable
from codegen.render import DISCRIMINATORS
from codegen.split import closure

Values: TypeAlias = dict[str, str]
"""Label of a member or value → the classes of the member, for the report."""

ITEMS = "ThreadItem"
MODES = "McpServerElicitationRequestParams"


def compare(old: SchemaSet, new: SchemaSet) -> tuple[Change, ...]:
    """Return every change of the protocols that both sets have, in the order of the new one."""
    found: list[Change] = []
    for name in (name for name in new.protocols if name in old.protocols):
        for change in _protocol(name, old.protocols[name], new.protocols[name]):
            stable = (old if change.kind == "removed" else new).stable[name]
            found.append(replace(change, experimental=not _has(stable, change)))
    return tuple(found)


def _protocol(name: str, old: Protocol, new: Protocol) -> Iterator[Change]:
    for direction, methods in new.methods.items():
        yield from _methods(name, direction, old.methods.get(direction, ()), methods)
    flows = {**_flows(old), **_flows(new)}
    for key in sorted(old.definitions.keys() | new.definitions.keys()):
        before, after = old.definitions.get(key), new.definitions.get(key)
        if before is None or after is None:
            kind: Kind = "added" if before is None else "removed"
            if not isinstance(after or before, AliasDef):
                yield Change(name, "type", kind, "", key, flow=flows.get(key, ""))
            continue
        for change in _definition(name, key, before, after, (old, new)):
            yield replace(change, flow=flows.get(key, ""))


# --- methods -------------------------------------------------------------------------------------


def _methods(
    protocol: str, direction: str, old: tuple[Method, ...], new: tuple[Method, ...]
) -> Iterator[Change]:
    area: Area = "request" if direction.endswith("requests") else "notification"
    if direction == "server_requests":
        area = "server request"
    before, after = ({m.wire: _signature(m) for m in methods} for methods in (old, new))
    for wire in sorted(before.keys() | after.keys()):
        was, now = before.get(wire, ""), after.get(wire, "")
        if not was:
            yield Change(protocol, area, "added", direction, wire, after=now)
        elif not now:
            yield Change(protocol, area, "removed", direction, wire, before=was)
        elif was != now:
            yield Change(protocol, area, "changed", direction, wire, was, now)


def _signature(method: Method) -> str:
    text = f"({method.params or ''})" + (f" -> {method.result}" if method.result else "")
    return f"{text} (experimental)" if method.experimental else text


def _flows(protocol: Protocol) -> dict[str, Flow]:
    """Return definition → whether the adapter sends or receives it."""
    sent: set[str] = set()
    received: set[str] = set()
    for direction, methods in protocol.methods.items():
        params = {method.params or "" for method in methods}
        results = {method.result or "" for method in methods}
        # The adapter sends the "client" methods of both protocols: it is the client of Codex, and
        # ACP's directions name the side that handles a method. "protocol" is either side.
        if direction in ("client_requests", "client_notifications", "protocol_notifications"):
            sent |= params
            received |= results
        if not direction.startswith("client_"):
            received |= params
            sent |= results
    out = closure(sent, protocol.definitions)
    into = closure(received, protocol.definitions)
    return {
        name: "both" if name in out and name in into else "sent" if name in out else "received"
        for name in out | into
    }


# --- types ---------------------------------------------------------------------------------------


def _definition(
    protocol: str, key: str, old: Definition, new: Definition, both: tuple[Protocol, Protocol]
) -> Iterator[Change]:
    """Compare one definition of ``both`` protocols, the old and the new one."""
    if isinstance(old, ClassDef) and isinstance(new, ClassDef):
        yield from _fields(protocol, key, old, new, both)
    elif isinstance(old, UnionDef) and isinstance(new, UnionDef):
        if (old.kind, old.tag) != (new.kind, new.tag):
            yield Change(
                protocol, "type", "changed", "", key, f"{old.kind} union {old.tag}".strip(),
                f"{new.kind} union {new.tag}".strip(),
            )  # fmt: skip
        yield from _values(protocol, key, _members(old), _members(new), "member")
    elif isinstance(old, EnumDef) and isinstance(new, EnumDef):
        before_values, after_values = (dict.fromkeys(map(str, d.values), "") for d in (old, new))
        yield from _values(protocol, key, before_values, after_values, "value")
    else:  # two kinds of definitions, or two aliases
        before, after = _kind(old, both[0]), _kind(new, both[1])
        if before != after:
            yield Change(protocol, "type", "changed", "", key, before, after)


def _members(union: UnionDef) -> Values:
    """Return the label of each member on the wire → the classes of the member."""
    if union.kind == "untagged":
        return dict.fromkeys((*union.members, *map(python_type, union.nodes)), "")
    found = {tag: ", ".join(classes) for tag, classes in union.choices}
    return {**dict.fromkeys(union.literals, ""), **found}


def _values(protocol: str, key: str, old: Values, new: Values, area: Area) -> Iterator[Change]:
    """Compare values or members; some definitions have an ``area`` of their own."""
    if key == ITEMS:
        area = "item"
    elif key == MODES:
        area = "elicitation mode"
    elif key in DISCRIMINATORS:
        area = "decision"
    for value in sorted(old.keys() | new.keys()):
        if value not in old:
            yield Change(protocol, area, "added", key, value, after=new[value])
        elif value not in new:
            yield Change(protocol, area, "removed", key, value, before=old[value])
        elif old[value] != new[value]:
            yield Change(protocol, area, "changed", key, value, old[value], new[value])


def _fields(
    protocol: str, key: str, old: ClassDef, new: ClassDef, both: tuple[Protocol, Protocol]
) -> Iterator[Change]:
    before = {f.wire: _field(f, both[0]) for f in old.fields}
    after = {f.wire: _field(f, both[1]) for f in new.fields}
    for wire in sorted(before.keys() | after.keys()):
        was, now = before.get(wire, ""), after.get(wire, "")
        if not was:
            yield Change(protocol, "field", "added", key, wire, after=now)
        elif not now:
            yield Change(protocol, "field", "removed", key, wire, before=was)
        elif was != now:
            yield Change(protocol, "field", "changed", key, wire, was, now)


def _field(field: FieldDef, protocol: Protocol) -> str:
    need = "required" if field.required else "optional"
    return f"{need} {_type(field.node, protocol)}"


def _type(node: Node, protocol: Protocol) -> str:
    """Return a node as text, with the value of an alias in the place of the alias."""
    if "$ref" in node:
        target = protocol.definitions.get(node["$ref"])
        if isinstance(target, AliasDef):
            return _type(target.node, protocol)
    if "anyOf" in node and is_nullable(node):
        inner = _type(node["anyOf"][0], protocol)
        return inner if inner.endswith("| None") else f"{inner} | None"
    if "items" in node:
        return f"list[{_type(node['items'], protocol)}]"
    if isinstance(node.get("additionalProperties"), dict):
        return f"dict[str, {_type(node['additionalProperties'], protocol)}]"
    return python_type(node)


def _kind(definition: Definition, protocol: Protocol) -> str:
    match definition:
        case AliasDef():
            return _type(definition.node, protocol)
        case ClassDef():
            return "object"
        case UnionDef():
            return f"{definition.kind} union"
        case EnumDef():
            return "enum"


# --- stable or not -------------------------------------------------------------------------------


def _has(stable: Protocol, change: Change) -> bool:
    """Return whether the stable schema has the method, type, field, value or member."""
    if change.owner in stable.methods:
        return change.name in {m.wire for m in stable.methods[change.owner]}
    definition = stable.definitions.get(change.owner or change.name)
    if definition is None or not change.owner:
        return definition is not None
    return change.name in _names(definition)


def _names(definition: Definition) -> Mapping[str, object] | set[str]:
    match definition:
        case ClassDef():
            return {f.wire for f in definition.fields}
        case UnionDef():
            return _members(definition)
        case EnumDef():
            return {str(v) for v in definition.values}
        case AliasDef():
            return set()
