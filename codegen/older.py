"""An older Codex stays readable: what it does not send yet is not required of it, and what only it
sends is kept.

The models are made from the newest schema. Where a bundle below ``schema/codex/older`` lacks a
field of what Codex sends, or says that it may be left out or be null, the model's field may be so,
too. Requests and notifications, members of unions and values of enums that the newest schema has
no more stay as long as a bundle has them. What we send is not touched, but for the replies to
requests that are kept.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.ir import (
    ClassDef,
    Definition,
    EnumDef,
    FieldDef,
    Protocol,
    UnionDef,
)
from codegen.normalise import is_nullable, nullable
from codegen.split import closure

RECEIVED = (
    ("client_requests", "result"),
    ("server_requests", "params"),
    ("server_notifications", "params"),
)
"""(direction, which side of its methods) of all that Codex sends."""

SENT = (
    ("client_requests", "params"),
    ("client_notifications", "params"),
    ("server_requests", "result"),
)
"""The same of all that it is sent."""


def readable(newest: Protocol, older: dict[str, Protocol]) -> Protocol:
    """``newest``, able to read what each version of ``older`` sends; the oldest is the first."""
    for version, protocol in reversed(older.items()):
        newest = _with_what_is_gone(newest, version, protocol)
    definitions: dict[str, Definition] = dict(newest.definitions)
    for name in received(newest):
        definition = definitions[name]
        if isinstance(definition, ClassDef):
            fields = tuple(_field(name, field, older) for field in definition.fields)
            definitions[name] = replace(definition, fields=fields)
    return replace(newest, definitions=definitions)


def _with_what_is_gone(newest: Protocol, version: str, older: Protocol) -> Protocol:
    """``newest`` with the methods, members and values that only the older version still sends."""
    note = f"Codex {version} is the last that sends it."
    definitions = dict(newest.definitions)
    methods = dict(newest.methods)
    roots: set[str] = set()
    for direction in ("server_requests", "server_notifications"):
        known = {method.wire for method in methods[direction]}
        kept = tuple(
            replace(method, doc=f"{method.doc}\n\n{note}".strip())
            for method in older.methods[direction]
            if method.wire not in known
        )
        methods[direction] += kept
        roots |= {name for method in kept for name in (method.params, method.result) if name}
    for name in received(newest):
        merged, members = _merged(definitions[name], older.definitions.get(name))
        definitions[name] = merged
        roots |= members
    for name in sorted(closure(roots, older.definitions)):
        definitions.setdefault(name, older.definitions[name])
    return replace(newest, definitions=definitions, methods=methods)


def _merged(now: Definition, before: Definition | None) -> tuple[Definition, set[str]]:
    """A definition with the values or members that it had before, and the names of the latter."""
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
    """The definitions of everything that Codex sends."""
    return _reached(protocol, RECEIVED)


def sent(protocol: Protocol) -> set[str]:
    """The definitions of everything that Codex is sent."""
    return _reached(protocol, SENT)


def _reached(protocol: Protocol, sides: tuple[tuple[str, str], ...]) -> set[str]:
    roots = {
        root
        for direction, part in sides
        for method in protocol.methods[direction]
        if (root := getattr(method, part)) is not None
    }
    return closure(roots, protocol.definitions)


def _field(owner: str, field: FieldDef, older: dict[str, Protocol]) -> FieldDef:
    lacking = []
    for version, protocol in older.items():
        definition = protocol.definitions.get(owner)
        if not isinstance(definition, ClassDef) or "const" in field.node:
            continue
        there = {f.wire: f for f in definition.fields}.get(field.wire)
        if field.required and (there is None or not there.required):
            lacking.append(version)
        elif there is not None and is_nullable(there.node) and not is_nullable(field.node):
            field = replace(field, node=nullable(field.node))
    if not lacking:
        return field
    note = f"Codex {', '.join(lacking)} may leave it out."
    return replace(field, required=False, doc=f"{field.doc}\n\n{note}".strip())
