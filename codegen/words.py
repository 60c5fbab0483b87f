"""IR → the functions of the schema modules, in the words of ``codex_acp.wire.words``.

Says about each definition what its annotations say to pydantic (`codegen.rewrite`,
`codegen.aliases`); a test compares the two for every definition.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.errors import CodegenError
from codegen.ir import AliasDef, ClassDef, Definition, EnumDef, FieldDef, Node, UnionDef
from codegen.normalise import NULL
from codegen.rewrite import default_of

_SCALARS = {"boolean": "BOOL", "integer": "INT", "number": "FLOAT", "string": "STR"}
_BOUNDED = {
    "integer": ("integer", {"minimum": "ge", "maximum": "le"}),
    "number": ("number", {"minimum": "ge", "maximum": "le"}),
    "string": ("string", {"minLength": "min_length", "maxLength": "max_length"}),
}

Attributes = Mapping[str, Mapping[str, FieldDef]]
"""Class → its attributes, in order, and the property each stands for."""


def function_of(
    definition: Definition, attributes: Attributes, unstable: frozenset[str] = frozenset()
) -> str:
    """The function that gives the definition's schema or, of a class, its fields.

    ``unstable`` has the names of definitions that are left out where ``ref.unstable`` is false.
    """
    name = definition.name
    try:
        match definition:
            case ClassDef():
                rows = {f"{a!r}: {_field(a, f)}": f for a, f in attributes[name].items()}
                returned, body = (
                    "Fields",
                    _dict(
                        [row for row, f in rows.items() if not f.experimental],
                        [row for row, f in rows.items() if f.experimental],
                    ),
                )
            case EnumDef():
                values = ", ".join(map(repr, definition.values))
                word = "open_enum" if definition.is_open else "literal"
                returned, body = "Schema", f"{word}({values})"
            case UnionDef():
                returned, body = "Schema", _union(definition, attributes, unstable)
            case AliasDef():
                returned, body = "Schema", _word(definition.node)
    except KeyError as error:
        msg = f"{name} needs a word that codex_acp.wire.words does not have: {error}"
        raise CodegenError(msg) from None
    return f"def {name}(ref: Ref) -> {returned}:\n    return {body}\n"


def _dict(rows: list[str], unstable: list[str]) -> str:
    more = [f"**({{{', '.join(unstable)}}} if ref.unstable else {{}})"] if unstable else []
    return f"{{{', '.join([*rows, *more])}}}"


def _word(node: Node) -> str:
    if not node:
        return "ANY"
    if "$ref" in node:
        return f"ref({node['$ref']!r})"
    if "const" in node:
        return f"literal({node['const']!r})"
    if "anyOf" in node:
        inner = node["anyOf"][0]
        # datamodel-code-generator annotates a map that may be null as ``dict[str, Any] | None``.
        word = "mapping(ANY)" if inner.get("type") == "object" else _word(inner)
        return f"nullable({word})"
    if node["type"] == "array":
        return f"array({_word(node['items'])})"
    if node["type"] == "object":
        return f"mapping({_word(node['additionalProperties'])})"
    kind = node["type"]
    word = _SCALARS[kind]
    bounds = {key: value for key, value in node.items() if key != "type"}
    if not bounds:
        return word
    word, arguments = _BOUNDED[kind]
    kept = {arguments[k]: v if kind == "number" else int(v) for k, v in bounds.items()}
    return f"{word}({', '.join(f'{k}={v}' for k, v in kept.items())})"


def _field(attribute: str, field: FieldDef) -> str:
    wire = repr(field.wire) if field.wire != attribute else ""
    if "const" in field.node:
        return _call("tag", repr(field.node["const"]), wire)
    node = field.node
    if field.skip_invalid_items:
        items = node["anyOf"][0] if "anyOf" in node else node
        word = f"array(omit_if_invalid({_word(items['items'])}))"
        word = f"nullable({word})" if "anyOf" in node else word
    else:
        word = _word(node)
    if field.null_as_default:
        word = f"empty_if_null({word})"
    if field.lenient:
        word = f"{'empty' if field.required else 'omit'}_if_invalid({word})"
    default, is_present = default_of(field)
    if not is_present:
        return _call("required", word, wire)
    return _call("optional", word, wire, "" if default is None else f"default={default!r}")


def _call(word: str, *arguments: str) -> str:
    return f"{word}({', '.join(a for a in arguments if a)})"


def _union(definition: UnionDef, attributes: Attributes, unstable: frozenset[str]) -> str:
    unknown = "unknown=UNKNOWN_VARIANT" if definition.is_open else ""
    if definition.kind == "untagged":
        words = [f"ref({m!r})" for m in definition.members]
        words += [_word(node) for node in definition.nodes if node != NULL]
        union = words[0] if len(words) == 1 else _call("untagged", *words)
        return f"nullable({union})" if NULL in definition.nodes else union
    rows: tuple[list[str], list[str]] = ([], [])
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
    if len(classes) == 1:
        return f"ref({classes[0]!r})"
    whole = unstable.issuperset(classes)
    refs = [
        f"*([ref({cls!r})] if ref.unstable else [])"
        if cls in unstable and not whole
        else f"ref({cls!r})"
        for cls in classes
    ]
    return f"untagged({', '.join(refs)})"
