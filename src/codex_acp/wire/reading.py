"""Annotations that generated fields carry: how to read unions and what may be wrong in a value.

Everything here runs inside pydantic-core; Python is called only for values that do not fit.
Source of the lenient rules: the ACP schema's ``x-deserialize-*`` annotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from codex_acp.wire.model import UnknownValue, UnknownVariant, WireModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler

__all__ = [
    "EMPTY_IF_INVALID",
    "EMPTY_IF_NULL",
    "KeyedUnion",
    "NOT_NULL",
    "OMIT_IF_INVALID",
    "OpenEnum",
    "TaggedUnion",
]


class _OmitIfInvalid:
    """A value that does not fit reads as absent; in a list, the item is dropped."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), on_error="omit")


class _EmptyIfInvalid:
    """A required list whose value does not fit reads as empty; a missing one is an error."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        empty = core_schema.no_info_plain_validator_function(lambda _: [])
        return core_schema.union_schema([handler(source), empty], mode="left_to_right")


class _EmptyIfNull:
    """Null reads as the empty list or map."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        inner = handler(source)
        make: Callable[[Any], Any] = (
            (lambda _: {}) if _unwrapped(inner)["type"] == "dict" else (lambda _: [])
        )
        empty = core_schema.no_info_after_validator_function(make, core_schema.none_schema())
        return core_schema.union_schema([inner, empty], mode="left_to_right")


class _NotNull:
    """Typed ``T | None`` where None means absent: null itself is refused, read and written."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        inner = _unwrapped(handler(source))
        bare: CoreSchema = inner["schema"] if inner["type"] == "nullable" else inner
        return bare


def _unwrapped(schema: Any) -> Any:
    while schema["type"] == "default":
        schema = schema["schema"]
    return schema


OMIT_IF_INVALID = _OmitIfInvalid()
EMPTY_IF_INVALID = _EmptyIfInvalid()
EMPTY_IF_NULL = _EmptyIfNull()
NOT_NULL = _NotNull()


class OpenEnum:
    """``Literal[...] | UnknownValue``: the known values, or any other string marked as unknown."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        known, unknown = get_args(source)
        return core_schema.union_schema(
            [handler.generate_schema(known), handler.generate_schema(unknown)],
            mode="left_to_right",
        )


class TaggedUnion:
    """Classes told apart by the literal under ``tag``.

    ``choices`` lists (literal, number of classes under it), in the order of the union's members.
    With ``has_default`` the last class is the one without a tag. If the union includes
    UnknownVariant, an object under an unknown tag becomes one; malformed data under a known tag
    stays an error.
    """

    def __init__(
        self, tag: str, choices: tuple[tuple[str, int], ...], *, has_default: bool = False
    ) -> None:
        self.tag = tag
        self.choices = choices
        self.has_default = has_default

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        members = get_args(source) or (source,)
        is_open = members[-1] is UnknownVariant
        schemas = [handler.generate_schema(m) for m in members]
        by_tag: dict[Any, CoreSchema] = {}
        at = 0
        for literal, count in self.choices:
            group = schemas[at : at + count]
            by_tag[literal] = group[0] if count == 1 else core_schema.union_schema(list(group))
            at += count
        options: list[CoreSchema] = [self._tagged(by_tag, members)]
        if self.has_default:
            options.append(_unless(self._has_known_tag, schemas[at]))
        if is_open:
            options.append(_unless(self._has_no_unknown_tag, schemas[-1]))
        if len(options) == 1:
            return options[0]
        return core_schema.union_schema(list(options), mode="left_to_right")

    def _tagged(self, by_tag: dict[Any, CoreSchema], members: tuple[Any, ...]) -> CoreSchema:
        attribute = next(
            (n for n, f in members[0].__pydantic_fields__.items() if (f.alias or n) == self.tag),
            self.tag,
        )
        key: Any = self.tag if attribute == self.tag else [[self.tag], [attribute]]
        return core_schema.tagged_union_schema(by_tag, discriminator=key)

    def _has_known_tag(self, value: dict[str, Any]) -> bool:
        tag = value.get(self.tag)  # of a peer: anything, hashable or not
        return any(tag == literal for literal, _ in self.choices)

    def _has_no_unknown_tag(self, value: dict[str, Any]) -> bool:
        return not isinstance(value.get(self.tag), str) or self._has_known_tag(value)


class KeyedUnion:
    """String literals, and objects told apart by their one key; open when UnknownVariant is in."""

    def __init__(self, *keys: str) -> None:
        self.keys = frozenset(keys)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        options: list[CoreSchema] = []
        late: list[CoreSchema] = []
        for member in get_args(source):
            schema = handler.generate_schema(member)
            if member is UnknownVariant:
                late.append(_unless(self._has_known_key, schema))
            elif member is UnknownValue:
                late.append(schema)
            else:
                options.append(schema)
        return core_schema.union_schema([*options, *late], mode="left_to_right")

    def _has_known_key(self, value: dict[str, Any]) -> bool:
        return not self.keys.isdisjoint(value)


def _unless(refuse: Callable[[dict[str, Any]], bool], schema: CoreSchema) -> CoreSchema:
    """``schema``, but not for an object that ``refuse`` says belongs to another member."""

    def check(value: object) -> object:
        if isinstance(value, dict) and refuse(value):
            raise PydanticCustomError("known_tag", "the value belongs to another member")
        if not isinstance(value, dict | WireModel):
            raise PydanticCustomError("not_an_object", "expected an object")
        return value

    return core_schema.no_info_before_validator_function(check, schema)
