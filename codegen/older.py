"""Extend the newest protocol of Codex, so that messages of older versions can be read, too.

A field that an older bundle (below ``schema/codex/older``) lacks or does not require becomes
optional; a field that is nullable there becomes nullable. Requests, notifications, members of
unions and values of enums that the newest schema lacks are added if an older bundle has them. All
this concerns only what Codex sends, and the replies to the added requests.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.ir import ClassDef, Definition, EnumDef, FieldDef, Protocol, UnionDef
from codegen.normalise import is_nullable, nullable
from codegen.split import closure

RECEIVED = (
    ("client_requests", "result"),
    ("server_requests", "params"),
    ("server_notifications", "params"),
)
"""(direction, attribute of its methods) of the messages that Codex sends."""

SENT = (
    ("client_requests", "params"),
    ("client_notifications", "params"),
    ("server_requests", "result"),
)
"""(direction, attribute of its methods) of the messages that are sent to Codex."""


def readable(newest: Protocol, older: dict[str, Protocol]) -> Protocol:
    """Return ``newest``, extended to read messages of the ``older`` versions, oldest first."""
    for version, protocol in reversed(older.items()):
        newest = _with_removed(newest, version, protocol)
    definitions: dict[str, Definition] = dict(newest.definitions)
    for name in received(newest):
        definition = definitions[name]
        if isinstance(definition, ClassDef):
            fields = tuple(_field(name, field, older) for field in definition.fields)
            definitions[name] = replace(definition, fields=fields)
    return replace(newest, definitions=definitions)


def _with_removed(newest: Protocol, version: str, older: Protocol) -> Protocol:
    """Return ``newest`` with the methods, members and values that only ``older`` has."""
    note = f"Codex {version} is the last that sends it."
    definitions = dict(newest.definitions)
    methods = dict(newest.methods)
    roots: set[str] = set()
    for direction in ("server_requests", "server_notifications"):
        known = {method.wire for method in methods[direction]}
        removed = tuple(
            replace(method, doc=f"{method.doc}\n\n{note}".strip())
            for method in older.methods[direction]
            if method.wire not in known
        )
        methods[direction] += removed
        roots |= {name or "" for method in removed for name in (method.params, method.result)}
    for name in received(newest):
        definitions[name], members = _merged(definitions[name], older.definitions.get(name))
        roots |= members
    for name in sorted(closure(roots, older.definitions)):
        definitions.setdefault(name, older.definitions[name])
    return replace(newest, definitions=definitions, methods=methods)


def _merged(now: Definition, before: Definition | None) -> tuple[Definition, set[str]]:
    """Add the values or members of ``before`` to ``now``; also return the added members' names."""
    if isinstance(now, EnumDef) and isinstance(before, EnumDef):
        return replace(now, values=tuple(dict.fromkeys((*now.values, *before.values)))), set()
    if not (isinstance(now, UnionDef) and isinstance(before, UnionDef)) or (now.kind, now.tag) != (
        before.kind,
        before.tag,
    ):
        return now, set()
    known = {label for label, _ in now.choices}
    choices = tuple(choice for choice in before.choices if choice[0] not in known)
    members = tuple(name for _, names in choices for name in names)
    literals = tuple(dict.fromkeys((*now.literals, *before.literals)))
    more = (*now.choices, *choices)
    return (
        replace(now, members=(*now.members, *members), choices=more, literals=literals),
        set(members),
    )


def received(protocol: Protocol) -> set[str]:
    """Return the names of the definitions in messages that Codex sends."""
    return _reached(protocol, RECEIVED)


def sent(protocol: Protocol) -> set[str]:
    """Return the names of the definitions in messages that are sent to Codex."""
    return _reached(protocol, SENT)


def _reached(protocol: Protocol, sides: tuple[tuple[str, str], ...]) -> set[str]:
    roots = {
        root
        for direction, attribute in sides
        for method in protocol.methods[direction]
        if (root := getattr(method, attribute)) is not None
    }
    return closure(roots, protocol.definitions)


def _field(owner: str, field: FieldDef, older: dict[str, Protocol]) -> FieldDef:
    """Return ``field`` of the class ``owner``, optional or nullable for older versions."""
    lacking = []
    for version, protocol in older.items():
        definition = protocol.definitions.get(owner)
        if not isinstance(definition, ClassDef) or "const" in field.node:
            continue
        before = {f.wire: f for f in definition.fields}.get(field.wire)
        if field.required and (before is None or not before.required):
            lacking.append(version)
        elif before is not None and is_nullable(before.node) and not is_nullable(field.node):
            field = replace(field, node=nullable(field.node))
    if not lacking:
        return field
    note = f"Codex {', '.join(lacking)} may leave it out."
    return replace(field, required=False, doc=f"{field.doc}\n\n{note}".strip())
