"""Annotations of generated fields: how to read unions and invalid values.

Only classes that pydantic itself makes use these annotations: for introspection, and in the models
of other packages. The generated schemas say the same.
Source of the lenient rules: the ACP schema's ``x-deserialize-*`` annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

from codex_acp._record import record
from codex_acp.wire import words
from codex_acp.wire.model import UnknownValue, UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import Field as Field  # noqa: PLC0414 - passed on
    from pydantic import GetCoreSchemaHandler as Handler
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

    from codex_acp.wire.lazy import Schema
else:

    def Field(**arguments: Any) -> Any:  # noqa: N802 # as pydantic calls it
        """Call pydantic's ``Field``, whose import takes long and only introspection needs."""
        from pydantic import Field as PydanticField

        return PydanticField(**arguments)


class Bounds:
    """Bounds of a number, or of a string in a named alias."""

    def __init__(self, **bounds: int) -> None:
        self._bounds = bounds

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> CoreSchema:
        return cast("CoreSchema", {**handler(source), **self._bounds})


class _Mark:
    """Changes how the annotated value is read: ``word`` makes its schema from the usual one."""

    def __init__(self, word: Callable[[Schema], Schema]) -> None:
        self._word = word

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> CoreSchema:
        return cast("CoreSchema", self._word(cast("Schema", handler(source))))


def _not_null(schema: Schema) -> Schema:
    """Take out the outermost ``nullable``, and the defaults around it."""
    while schema["type"] in ("default", "nullable"):
        is_last = schema["type"] == "nullable"
        schema = schema["schema"]
        if is_last:
            break
    return schema


OMIT_IF_INVALID = _Mark(words.omit_if_invalid)
"""An invalid value reads as absent; in a list, the item is dropped."""
EMPTY_IF_INVALID = _Mark(words.empty_if_invalid)
"""An invalid value of a required list reads as empty; a missing list is an error."""
EMPTY_IF_NULL = _Mark(words.empty_if_null)
"""Null reads as an empty list or map."""
NOT_NULL = _Mark(_not_null)
"""The type is ``T | None``, but None means absent: null is refused in reading and writing."""


class OpenEnum:
    """``Literal[...] | UnknownValue``: a known value, or another string marked as unknown."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> CoreSchema:
        del handler
        known, _ = get_args(source)
        return cast("CoreSchema", words.open_enum(*get_args(known)))


@record(frozen=True)
class TaggedUnion:
    """A union whose members differ in the literal of the field ``tag``.

    ``choices`` lists (literal, number of classes with it), in the order of the union's members.
    With ``has_default`` the last class has no tag. If the union includes UnknownVariant, an object
    with an unknown tag becomes one; malformed data with a known tag stays an error.
    """

    tag: str
    choices: tuple[tuple[str, int], ...]
    has_default: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> CoreSchema:
        members = get_args(source) or (source,)
        is_open = members[-1] is UnknownVariant
        schemas = cast("list[Schema]", [handler.generate_schema(m) for m in members])
        by_tag: dict[str, Schema] = {}
        at = 0
        for literal, count in self.choices:
            group = schemas[at : at + count]
            by_tag[literal] = group[0] if count == 1 else words.untagged(*group)
            at += count
        attribute = next(
            (n for n, f in members[0].__pydantic_fields__.items() if f.alias == self.tag), ""
        )
        union = words.tagged(
            self.tag,
            by_tag,
            attribute=attribute,
            without=schemas[at] if self.has_default else None,
            unknown=schemas[-1] if is_open else None,
        )
        return cast("CoreSchema", union)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        json_schema = handler(schema)
        for part in (json_schema, *json_schema.get("anyOf", ())):
            mapping = part.get("discriminator", {}).get("mapping", {})
            if not all(isinstance(name, str) for name in mapping.values()):
                # OpenAPI has no form for two classes with one tag, and refuses pydantic's.
                del part["discriminator"]
        return json_schema


class KeyedUnion:
    """String literals, and objects that differ in their one key; open with UnknownVariant."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def __get_pydantic_core_schema__(self, source: Any, handler: Handler) -> CoreSchema:
        members = [m for m in get_args(source) if m not in (UnknownValue, UnknownVariant)]
        classes = members[-len(self.keys) :]
        literals = get_args(members[0]) if len(members) > len(classes) else ()
        schemas = cast("list[Schema]", [handler.generate_schema(cls) for cls in classes])
        unknown = cast("Schema", handler.generate_schema(UnknownVariant))
        union = words.keyed(
            *literals,
            members=dict(zip(self.keys, schemas, strict=True)),
            unknown=unknown if UnknownVariant in get_args(source) else None,
        )
        return cast("CoreSchema", union)
