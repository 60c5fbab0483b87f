"""The words that generated schema modules are written in; each gives plain pydantic-core data.

``_generated/schemas/X.py`` has one function for each definition of ``_generated/models/X.py``.
A class's function gives its fields (`required`, `optional`, `tag`), every other one a schema.
What a word means is what pydantic would make of the annotation: a test compares all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import PydanticCustomError

from codex_acp.wire.lazy import Schema, schema_of
from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Refuses: TypeAlias = Callable[[dict[str, Any], str, frozenset[str]], bool]

Value: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None

# --- values -------------------------------------------------------------------------------

ANY: Schema = {"type": "any"}
BOOL: Schema = {"type": "bool"}
FLOAT: Schema = {"type": "float"}
INT: Schema = {"type": "int"}
STR: Schema = {"type": "str"}


def integer(**bounds: int) -> Schema:
    """A whole number within ``ge`` and ``le``."""
    return {"type": "int", **bounds}


def number(**bounds: float) -> Schema:
    """A number within ``ge`` and ``le``."""
    return {"type": "float", **bounds}


def string(**bounds: int) -> Schema:
    """A string of ``min_length`` to ``max_length`` characters."""
    return {"type": "str", **bounds}


def array(items: Schema) -> Schema:
    """``list[items]``."""
    return {"type": "list", "items_schema": items}


def mapping(values: Schema) -> Schema:
    """``dict[str, values]``."""
    return {"type": "dict", "keys_schema": STR, "values_schema": values}


def nullable(schema: Schema) -> Schema:
    """``schema | None``."""
    return {"type": "nullable", "schema": schema}


def literal(*values: str | int) -> Schema:
    """One of ``values``."""
    return {"type": "literal", "expected": list(values)}


# --- values that may be of a newer peer, or wrong ---------------------------------------------

UNKNOWN_VALUE: Schema = {
    "type": "function-after",
    "function": {"type": "no-info", "function": UnknownValue},
    "schema": STR,
}
"""Any string, marked as unknown."""

UNKNOWN_VARIANT: Schema = schema_of(UnknownVariant)
"""Any object, kept whole."""


def open_enum(*values: str) -> Schema:
    """One of ``values``, or another string as an UnknownValue."""
    return _first_of(literal(*values), UNKNOWN_VALUE)


def omit_if_invalid(schema: Schema) -> Schema:
    """A value that does not fit reads as absent; in a list, the item is dropped."""
    return {"type": "default", "schema": schema, "on_error": "omit"}


def empty_if_invalid(schema: Schema) -> Schema:
    """A list that does not fit reads as empty."""
    function = {"type": "no-info", "function": empty_list}
    return _first_of(schema, {"type": "function-plain", "function": function})


def empty_if_null(schema: Schema) -> Schema:
    """Null reads as the empty list or map."""
    inner = schema
    while inner["type"] == "default":
        inner = inner["schema"]
    make = empty_dict if inner["type"] == "dict" else empty_list
    function = {"type": "no-info", "function": make}
    null = {"type": "function-after", "function": function, "schema": {"type": "none"}}
    return _first_of(schema, null)


def empty_list(_: object) -> list[Any]:
    """Return an empty list, in place of one that cannot be read."""
    return []


def empty_dict(_: object) -> dict[str, Any]:
    """Return an empty map, in place of one that is null."""
    return {}


# --- unions -------------------------------------------------------------------------------


def untagged(*members: Schema) -> Schema:
    """A union told apart by trying; the member that fits most fields wins."""
    flat: list[Schema] = []
    for member in members:
        plain = member["type"] == "union" and "mode" not in member
        flat += member["choices"] if plain else [member]
    return {"type": "union", "choices": flat}


def tagged(
    name: str,
    members: dict[str, Schema],
    *,
    attribute: str = "",
    without: Schema | None = None,
    unknown: Schema | None = None,
) -> Schema:
    """Objects told apart by the literal under ``name`` (in Python ``attribute``).

    ``without`` is the member that has no such literal. In an open union an object with an
    unknown one is read as ``unknown``; malformed data under a known one stays an error.
    """
    discriminator = name if attribute in ("", name) else [[name], [attribute]]
    options: list[Schema] = [
        {"type": "tagged-union", "choices": members, "discriminator": discriminator}
    ]
    if without is not None:
        options.append(_unless(OthersObject(has_known_tag, name, members), without))
    if unknown is not None:
        options.append(_unless(OthersObject(has_no_unknown_tag, name, members), unknown))
    return options[0] if len(options) == 1 else _first_of(*options)


def keyed(*literals: str, members: dict[str, Schema], unknown: Schema | None = None) -> Schema:
    """String literals, and objects told apart by their one key; open as a tagged union is."""
    options = [literal(*literals)] if literals else []
    options += members.values()
    if unknown is not None:
        options += [UNKNOWN_VALUE, _unless(OthersObject(has_known_key, "", members), unknown)]
    return _first_of(*options)


def _first_of(*options: Schema) -> Schema:
    return {"type": "union", "choices": list(options), "mode": "left_to_right"}


def _unless(check: OthersObject, schema: Schema) -> Schema:
    """``schema``, but not for an object that belongs to another member."""
    function = {"type": "no-info", "function": check}
    return {"type": "function-before", "function": function, "schema": schema}


class OthersObject:
    """Refuses an object that belongs to another member of a union, and what is no object."""

    __slots__ = ("known", "refuses", "tag")
    __name__ = "check"  # how pydantic-core calls it in the place of an error

    def __init__(self, refuses: Refuses, tag: str, known: Iterable[str]) -> None:
        self.refuses: Refuses = refuses
        self.tag: str = tag
        self.known: frozenset[str] = frozenset(known)

    def __call__(self, value: object) -> object:
        if isinstance(value, dict) and self.refuses(value, self.tag, self.known):
            raise PydanticCustomError("known_tag", "the value belongs to another member")
        if not isinstance(value, dict | WireModel):
            raise PydanticCustomError("not_an_object", "expected an object")
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OthersObject) and other._parts == self._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.refuses, self.tag, self.known


def has_known_tag(value: dict[str, Any], tag: str, known: frozenset[str]) -> bool:
    """The object has one of the literals under the tag."""
    literal = value.get(tag)
    return isinstance(literal, str) and literal in known


def has_no_unknown_tag(value: dict[str, Any], tag: str, known: frozenset[str]) -> bool:
    """The object has no literal under the tag, or a known one."""
    literal = value.get(tag)
    return not isinstance(literal, str) or literal in known


def has_known_key(value: dict[str, Any], _: str, known: frozenset[str]) -> bool:
    """The object has one of the keys."""
    return not known.isdisjoint(value)


# --- fields of a class --------------------------------------------------------------------


def required(schema: Schema, wire: str = "") -> Schema:
    """A field that must be there; ``wire`` is its name there, if it is another."""
    if wire:
        return {
            "type": "model-field",
            "schema": schema,
            "validation_alias": wire,
            "serialization_alias": wire,
        }
    return {"type": "model-field", "schema": schema}


def optional(schema: Schema, wire: str = "", default: Value = None) -> Schema:
    """A field that may be absent, and what it reads as then."""
    return required({"type": "default", "schema": schema, "default": default}, wire)


def tag(value: str, wire: str = "") -> Schema:
    """A field that can hold one value only."""
    return optional(literal(value), wire, value)
