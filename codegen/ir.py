"""The generator's own picture of a protocol, between JSON schema and Python.

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
    """A value that does not fit reads as absent (``x-deserialize-default-on-error``)."""
    skip_invalid_items: bool = False
    null_as_default: bool = False
    experimental: bool = False
    """Whether the stable schema lacks it; marked for ACP only."""


@dataclass(frozen=True)
class ClassDef:
    """An object type; ``tag`` is its literal discriminator, if it has one."""

    name: str
    fields: tuple[FieldDef, ...]
    doc: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    """(wire name, literal) of every field that can hold one value only."""


@dataclass(frozen=True)
class UnionDef:
    """A union. ``kind`` is how a reader tells the members apart.

    tagged: by the literal under ``tag``; ``default`` is the member without it, if any.
    keyed: string literals, and objects told apart by their one required key.
    untagged: by trying; the member that fits most fields wins.
    """

    name: str
    kind: str
    members: tuple[str, ...]
    """Names of class definitions, or (untagged only) of any definitions."""
    tag: str = ""
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    default: str = ""
    literals: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    """Untagged members that are no named definition: scalars and arrays."""
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
    """Name of the definition, None when the method takes none."""
    result: str | None
    """Name of the definition, None for a notification."""
    params_nullable: bool = False
    experimental: bool = False
    doc: str = ""


@dataclass(frozen=True)
class Protocol:
    """All that is generated for one protocol version."""

    name: str
    definitions: dict[str, Definition]
    methods: dict[str, tuple[Method, ...]] = field(default_factory=dict)
    """Direction → its methods, in the schema's order."""
    experimental: frozenset[str] = frozenset()
    """Definitions that the stable schema lacks; marked for ACP only."""
