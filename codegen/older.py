"""An older Codex stays readable: what it does not send yet is not required of it.

The models are made from the newest schema. Where a bundle below ``schema/codex/older`` lacks a
field of what Codex sends, or says that it may be left out or be null, the model's field may be so,
too. What we send is not touched.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.ir import ClassDef, Definition, FieldDef, Protocol
from codegen.normalise import is_nullable, nullable
from codegen.split import closure

RECEIVED = (
    ("client_requests", "result"),
    ("server_requests", "params"),
    ("server_notifications", "params"),
)
"""(direction, which side of its methods) of all that Codex sends."""


def readable(newest: Protocol, older: dict[str, Protocol]) -> Protocol:
    """``newest``, able to read what each version of ``older`` sends."""
    definitions: dict[str, Definition] = dict(newest.definitions)
    for name in received(newest):
        definition = definitions[name]
        if isinstance(definition, ClassDef):
            fields = tuple(_field(name, field, older) for field in definition.fields)
            definitions[name] = replace(definition, fields=fields)
    return replace(newest, definitions=definitions)


def received(protocol: Protocol) -> set[str]:
    """The definitions of everything that Codex sends."""
    roots = {
        root
        for direction, part in RECEIVED
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
