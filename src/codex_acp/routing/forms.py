"""PURE: convert the form of an MCP server to an ACP form (contract 2.2, 2.5).

A schema is converted only if nothing of it gets lost. If ACP cannot express a part of it, or this
library could not check the answer, the schema is `Unrepresentable` and the request is declined.
ACP has ``pattern``, but the answer would have to be matched against a hostile server's regular
expression, in another dialect: such a schema is declined. Titles and descriptions become visible
(`codex_acp.routing.display`); values never change.

MCP writes choices in six ways and ACP in two. `FormChoice` is one choice, also of the model's
questions (``item/tool/requestUserInput``, `routing.elicitations`).

Sources: ``McpElicitationSchema`` of ``schema/codex``, ``ElicitationSchema`` of ``schema/acp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from codex_acp._json import list_at, object_at
from codex_acp.acp.form_answers import (
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_INTEGER,
    MIN_INTEGER,
    misfit,
    why_too_large,
    why_too_many,
)
from codex_acp.codex._generated import models
from codex_acp.errors import InvalidPayload
from codex_acp.routing.display import is_plain, shortened, visible
from codex_acp.wire.codec import decode
from codex_acp.wire.model import UnknownValue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codex_acp.acp.form_answers import Choice, Field, Form
    from codex_acp.wire.model import WireModel


SingleSelect: TypeAlias = (
    models.McpElicitationUntitledSingleSelectEnumSchema
    | models.McpElicitationTitledSingleSelectEnumSchema
    | models.McpElicitationLegacyTitledEnumSchema
)
MultiSelect: TypeAlias = (
    models.McpElicitationUntitledMultiSelectEnumSchema
    | models.McpElicitationTitledMultiSelectEnumSchema
)


@dataclass(frozen=True, slots=True)
class FormChoice:
    """One value to choose, with the title and the description that the person sees."""

    const: str
    title: str
    description: str | None = None


def distinct(choices: Iterable[FormChoice]) -> tuple[FormChoice, ...] | None:
    """Return choices without repetitions; None if a value has two titles or descriptions, because
    the answer would not show which of them the person chose."""
    by_value: dict[str, FormChoice] = {}
    for choice in choices:
        if by_value.setdefault(choice.const, choice) != choice:
            return None
    return tuple(by_value.values())


def enum_options(choices: Iterable[FormChoice]) -> list[Choice]:
    """Convert choices to ACP, with their texts made visible."""
    options: list[Choice] = []
    for choice in choices:
        options.append({"const": choice.const, "title": visible(choice.title)})
        if choice.description is not None:
            options[-1]["description"] = visible(choice.description, multiline=True)
    return options


_KEYWORDS: Final = frozenset(
    {
        "type", "title", "description", "default", "minimum", "maximum", "minLength", "maxLength",
        "format", "enum", "enumNames", "oneOf", "items", "minItems", "maxItems", "uniqueItems",
    }
)  # fmt: skip
"""Keywords of `McpElicitationPrimitiveSchema`, and ``uniqueItems``: no answer repeats a choice."""
_CHOICES: Final = (("enum",), ("oneOf",), ("items", "enum"), ("items", "anyOf"))
"""Paths in a field at which its choices can be."""
MAX_LABEL: Final = 100
"""Characters of a field's name in a sentence."""


def field_label(name: str) -> str:
    """Return a field's name for a sentence: visible, on one line, not too long."""
    return f'"{visible(shortened(name, MAX_LABEL))}"'


class LossError(Exception):
    """The reason why a conversion would lose something; caught in this module."""


def _require_known_keywords(where: str, model: WireModel, **harmless: type) -> None:
    """Raise LossError for a keyword that ``model`` does not define, unless it is ``harmless``.
    ``harmless`` maps a keyword to its type: the form keeps this keyword, or every answer obeys it
    (no choice twice, choices are strings, no other fields). A keyword with null is ignored."""
    for keyword, value in (model.model_extra or {}).items():
        if value is None or isinstance(value, harmless.get(keyword, ())):
            continue
        raise LossError(f"{where} uses {field_label(keyword)}, which an ACP form cannot say")


def _why_unreadable(schema: object) -> str:
    """Return why JSON is no `McpElicitationSchema`: the field and the keyword to blame."""
    if not isinstance(schema, dict):
        return "its schema is no JSON object"
    if schema.get("type") != "object":
        return "its schema does not say that it is an object"
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return 'its schema has no "properties"'
    for name, source in properties.items():
        try:
            decode(models.McpElicitationSchema, {"type": "object", "properties": {name: source}})
        except InvalidPayload:
            return f"its field {field_label(name)} {_why_field_unreadable(source)}"
    return 'its "required" or "$schema" does not read'


def _why_field_unreadable(source: object) -> str:
    if not isinstance(source, dict):
        return "is no schema"
    for keyword in source:
        if keyword not in _KEYWORDS:
            return f"uses {field_label(keyword)}, which an ACP form cannot say"
    kind = source.get("type")
    if not isinstance(kind, str):
        return 'has no single "type"'
    if kind not in ("string", "number", "integer", "boolean", "array"):
        return f'has the "type" {field_label(kind)}, and ACP forms are flat'
    if kind == "array":
        return 'is a list whose "items" are no choices'
    return f"is of type {kind}, but a keyword of it does not read"


@dataclass(frozen=True, slots=True)
class Unrepresentable:
    """A form that ACP cannot carry; ``reason`` completes "it was declined because …"."""

    reason: str


def acp_form(schema: models.McpElicitationSchema) -> Form | Unrepresentable:
    """Return ``schema`` as an ACP form, or why ACP cannot carry it. A form without fields is a
    yes/no question."""
    try:
        form = _form(schema)
    except LossError as loss:
        return Unrepresentable(str(loss))
    reason = why_too_large(form)
    return form if reason is None else Unrepresentable(reason)


def acp_form_of_json(schema: object) -> Form | Unrepresentable:
    """Convert the JSON of a form in the modes ``openai/form`` and ``openaiForm``."""
    fields = object_at(schema, "properties")
    counted = islice(fields.values(), MAX_FIELDS)  # a form with more fails anyway
    choices = sum(len(list_at(field, *path)) for field in counted for path in _CHOICES)
    if (reason := why_too_many(len(fields), choices)) is not None:  # `decode` takes long
        return Unrepresentable(reason)
    try:
        source = decode(models.McpElicitationSchema, schema)
    except InvalidPayload:
        return Unrepresentable(_why_unreadable(schema))
    return acp_form(source)


def _form(schema: models.McpElicitationSchema) -> Form:
    _require_known_keywords(
        "its schema", schema, title=str, description=str, additionalProperties=bool
    )
    if "type" not in schema.model_fields_set:
        raise LossError("its schema does not say that it is an object")
    reason = why_too_many(len(schema.properties), 0)  # before the fields are converted
    if reason is not None:
        raise LossError(reason)
    form: Form = {
        "type": "object",
        "properties": {name: _field(name, source) for name, source in schema.properties.items()},
    }
    required = list(dict.fromkeys(schema.required or ()))
    for name in required:
        if name not in schema.properties:
            raise LossError(f"it requires {field_label(name)}, which is not one of its fields")
    if required:
        form["required"] = required
    extra = schema.model_extra or {}
    if extra.get("title") is not None:
        form["title"] = visible(extra["title"])
    if extra.get("description") is not None:
        form["description"] = visible(extra["description"], multiline=True)
    return form


def _field(name: str, source: models.McpElicitationPrimitiveSchema) -> Field:
    where = f"its field {field_label(name)}"
    # ``uniqueItems`` can be ignored: no answer repeats a choice.
    harmless = {"uniqueItems": bool} if isinstance(source, MultiSelect) else {}
    _require_known_keywords(where, source, **harmless)
    choices = _choices_of(where, source)
    if "type" not in source.model_fields_set:
        raise LossError(f"{where} does not say its type")
    field: Field
    match source:
        case models.McpElicitationStringSchema():
            field = _text_field(where, source)
        case models.McpElicitationNumberSchema():
            field = _number_field(where, source)
        case models.McpElicitationBooleanSchema():
            field = {"type": "boolean"}
        case (
            models.McpElicitationUntitledSingleSelectEnumSchema()
            | models.McpElicitationTitledSingleSelectEnumSchema()
            | models.McpElicitationLegacyTitledEnumSchema()
            | models.McpElicitationUntitledMultiSelectEnumSchema()
            | models.McpElicitationTitledMultiSelectEnumSchema()
        ):
            field = _choice_field(where, source, choices)
        case _:
            assert_never(source)
    # A default is only a suggestion: leave it out if it does not fit, or if it has an invisible
    # character, which the person would send unseen.
    default = source.default
    if isinstance(source, models.McpElicitationStringSchema) and default is not None:
        default = default if is_plain(str(default), multiline=True) else None
    if default is not None and misfit(field, default) is None:
        is_integer = field["type"] == "integer"
        field["default"] = int(default) if is_integer and isinstance(default, float) else default
    if source.title is not None:
        field["title"] = visible(source.title)
    elif not is_plain(name):
        field["title"] = visible(name)
    if source.description is not None:
        field["description"] = visible(source.description, multiline=True)
    return field


# --- values ------------------------------------------------------------------------------------


def _text_field(where: str, source: models.McpElicitationStringSchema) -> Field:
    field: Field = {"type": "string"}
    _require_order(where, "minLength", source.min_length, "maxLength", source.max_length)
    if source.min_length is not None:
        field["minLength"] = source.min_length
    if source.max_length is not None:
        field["maxLength"] = source.max_length
    match source.format:
        case None:
            pass
        case UnknownValue():
            label = field_label(source.format)
            raise LossError(f"{where} has the format {label}, which is not known")
        case "email" | "uri" | "date" | "date-time":
            field["format"] = source.format
        case _:
            assert_never(source.format)
    return field


def _number_field(where: str, source: models.McpElicitationNumberSchema) -> Field:
    """Return a field for a number. The bounds of an integer are rounded inwards, to integers that
    ACP can carry."""
    low, high = source.minimum, source.maximum
    for keyword, bound in (("minimum", low), ("maximum", high)):
        if bound is not None and not math.isfinite(bound):
            raise LossError(f"{where} has a {keyword} that is no finite number")
    is_integer = source.type == "integer"
    if is_integer:
        low = MIN_INTEGER if low is None else max(math.ceil(low), MIN_INTEGER)
        high = MAX_INTEGER if high is None else min(math.floor(high), MAX_INTEGER)
    _require_order(where, "minimum", low, "maximum", high)
    field: Field = {"type": "integer" if is_integer else "number"}
    if low is not None and not (is_integer and low == MIN_INTEGER):
        field["minimum"] = low
    if high is not None and not (is_integer and high == MAX_INTEGER):
        field["maximum"] = high
    return field


def _require_order(
    where: str, low_name: str, low: float | None, high_name: str, high: float | None
) -> None:
    if low is not None and high is not None and low > high:
        raise LossError(f"{where} can have no value: its {low_name} is above its {high_name}")


# --- choices -----------------------------------------------------------------------------------


def _choices_of(where: str, source: models.McpElicitationPrimitiveSchema) -> list[FormChoice]:
    """Return the choices of a field in their order; a choice without a title has its value as
    title. Raises LossError for a keyword that the form would ignore."""
    match source:
        case (
            models.McpElicitationStringSchema()
            | models.McpElicitationNumberSchema()
            | models.McpElicitationBooleanSchema()
        ):
            return []
        case models.McpElicitationUntitledSingleSelectEnumSchema():
            return [FormChoice(value, value) for value in source.enum]
        case models.McpElicitationTitledSingleSelectEnumSchema():
            return [_titled_choice(where, option) for option in source.one_of]
        case models.McpElicitationLegacyTitledEnumSchema():
            names = source.enum_names or []
            return [*map(FormChoice, source.enum, [*names, *source.enum[len(names) :]])]
        case models.McpElicitationUntitledMultiSelectEnumSchema():
            _require_known_keywords(where, source.items)
            return [FormChoice(value, value) for value in source.items.enum]
        case models.McpElicitationTitledMultiSelectEnumSchema():
            _require_known_keywords(where, source.items, type=str)
            if (source.items.model_extra or {}).get("type") not in (None, "string"):
                raise LossError(f'{where} has items of another "type" than string')
            return [_titled_choice(where, option) for option in source.items.any_of]
        case _:
            assert_never(source)


def _titled_choice(where: str, option: models.McpElicitationConstOption) -> FormChoice:
    _require_known_keywords(where, option, description=str)
    return FormChoice(option.const, option.title, (option.model_extra or {}).get("description"))


def _choice_field(where: str, source: SingleSelect | MultiSelect, given: list[FormChoice]) -> Field:
    """Return a field for one choice or several. Choices have titles if the source has some, or if a
    value is not fully visible."""
    choices = distinct(given)
    if choices is None:
        raise LossError(f"{where} offers one value under two names")
    if len(choices) > MAX_CHOICES:
        raise LossError(f"{where} offers {len(choices)} choices, above the limit of {MAX_CHOICES}")
    if not choices:
        raise LossError(f"{where} offers nothing to choose from")
    values = [choice.const for choice in choices]
    bare = isinstance(
        source,
        models.McpElicitationUntitledSingleSelectEnumSchema
        | models.McpElicitationUntitledMultiSelectEnumSchema,
    )
    titled = None if bare and all(map(is_plain, values)) else enum_options(choices)
    if isinstance(source, SingleSelect):
        if titled is None:
            return {"type": "string", "enum": values}
        return {"type": "string", "oneOf": titled}
    _require_order(where, "minItems", source.min_items, "maxItems", source.max_items)
    _require_order(where, "minItems", source.min_items, "number of choices", len(choices))
    field: Field = {"type": "array"}
    field["items"] = {"type": "string", "enum": values} if titled is None else {"anyOf": titled}
    if source.min_items is not None:
        field["minItems"] = source.min_items
    if source.max_items is not None:
        field["maxItems"] = source.max_items
    return field
