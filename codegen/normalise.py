"""Turn JSON schema into the generator's IR (`codegen.ir`): everything is named, nothing inline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from codegen.aliases import BOUNDS
from codegen.errors import CodegenError
from codegen.flatten import Schema, Shape, is_other, literal_of, ref_name, shapes
from codegen.ir import AliasDef, ClassDef, Definition, EnumDef, FieldDef, Node, UnionDef
from codegen.naming import Namer, pascal

NULL: Node = {"type": "null"}


def nullable(node: Node) -> Node:
    """Return a node that allows the values of ``node`` and null."""
    return node if is_nullable(node) else {"anyOf": [node, NULL]}


def is_nullable(node: Node) -> bool:
    """Return whether a normalised node allows null; an empty node allows any value."""
    return not node or NULL in node.get("anyOf", ())


@dataclass
class Normaliser:
    """Turns one protocol's definitions into IR."""

    schemas: dict[str, Schema]
    namer: Namer
    member_name: Callable[[str, str, str], str]
    """(union, tag or key of a member, title) → wanted class name of the member."""
    open_by_default: bool
    """Whether all unions and enums keep unknown values (Codex), or only those that say so (ACP)."""
    closed_enums: frozenset[str] = frozenset()
    """Enums that tell the members of a union apart, so that they must not keep unknown values."""
    out: dict[str, Definition] = field(default_factory=dict)
    """Class name → definition, for all that was normalised so far."""
    names: dict[str, str] = field(default_factory=dict)
    """Schema definition → class name, for all that was reached so far."""

    def definition(self, key: str) -> str:
        """Normalise a definition and all that it refers to; return its class name."""
        if key in self.names:
            return self.names[key]
        if key not in self.schemas:
            raise CodegenError(f"the schema refers to {key}, which it does not define")
        name = self.namer.claim(key, key)
        self.names[key] = name
        self.out[name] = self._define(name, self.schemas[key])
        return name

    def _define(self, name: str, schema: Schema) -> Definition:
        doc = schema.get("description", "")
        is_open = self.open_by_default and name not in self.closed_enums
        if "enum" in schema and not (is_open and schema.get("type") == "integer"):
            return EnumDef(name, tuple(schema["enum"]), is_open, doc)
        members = schema.get("oneOf") or schema.get("anyOf")
        if members:
            return self._union_like(name, schema, members, doc)
        if "allOf" in schema and len(schema["allOf"]) == 1 and "properties" not in schema:
            return AliasDef(name, {"$ref": self.definition(str(ref_name(schema)))}, doc)
        if schema.get("type") == "object" and (
            "properties" in schema or not isinstance(schema.get("additionalProperties"), dict)
        ):
            (shape,) = shapes(schema, self.schemas)
            return self._class(name, shape, doc)
        return AliasDef(name, self.node(schema, name), doc)

    # --- unions ---------------------------------------------------------------------------

    def _union_like(self, name: str, schema: Schema, members: list[Schema], doc: str) -> Definition:
        enum = self._enum_of(name, members, doc)
        if enum is not None:
            return enum
        known = [m for m in members if not is_other(m)]
        not_null = [m for m in known if m.get("type") != "null"]
        if len(not_null) < len(members) and len(not_null) == 1 and ref_name(not_null[0]):
            return AliasDef(name, nullable(self.node(not_null[0], name)), doc)
        if self._is_keyed(not_null):
            return self._keyed(name, not_null, doc)
        tag = self._tag_of(not_null)
        if tag is not None:
            is_open = self.open_by_default or len(known) < len(members)
            return self._tagged(name, schema, not_null, tag, is_open, doc)
        return self._untagged(name, known, doc)

    def _enum_of(self, name: str, members: list[Schema], doc: str) -> Definition | None:
        """Return the enum whose values ``members`` are; None if a member is no value."""
        values: list[str | int] = []
        is_open = self.open_by_default
        kinds: set[str] = set()
        for member in members:
            if "const" in member:
                values.append(member["const"])
            elif "enum" in member and "properties" not in member:
                values += member["enum"]
            elif member.get("type") in ("string", "integer") and member.get("title"):
                is_open = True  # the member for all other values
            else:
                return None
            kinds.add(member["type"])
        if not values:
            return None
        if kinds == {"integer"} and is_open:
            return AliasDef(name, {"type": "integer"}, doc)
        return EnumDef(name, tuple(values), is_open, doc)

    def _is_keyed(self, members: list[Schema]) -> bool:
        """Return whether the objects among the members are told apart by their one property."""

        def keyed(member: Schema) -> bool:
            return (
                member.get("additionalProperties") is False
                and len(member.get("properties", ())) == 1
                and literal_of(next(iter(member["properties"].values()))) is None
            )

        return any(keyed(m) for m in members) and all(
            keyed(m) or "enum" in m or isinstance(m.get("type"), list) for m in members
        )

    def _keyed(self, name: str, members: list[Schema], doc: str) -> UnionDef:
        literals: list[str] = []
        choices: list[tuple[str, tuple[str, ...]]] = []
        for member in members:
            if "enum" in member:
                literals += member["enum"]
            elif "properties" in member:
                (key,) = member["properties"]
                (shape,) = shapes(member, self.schemas)
                choices.append((key, (self._member(name, key, member, shape),)))
        names = tuple(cls for _, group in choices for cls in group)
        return UnionDef(
            name, "keyed", names, choices=tuple(choices), literals=tuple(literals),
            is_open=self.open_by_default, doc=doc,
        )  # fmt: skip

    def _tag_of(self, members: list[Schema]) -> str | None:
        """Return the property whose literal tells the members apart; one member may lack it."""
        counts: dict[str, int] = {}
        for member in members:
            if member.get("type") != "object" or "properties" not in member:
                continue
            for key, value in member["properties"].items():
                if literal_of(value) is not None and key in member.get("required", ()):
                    counts[key] = counts.get(key, 0) + 1
        objects = [m for m in members if ref_name(m) is None or "allOf" in m]
        if not counts or len(objects) != len(members):
            return None
        tag, count = max(counts.items(), key=lambda pair: pair[1])
        return tag if count >= len(members) - 1 else None

    def _tagged(
        self, name: str, schema: Schema, members: list[Schema], tag: str, is_open: bool, doc: str
    ) -> UnionDef:
        shared = {k: v for k, v in schema.items() if k not in ("oneOf", "anyOf", "description")}
        choices: list[tuple[str, tuple[str, ...]]] = []
        default = ""
        for member in members:
            literal = literal_of(member.get("properties", {}).get(tag))
            label = member.get("title", "") if literal is None else literal
            found = shapes({**shared, "allOf": [member]}, self.schemas)
            classes = tuple(self._member(name, label, member, s, len(found) > 1) for s in found)
            if literal is None:
                (default,) = classes
            else:
                choices.append((literal, classes))
        names = [cls for _, group in choices for cls in group] + ([default] if default else [])
        return UnionDef(
            name, "tagged", tuple(names), tag=tag, choices=tuple(choices), default=default,
            is_open=is_open, doc=doc,
        )  # fmt: skip

    def _member(
        self, union: str, label: str, member: Schema, shape: Shape, is_split: bool = False
    ) -> str:
        """Define the class of a member, and return its name. ``label`` tells the member from the
        others. ``is_split``: the member has several classes, one for each of its shapes."""
        wanted = self.member_name(union, label, member.get("title", ""))
        origin = f"{union}.{label}"
        if is_split:
            part = shape.label.removesuffix(union)
            wanted, origin = pascal(part) + wanted, f"{origin}.{part}"
        cls = self.namer.claim(wanted, origin)
        self.out[cls] = self._class(cls, shape, member.get("description", "") or shape.doc)
        return cls

    def _untagged(self, name: str, members: list[Schema], doc: str) -> UnionDef:
        names: list[str] = []
        nodes: list[Node] = []
        for member in members:
            ref = ref_name(member)
            if member.get("type") == "null":
                nodes.append(NULL)
            elif ref is not None:
                names.append(self.definition(ref))
            elif "properties" in member:
                # Without a title, a member is named after a property that the first has not.
                required = [k for k in member["required"] if k not in members[0]["required"]]
                label = member.get("title") or (required or list(member["required"]))[0]
                (shape,) = shapes(member, self.schemas)
                names.append(self._member(name, label, member, shape))
            else:
                nodes.append(self.node(member, name))
        return UnionDef(name, "untagged", tuple(names), nodes=tuple(nodes), doc=doc)

    # --- classes and nodes ----------------------------------------------------------------

    def _class(self, name: str, shape: Shape, doc: str) -> ClassDef:
        fields = []
        tags = []
        for wire, schema in shape.properties.items():
            definition = self._field(name, wire, schema, wire in shape.required)
            if "const" in definition.node:
                tags.append((wire, definition.node["const"]))
            fields.append(definition)
        return ClassDef(name, tuple(fields), doc, tuple(tags))

    def _field(self, owner: str, wire: str, schema: Any, required: bool) -> FieldDef:
        node = self.node(schema, f"{owner}.{wire}")
        notes: Schema = schema if isinstance(schema, dict) else {}
        default = notes.get("default")
        return FieldDef(
            wire,
            node,
            required,
            notes.get("description", ""),
            default,
            "default" in notes and default is not None,
            bool(notes.get("x-deserialize-default-on-error")),
            bool(notes.get("x-deserialize-skip-invalid-items")),
            bool(notes.get("x-deserialize-default-on-null")),
        )

    def node(self, schema: Any, where: str) -> Node:
        """Normalise the schema of one property; inline objects become definitions of their own."""
        if schema is True:
            return {}
        ref = ref_name(schema)
        if ref in self.closed_enums and literal_of(self.schemas[ref]) is not None:
            return {"const": literal_of(self.schemas[ref])}
        if ref is not None:
            return {"$ref": self.definition(ref)}
        literal = literal_of(schema)
        if literal is not None:
            return {"const": literal}
        if "anyOf" in schema or "oneOf" in schema:
            members = schema.get("anyOf") or schema["oneOf"]
            rest = [m for m in members if m.get("type") != "null"]
            if len(rest) == 1 and len(members) > 1:
                return nullable(self.node(rest[0], where))
            return {"$ref": self._hoist(schema, where)}
        kind = schema.get("type")
        if isinstance(kind, list):
            rest = [k for k in kind if k != "null"]
            if len(rest) != 1:
                raise CodegenError(f"{where} has types {kind}; teach the generator what that means")
            return nullable(self.node({**schema, "type": rest[0]}, where))
        return self._typed(schema, kind, where)

    def _typed(self, schema: Schema, kind: str | None, where: str) -> Node:
        if kind is None:
            return {}
        if kind == "array":
            items = self.node(schema.get("items", True), where)
            # A plain list[int] cannot express the bounds of its items; readers need none.
            return {"type": "array", "items": {k: v for k, v in items.items() if k not in BOUNDS}}
        if kind == "object":
            if schema.get("properties"):
                return {"$ref": self._hoist(schema, where)}
            values = schema.get("additionalProperties", True)
            inner = {} if values in (True, False) else self.node(values, where)
            return {"type": "object", "additionalProperties": inner}
        if "enum" in schema and not (kind == "integer" and self.open_by_default):
            return {"$ref": self._hoist(schema, where)}
        return {"type": kind, **{k: schema[k] for k in BOUNDS if k in schema}}

    def _hoist(self, schema: Schema, where: str) -> str:
        """Make a definition of an inline schema; return its class name."""
        key = where.rpartition(".")[2]
        wanted = schema.get("title") or pascal(key) + "Details"
        name = self.namer.claim(wanted, where)
        self.out[name] = self._define(name, {k: v for k, v in schema.items() if k != "title"})
        return name
