"""Write the functions of the schema modules, which call the functions of ``codex_acp.wire.words``.

Here those functions are called words. A definition's function makes the core schema that pydantic
would derive from the definition's annotations (`codegen.rewrite`, `codegen.aliases`); a test
compares the two for every definition.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.aliases import BOUNDS
from codegen.errors import CodegenError
from codegen.ir import AliasDef, ClassDef, Definition, EnumDef, FieldDef, Node, UnionDef
from codegen.normalise import NULL
from codegen.rewrite import default_of

_SCALARS = {"boolean": "BOOL", "integer": "INT", "number": "FLOAT", "string": "STR"}
Attributes = Mapping[str, Mapping[str, FieldDef]]
"""Class → its attributes in order → the property of each."""


def function_of(
    definition: Definition, attributes: Attributes, unstable: frozenset[str] = frozenset()
) -> str:
    """Return the function that returns the definition's schema or, for a class, its fields.

    ``unstable`` has the definitions that the schema leaves out if ``ref.unstable`` is false.
    """
    name = definition.name
    try:
        match definition:
            case ClassDef():
                rows: tuple[list[str], list[str]] = ([], [])
                for attribute, field in attributes[name].items():
                    rows[field.experimental].append(f"{attribute!r}: {_field(attribute, field)}")
                body = _dict(*rows)
            case EnumDef():
                values = ", ".join(map(repr, definition.values))
                body = f"{'open_enum' if definition.is_open else 'literal'}({values})"
            case UnionDef():
                body = _union(definition, attributes, unstable)
            case AliasDef():
                body = _schema(definition.node)
    except KeyError as error:
        msg = f"{name} needs a word that codex_acp.wire.words does not have: {error}"
        raise CodegenError(msg) from None
    returned = "Fields" if isinstance(definition, ClassDef) else "Schema"
    return f"def {name}(ref: Ref) -> {returned}:\n    return {body}\n"


def _dict(stable: list[str], unstable: list[str]) -> str:
    """Return the source of a dict, whose ``unstable`` items depend on ``ref.unstable``."""
    more = [f"**({{{', '.join(unstable)}}} if ref.unstable else {{}})"] if unstable else []
    return f"{{{', '.join([*stable, *more])}}}"


def _schema(node: Node) -> str:
    """Return the source of the core schema of a node."""
    if not node:
        return "ANY"
    if "$ref" in node:
        return f"ref({node['$ref']!r})"
    if "const" in node:
        return f"literal({node['const']!r})"
    if "anyOf" in node:
        inner = node["anyOf"][0]
        # datamodel-code-generator annotates a map that may be null as ``dict[str, Any] | None``.
        return f"nullable({'mapping(ANY)' if inner.get('type') == 'object' else _schema(inner)})"
    if node["type"] == "array":
        return f"array({_schema(node['items'])})"
    if node["type"] == "object":
        return f"mapping({_schema(node['additionalProperties'])})"
    kind = node["type"]
    bounds = {BOUNDS[key]: value for key, value in node.items() if key != "type"}
    if not bounds:
        return _SCALARS[kind]
    limits = [f"{k}={v if kind == 'number' else int(v)}" for k, v in bounds.items()]
    return f"{kind}({', '.join(limits)})"


def _field(attribute: str, field: FieldDef) -> str:
    wire = repr(field.wire) if field.wire != attribute else ""
    if "const" in field.node:
        return _call("tag", repr(field.node["const"]), wire)
    node = field.node
    if field.skip_invalid_items:
        items = node["anyOf"][0] if "anyOf" in node else node
        schema = f"array(omit_if_invalid({_schema(items['items'])}))"
        schema = f"nullable({schema})" if "anyOf" in node else schema
    else:
        schema = _schema(node)
    if field.null_as_default:
        schema = f"empty_if_null({schema})"
    if field.lenient:
        schema = f"{'empty' if field.required else 'omit'}_if_invalid({schema})"
    default, has_default = default_of(field)
    if not has_default:
        return _call("required", schema, wire)
    return _call("optional", schema, wire, "" if default is None else f"default={default!r}")


def _call(word: str, *arguments: str) -> str:
    return f"{word}({', '.join(a for a in arguments if a)})"


def _union(definition: UnionDef, attributes: Attributes, unstable: frozenset[str]) -> str:
    unknown = "unknown=UNKNOWN_VARIANT" if definition.is_open else ""
    if definition.kind == "untagged":
        schemas = [f"ref({m!r})" for m in definition.members]
        schemas += [_schema(node) for node in definition.nodes if node != NULL]
        union = schemas[0] if len(schemas) == 1 else _call("untagged", *schemas)
        return f"nullable({union})" if NULL in definition.nodes else union
    rows: tuple[list[str], list[str]] = ([], [])  # the stable and the unstable ones
    for key, group in definition.choices:
        rows[unstable.issuperset(group)].append(f"{key!r}: {_group(group, unstable)}")
    choices = _dict(*rows)
    if definition.kind == "keyed":
        return _call("keyed", *map(repr, definition.literals), f"members={choices}", unknown)
    first = attributes[definition.members[0]]
    attribute = next(a for a, f in first.items() if f.wire == definition.tag)
    return _call(
        "tagged",
        repr(definition.tag),
        choices,
        f"attribute={attribute!r}" if attribute != definition.tag else "",
        f"without=ref({definition.default!r})" if definition.default else "",
        unknown,
    )


def _group(classes: tuple[str, ...], unstable: frozenset[str]) -> str:
    """Return the source of the core schema of all classes with one tag."""
    if len(classes) == 1:
        return f"ref({classes[0]!r})"
    all_unstable = unstable.issuperset(classes)  # then the caller leaves out the whole group
    refs = [
        f"*([ref({cls!r})] if ref.unstable else [])"
        if cls in unstable and not all_unstable
        else f"ref({cls!r})"
        for cls in classes
    ]
    return f"untagged({', '.join(refs)})"
