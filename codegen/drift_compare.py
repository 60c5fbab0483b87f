"""PURE: two schema sets → every difference that can be seen on the wire.

Compares what the generator makes of the schemas: methods by direction, and the types they use.
Descriptions are not compared. Must not know what a difference means to this project.
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
"""Name → how it reads in the report."""

AREAS: dict[str, Area] = {"server_requests": "server request"}
"""Direction of Codex → area of its methods, where that is not plain from its name."""

ITEMS = "ThreadItem"
MODES = "McpServerElicitationRequestParams"


def compare(old: SchemaSet, new: SchemaSet) -> tuple[Change, ...]:
    """Every change of the protocols that both sets have, in the order of the new one."""
    before, after = dict(old.protocols), dict(new.protocols)
    old_stable, new_stable = dict(old.stable), dict(new.stable)
    found: list[Change] = []
    for name in before.keys() & after.keys():
        changes = _protocol(name, before[name], after[name])
        found += _marked(changes, old_stable[name], new_stable[name])
    return tuple(found)


def _protocol(name: str, old: Protocol, new: Protocol) -> Iterator[Change]:
    for direction, rows in new.methods.items():
        yield from _methods(name, direction, old.methods.get(direction, ()), rows)
    flows = {**_flows(old), **_flows(new)}
    for key in sorted(old.definitions.keys() | new.definitions.keys()):
        before, after = old.definitions.get(key), new.definitions.get(key)
        if before is None or after is None:
            kind: Kind = "added" if before is None else "removed"
            there = after if before is None else before
            if there is not None and not isinstance(there, AliasDef):
                yield Change(name, "type", kind, "", key, flow=flows.get(key, ""))
            continue
        for change in _definition(name, key, before, after, (old, new)):
            yield replace(change, flow=flows.get(key, ""))


# --- methods -------------------------------------------------------------------------------------


def _methods(
    protocol: str, direction: str, old: tuple[Method, ...], new: tuple[Method, ...]
) -> Iterator[Change]:
    is_request = direction.endswith("requests")
    area = AREAS.get(direction, "request" if is_request else "notification")
    before, after = {m.wire: m for m in old}, {m.wire: m for m in new}
    for wire in sorted(before.keys() | after.keys()):
        was, now = before.get(wire), after.get(wire)
        if was is None and now is not None:
            yield Change(protocol, area, "added", direction, wire, after=_signature(now))
        elif was is not None and now is None:
            yield Change(protocol, area, "removed", direction, wire, before=_signature(was))
        elif was is not None and now is not None and _signature(was) != _signature(now):
            yield Change(
                protocol, area, "changed", direction, wire, _signature(was), _signature(now)
            )


def _signature(method: Method) -> str:
    text = f"({method.params or ''})" + (f" -> {method.result}" if method.result else "")
    return f"{text} (experimental)" if method.experimental else text


def _flows(protocol: Protocol) -> dict[str, Flow]:
    """Definition → how it travels, seen from the adapter."""
    sent: set[str] = set()
    received: set[str] = set()
    for direction, rows in protocol.methods.items():
        # Of both protocols "client" methods are those that the adapter sends: it is the client of
        # Codex, and ACP's registry names the side that handles a method.
        is_ours = direction in ("client_requests", "client_notifications")
        for method in rows:
            if direction == "protocol_notifications":
                sent |= {method.params or ""}
                received |= {method.params or ""}
                continue
            (sent if is_ours else received).add(method.params or "")
            (received if is_ours else sent).add(method.result or "")
    out = closure(sent - {""}, protocol.definitions)
    into = closure(received - {""}, protocol.definitions)
    return {
        name: "both" if name in out and name in into else "sent" if name in out else "received"
        for name in out | into
    }


# --- types ---------------------------------------------------------------------------------------


def _definition(
    protocol: str, key: str, old: Definition, new: Definition, both: tuple[Protocol, Protocol]
) -> Iterator[Change]:
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
        was, now = (dict.fromkeys(map(str, d.values), "") for d in (old, new))
        yield from _values(protocol, key, was, now, "value")
    elif type(old) is not type(new) or isinstance(old, AliasDef):
        before, after = _what(old, both[0]), _what(new, both[1])
        if before != after:
            yield Change(protocol, "type", "changed", "", key, before, after)


def _members(union: UnionDef) -> Values:
    """What tells the members apart on the wire → their classes."""
    if union.kind == "untagged":
        return dict.fromkeys((*union.members, *map(python_type, union.nodes)), "")
    found = {tag: ", ".join(classes) for tag, classes in union.choices}
    return {**dict.fromkeys(union.literals, ""), **found}


def _values(protocol: str, key: str, old: Values, new: Values, area: Area) -> Iterator[Change]:
    for value in sorted(old.keys() | new.keys()):
        if value not in old:
            yield Change(protocol, _special(key, area), "added", key, value, after=new[value])
        elif value not in new:
            yield Change(protocol, _special(key, area), "removed", key, value, before=old[value])
        elif old[value] != new[value]:
            kind = _special(key, area)
            yield Change(protocol, kind, "changed", key, value, old[value], new[value])


def _special(key: str, area: Area) -> Area:
    if key == ITEMS:
        return "item"
    if key == MODES:
        return "elicitation mode"
    return "decision" if key in DISCRIMINATORS else area


def _fields(
    protocol: str, key: str, old: ClassDef, new: ClassDef, both: tuple[Protocol, Protocol]
) -> Iterator[Change]:
    before = {f.wire: _field(f, both[0]) for f in old.fields}
    after = {f.wire: _field(f, both[1]) for f in new.fields}
    for wire in sorted(before.keys() | after.keys()):
        was, now = before.get(wire), after.get(wire)
        if was is None:
            yield Change(protocol, "field", "added", key, wire, after=now or "")
        elif now is None:
            yield Change(protocol, "field", "removed", key, wire, before=was)
        elif was != now:
            yield Change(protocol, "field", "changed", key, wire, was, now)


def _field(field: FieldDef, protocol: Protocol) -> str:
    need = "required" if field.required else "optional"
    return f"{need} {_type(field.node, protocol)}"


def _type(node: Node, protocol: Protocol) -> str:
    """A node as text; an alias of a plain value reads as that value, so that only it counts."""
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


def _what(definition: Definition, protocol: Protocol) -> str:
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


def _marked(changes: Iterator[Change], old: Protocol, new: Protocol) -> Iterator[Change]:
    """The changes, each told whether the stable schema has what it is about."""
    for change in changes:
        stable = old if change.kind == "removed" else new
        yield replace(change, experimental=not _has(stable, change))


def _has(stable: Protocol, change: Change) -> bool:
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
