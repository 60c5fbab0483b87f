"""The building blocks of generated schema modules; each returns plain pydantic-core data.

``_generated/schemas/X.py`` has one function for each definition of ``_generated/models/X.py``. The
function of a class returns its fields (`required`, `optional`, `tag`), any other function a schema.
Each building block returns the schema that pydantic makes of the annotation: a test compares both.
Only lists and maps differ: their validation ends at the first invalid entry, because each error
takes a kilobyte, and a peer may send a million invalid entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import PydanticCustomError

from codex_acp._record import record
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
    """Return the schema of a whole number within ``ge`` and ``le``."""
    return {"type": "int", **bounds}


def number(**bounds: float) -> Schema:
    """Return the schema of a number within ``ge`` and ``le``."""
    return {"type": "float", **bounds}


def string(**bounds: int) -> Schema:
    """Return the schema of a string of ``min_length`` to ``max_length`` characters."""
    return {"type": "str", **bounds}


def array(items: Schema) -> Schema:
    """Return the schema of ``list[items]``."""
    return {"type": "list", "items_schema": items, "fail_fast": True}


def mapping(values: Schema) -> Schema:
    """Return the schema of ``dict[str, values]``."""
    return {"type": "dict", "keys_schema": STR, "values_schema": values, "fail_fast": True}


def nullable(schema: Schema) -> Schema:
    """Return the schema of ``schema | None``."""
    return {"type": "nullable", "schema": schema}


def literal(*values: str | int) -> Schema:
    """Return the schema of one of ``values``."""
    return {"type": "literal", "expected": list(values)}


# --- values of a newer peer, and invalid values -----------------------------------------------

UNKNOWN_VALUE: Schema = {
    "type": "function-after",
    "function": {"type": "no-info", "function": UnknownValue},
    "schema": STR,
}
"""Any string, marked as unknown."""

UNKNOWN_VARIANT: Schema = schema_of(UnknownVariant)
"""Any object, with all its members."""


def open_enum(*values: str) -> Schema:
    """Accept one of ``values``, or another string as an UnknownValue."""
    return _first_of(literal(*values), UNKNOWN_VALUE)


def omit_if_invalid(schema: Schema) -> Schema:
    """Read an invalid value as absent; in a list, drop the item."""
    return {"type": "default", "schema": schema, "on_error": "omit"}


def empty_if_invalid(schema: Schema) -> Schema:
    """Read an invalid list as empty."""
    function = {"type": "no-info", "function": empty_list}
    return _first_of(schema, {"type": "function-plain", "function": function})


def empty_if_null(schema: Schema) -> Schema:
    """Read null as an empty list or map."""
    inner = schema
    while inner["type"] == "default":
        inner = inner["schema"]
    make = empty_dict if inner["type"] == "dict" else empty_list
    function = {"type": "no-info", "function": make}
    null = {"type": "function-after", "function": function, "schema": {"type": "none"}}
    return _first_of(schema, null)


def empty_list(_: object) -> list[Any]:
    return []


def empty_dict(_: object) -> dict[str, Any]:
    return {}


# --- unions -------------------------------------------------------------------------------


def untagged(*members: Schema) -> Schema:
    """Try each member of a union; the one in which most fields fit wins."""
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
    """Choose a member by the literal in the field ``name`` (in Python ``attribute``). ``without``
    is the member that has no such field. In an open union, an object with an unknown literal is
    read as ``unknown``; malformed data with a known literal stays an error."""
    discriminator = name if attribute in ("", name) else [[name], [attribute]]
    options: list[Schema] = [
        {"type": "tagged-union", "choices": members, "discriminator": discriminator}
    ]
    if without is not None:
        options.append(_unless(without, has_known_tag, name, members))
    if unknown is not None:
        options.append(_unless(unknown, has_known_or_no_tag, name, members))
    return options[0] if len(options) == 1 else _first_of(*options)


def keyed(*literals: str, members: dict[str, Schema], unknown: Schema | None = None) -> Schema:
    """Accept string literals, and choose a member for an object by its one key. In an open union,
    other strings and objects are read as unknown."""
    options = [literal(*literals)] if literals else []
    options += members.values()
    if unknown is not None:
        options += [UNKNOWN_VALUE, _unless(unknown, has_known_key, "", members)]
    return _first_of(*options)


def _first_of(*options: Schema) -> Schema:
    return {"type": "union", "choices": list(options), "mode": "left_to_right"}


def _unless(schema: Schema, refuses: Refuses, tag: str, known: Iterable[str]) -> Schema:
    """Return ``schema`` behind a check that the object belongs to no other member."""
    check = BelongsToNoOther(refuses, tag, frozenset(known))
    function = {"type": "no-info", "function": check}
    return {"type": "function-before", "function": function, "schema": schema}


@record(frozen=True)
class BelongsToNoOther:
    """Refuses an object that belongs to another member of a union, and what is no object."""

    __name__ = "check"  # its name in pydantic-core's errors

    refuses: Refuses
    tag: str
    known: frozenset[str]

    def __call__(self, value: object) -> object:
        if isinstance(value, dict) and self.refuses(value, self.tag, self.known):
            raise PydanticCustomError("known_tag", "the value belongs to another member")
        if not isinstance(value, dict | WireModel):
            raise PydanticCustomError("not_an_object", "expected an object")
        return value


def has_known_tag(value: dict[str, Any], tag: str, known: frozenset[str]) -> bool:
    """Return whether the tag's literal is a known one."""
    literal = value.get(tag)
    return isinstance(literal, str) and literal in known


def has_known_or_no_tag(value: dict[str, Any], tag: str, known: frozenset[str]) -> bool:
    """Return whether the tag's literal is a known one or missing."""
    literal = value.get(tag)
    return not isinstance(literal, str) or literal in known


def has_known_key(value: dict[str, Any], _: str, known: frozenset[str]) -> bool:
    """Return whether the object has one of the known keys."""
    return not known.isdisjoint(value)


# --- fields of a class --------------------------------------------------------------------


def required(schema: Schema, wire: str = "") -> Schema:
    """Return a field that must be present; ``wire`` is its name on the wire, if that differs."""
    if wire:
        return {
            "type": "model-field",
            "schema": schema,
            "validation_alias": wire,
            "serialization_alias": wire,
        }
    return {"type": "model-field", "schema": schema}


def optional(schema: Schema, wire: str = "", default: Value = None) -> Schema:
    """Return a field that may be absent, and then has the default."""
    return required({"type": "default", "schema": schema, "default": default}, wire)


def tag(value: str, wire: str = "") -> Schema:
    """Return a field with a single possible value."""
    return optional(literal(value), wire, value)
