"""Write unions, enums and aliases as Python statements, with the rules for unknown values."""

from __future__ import annotations

from codegen.errors import CodegenError
from codegen.ir import AliasDef, ClassDef, Definition, EnumDef, Node, UnionDef

_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
BOUNDS = {"minLength": "min_length", "maxLength": "max_length", "minimum": "ge", "maximum": "le"}
"""Bound in JSON schema → its name in pydantic."""


def python_type(node: Node) -> str:
    """Return a normalised node as a Python annotation."""
    if not node:
        return "Any"
    if "$ref" in node:
        return str(node["$ref"])
    if node.get("type") == "null":
        return "None"
    if "const" in node:
        return f"Literal[{node['const']!r}]"
    if "anyOf" in node:
        return f"{python_type(node['anyOf'][0])} | None"
    if node["type"] == "array":
        return f"list[{python_type(node['items'])}]"
    if node["type"] == "object":
        return f"dict[str, {python_type(node['additionalProperties'])}]"
    name = _SCALARS[node["type"]]
    limits = [f"{arg}={node[key]!r}" for key, arg in BOUNDS.items() if key in node]
    return f"Annotated[{name}, Bounds({', '.join(limits)})]" if limits else name


def alias_source(definition: Definition) -> str:
    """Return ``Name: TypeAlias = …`` with its docstring."""
    match definition:
        case EnumDef():
            value = f"Literal[{', '.join(map(repr, definition.values))}]"
            if definition.is_open:
                value = f"Annotated[{value} | UnknownValue, OpenEnum()]"
        case UnionDef():
            value = _union(definition)
        case AliasDef():
            value = python_type(definition.node)
        case ClassDef():
            raise CodegenError(f"{definition.name} is a class")
    lines = [f"{definition.name}: TypeAlias = {value}"]
    if definition.doc:
        lines.append(repr("\n".join(x.rstrip() for x in definition.doc.strip().splitlines())))
    return "\n".join(lines)


def _union(definition: UnionDef) -> str:
    if definition.kind == "tagged":
        members = list(definition.members)
        if definition.is_open:
            members.append("UnknownVariant")
        choices = ", ".join(f"({tag!r}, {len(group)})" for tag, group in definition.choices)
        default = ", has_default=True" if definition.default else ""
        rule = f"TaggedUnion({definition.tag!r}, ({choices},){default})"
        return f"Annotated[{' | '.join(members)}, {rule}]"
    if definition.kind == "keyed":
        members = [*definition.members]
        if definition.literals:
            members.insert(0, f"Literal[{', '.join(repr(v) for v in definition.literals)}]")
        if definition.is_open:
            members += ["UnknownValue", "UnknownVariant"]
        keys = ", ".join(repr(key) for key, _ in definition.choices)
        return f"Annotated[{' | '.join(members)}, KeyedUnion({keys})]"
    return " | ".join([*definition.members, *(python_type(n) for n in definition.nodes)])


def references(definition: Definition) -> set[str]:
    """Return the names of the definitions that ``definition`` mentions."""
    found: set[str] = set()
    match definition:
        case ClassDef():
            for field in definition.fields:
                found |= _mentioned(field.node)
        case UnionDef():
            found.update(definition.members)
            for node in definition.nodes:
                found |= _mentioned(node)
        case AliasDef():
            found = _mentioned(definition.node)
        case EnumDef():
            pass
    return found


def _mentioned(node: object) -> set[str]:
    """Return every ``$ref`` in a node, at any depth."""
    if isinstance(node, list):
        return set().union(*(_mentioned(value) for value in node))
    if not isinstance(node, dict):
        return set()
    if "$ref" in node:
        return {node["$ref"]}
    return set().union(*(_mentioned(value) for value in node.values()))
