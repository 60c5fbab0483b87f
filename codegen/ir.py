"""Define the IR (intermediate representation) of a protocol, between JSON schema and Python.

A definition is a class, a union, an enum or an alias. Nodes inside definitions are normalised
JSON schema: ``$ref`` to a definition by bare name, scalars, arrays, maps and ``anyOf`` with null;
no inline objects, no ``allOf``, no inline unions of objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]
"""One normalised JSON-schema node."""


@dataclass(frozen=True)
class FieldDef:
    """One property of a class, under its wire name."""

    wire: str
    node: Node
    required: bool
    doc: str = ""
    default: Any = None
    has_default: bool = False
    lenient: bool = False
    """Whether an invalid value reads as absent (``x-deserialize-default-on-error``)."""
    skip_invalid_items: bool = False
    """Whether invalid items of a list are left out (``x-deserialize-skip-invalid-items``)."""
    null_as_default: bool = False
    """Whether null reads as the default (``x-deserialize-default-on-null``)."""
    experimental: bool = False
    """Whether the stable schema lacks the field; marked for ACP only."""


@dataclass(frozen=True)
class ClassDef:
    """An object type."""

    name: str
    fields: tuple[FieldDef, ...]
    doc: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    """(wire name, literal) of every field that can hold one value only."""


@dataclass(frozen=True)
class UnionDef:
    """A union. ``kind`` says how a reader tells the members apart.

    tagged: by the literal under ``tag``; ``default`` is the member without a tag, if any.
    keyed: the members are string literals, and objects with one required key each.
    untagged: by trying; the member that fits most fields wins.
    """

    name: str
    kind: str
    members: tuple[str, ...]
    """Names of class definitions, or (untagged only) of any definitions."""
    tag: str = ""
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(literal of the tag, or key; names of its members)."""
    default: str = ""
    literals: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    """Untagged members without a name: scalars and arrays."""
    is_open: bool = False
    doc: str = ""


@dataclass(frozen=True)
class EnumDef:
    """A closed or open set of string or integer literals."""

    name: str
    values: tuple[str | int, ...]
    is_open: bool
    doc: str = ""


@dataclass(frozen=True)
class AliasDef:
    """Another name for a node: an id that is a string, a nullable reference."""

    name: str
    node: Node
    doc: str = ""


Definition: TypeAlias = ClassDef | UnionDef | EnumDef | AliasDef


@dataclass(frozen=True)
class Method:
    """One JSON-RPC method of one direction."""

    wire: str
    params: str | None
    """Name of the params' definition; None for a method without params."""
    result: str | None
    """Name of the result's definition; None for a notification."""
    params_nullable: bool = False
    experimental: bool = False
    doc: str = ""


@dataclass(frozen=True)
class Protocol:
    """One version of a protocol."""

    name: str
    """``codex``, or a version of ACP: ``v1``, ``v2``."""
    definitions: dict[str, Definition]
    methods: dict[str, tuple[Method, ...]] = field(default_factory=dict)
    """Direction → its methods, in the schema's order."""
    experimental: frozenset[str] = frozenset()
    """Definitions that the stable schema lacks; marked for ACP only."""
