"""Flatten object schemas to lists of properties: merge ``allOf``, multiply nested unions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.errors import CodegenError

Schema = dict[str, Any]

OTHER = "other"
"""ACP's title of the open member of a union."""


@dataclass(frozen=True)
class Shape:
    """One concrete object type."""

    properties: dict[str, Any]
    required: frozenset[str]
    label: str = ""
    """Titles or tags of the members of nested unions that this shape has chosen."""
    doc: str = ""


def ref_name(schema: Any) -> str | None:
    """Return the definition that a node refers to, directly or through ``allOf`` with one part."""
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if len(schema.get("allOf", ())) == 1 and "properties" not in schema:
        return ref_name(schema["allOf"][0])
    return None


def literal_of(schema: Any) -> str | None:
    """Return the string that is the only value of a property; None if there are other values."""
    if not isinstance(schema, dict):
        return None
    if isinstance(schema.get("const"), str):
        return str(schema["const"])
    values = schema.get("enum")
    if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return None


def is_other(schema: Schema) -> bool:
    """Return whether a union member stands for all unknown values."""
    return schema.get("title") == OTHER and "not" in schema


def _merge(left: Shape, right: Shape) -> Shape:
    clash = {
        key
        for key in left.properties.keys() & right.properties.keys()
        if left.properties[key] != right.properties[key]
        and literal_of(left.properties[key]) is None
    }
    if clash:
        raise CodegenError(f"merged schemas disagree on {sorted(clash)}")
    return Shape(
        {**right.properties, **left.properties},
        left.required | right.required,
        left.label + right.label,
        left.doc or right.doc,
    )


def _tag_value(member: Schema) -> str:
    """Return the first literal of a union member; empty if it has none."""
    found = (literal_of(value) for value in member.get("properties", {}).values())
    return next((value for value in found if value is not None), "")


def shapes(schema: Schema, definitions: dict[str, Schema]) -> list[Shape]:
    """Return every object type that ``schema`` allows; it allows several if it nests a union."""
    if "$ref" in schema:
        return shapes(definitions[str(ref_name(schema))], definitions)
    found = [
        Shape(
            dict(schema.get("properties", {})),
            frozenset(schema.get("required", ())),
            doc=schema.get("description", ""),
        )
    ]
    for part in schema.get("allOf", ()):
        found = [_merge(a, b) for a in found for b in shapes(part, definitions)]
    for key in ("oneOf", "anyOf"):
        if key not in schema:
            continue
        members: list[Shape] = []
        for member in schema[key]:
            label = member.get("title") or _tag_value(member)
            members += [
                Shape(s.properties, s.required, label or s.label, s.doc)
                for s in shapes(member, definitions)
            ]
        found = [_merge(a, b) for a in found for b in members]
    return found
