"""PURE: convert the form of an MCP server to an ACP form (contract 2.2, 2.5).

A schema is converted only if nothing of it gets lost. If ACP cannot say a part of it, or this
library could not check the answer, it is `Unrepresentable` and the request is declined. That holds
for a ``pattern``, too, although ACP has it: the answer would have to be matched against a hostile
server's regular expression, in another dialect. Titles and descriptions are made visible
(`codex_acp.routing.display`); values are never changed.

MCP writes choices in six ways and ACP in two. A choice is its value and the words that a person
sees for it (`FormChoice`), which the forms of the model's own questions use, too.

Sources: ``McpElicitationSchema`` of ``schema/codex``, ``ElicitationSchema`` of ``schema/acp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from codex_acp.acp.form_answers import (
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_INTEGER,
    MIN_INTEGER,
    misfit,
    too_large,
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
    """One value to choose, the words for it, and what it means."""

    const: str
    title: str
    description: str | None = None


def choices_of(asked: SingleSelect | MultiSelect) -> tuple[FormChoice, ...]:
    """The choices in their order. A value without a name of its own is its own name."""
    match asked:
        case models.McpElicitationUntitledSingleSelectEnumSchema():
            return tuple(FormChoice(value, value) for value in asked.enum)
        case models.McpElicitationTitledSingleSelectEnumSchema():
            return tuple(map(_titled, asked.one_of))
        case models.McpElicitationLegacyTitledEnumSchema():
            names = asked.enum_names or []
            padded = [*names, *asked.enum[len(names) :]]
            return tuple(map(FormChoice, asked.enum, padded))
        case models.McpElicitationUntitledMultiSelectEnumSchema():
            return tuple(FormChoice(value, value) for value in asked.items.enum)
        case models.McpElicitationTitledMultiSelectEnumSchema():
            return tuple(map(_titled, asked.items.any_of))
        case _:
            assert_never(asked)


def distinct(choices: Iterable[FormChoice]) -> tuple[FormChoice, ...] | None:
    """Choices without exact repetitions; None if one value has two sets of words: a person who
    chose by the words could not be told from one who chose by the others.
    """
    found: dict[str, FormChoice] = {}
    for choice in choices:
        if found.setdefault(choice.const, choice) != choice:
            return None
    return tuple(found.values())


def enum_options(choices: Iterable[FormChoice]) -> list[Choice]:
    """Write choices as ACP does: words made visible, values unchanged."""
    options: list[Choice] = []
    for choice in choices:
        options.append({"const": choice.const, "title": visible(choice.title)})
        if choice.description is not None:
            options[-1]["description"] = visible(choice.description, multiline=True)
    return options


def _titled(option: models.McpElicitationConstOption) -> FormChoice:
    description = (option.model_extra or {}).get("description")
    return FormChoice(option.const, option.title, description)


_KEYWORDS: Final = frozenset(
    {
        "type", "title", "description", "default", "minimum", "maximum", "minLength", "maxLength",
        "format", "enum", "enumNames", "oneOf", "items", "minItems", "maxItems", "uniqueItems",
    }
)  # fmt: skip
"""All that `McpElicitationPrimitiveSchema` knows, and what is harmless."""


MAX_LABEL: Final = 100
"""Characters of a field's name in a sentence; more would drown the sentence."""


def field_label(name: str) -> str:
    """A field's name for a sentence: visible, on one line, not too long."""
    return f'"{visible(shortened(name, MAX_LABEL))}"'


class LossError(Exception):
    """Unwinds the conversion of a form; its text is the reason. Never leaves `routing.forms`."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where} {what}")


def nothing_lost(at: str, asked: models.McpElicitationPrimitiveSchema) -> None:
    """Raise for a keyword that neither the form nor the check of its answer would know."""
    match asked:
        case (
            models.McpElicitationStringSchema()
            | models.McpElicitationNumberSchema()
            | models.McpElicitationBooleanSchema()
            | models.McpElicitationUntitledSingleSelectEnumSchema()
            | models.McpElicitationLegacyTitledEnumSchema()
        ):
            no_more(at, asked)
        case models.McpElicitationTitledSingleSelectEnumSchema():
            no_more(at, asked)
            for option in asked.one_of:
                no_more(at, option, description=str)
        case models.McpElicitationUntitledMultiSelectEnumSchema():
            no_more(at, asked, uniqueItems=bool)
            no_more(at, asked.items)
        case models.McpElicitationTitledMultiSelectEnumSchema():
            no_more(at, asked, uniqueItems=bool)
            no_more(at, asked.items, type=str)
            if (asked.items.model_extra or {}).get("type") not in (None, "string"):
                raise LossError(at, 'has items of another "type" than string')
            for option in asked.items.any_of:
                no_more(at, option, description=str)
        case _:
            assert_never(asked)
    if "type" not in asked.model_fields_set:
        raise LossError(at, "does not say its type")


def no_more(at: str, model: WireModel, **harmless: type) -> None:
    """``harmless`` are keywords beyond MCP's that are kept, or that say what is so anyway (no
    choice twice, choices are strings, no other fields). A null says nothing.
    """
    for keyword, value in (model.model_extra or {}).items():
        if value is None or isinstance(value, harmless.get(keyword, ())):
            continue
        raise LossError(at, f"uses {field_label(keyword)}, which an ACP form cannot say")


def what_does_not_read(schema: object) -> str:
    """Why free JSON is no `McpElicitationSchema`: the field and the keyword to blame."""
    if not isinstance(schema, dict):
        return "its schema is no JSON object"
    if schema.get("type") != "object":
        return "its schema does not say that it is an object"
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return 'its schema has no "properties"'
    for name, asked in properties.items():
        try:
            decode(models.McpElicitationSchema, {"type": "object", "properties": {name: asked}})
        except InvalidPayload:
            return f"its field {field_label(name)} {_what_is_wrong(asked)}"
    return 'its "required" or "$schema" does not read'


def _what_is_wrong(asked: object) -> str:
    if not isinstance(asked, dict):
        return "is no schema"
    for keyword in asked:
        if keyword not in _KEYWORDS:
            return f"uses {field_label(keyword)}, which an ACP form cannot say"
    kind = asked.get("type")
    if not isinstance(kind, str):
        return 'has no single "type"'
    if kind not in ("string", "number", "integer", "boolean", "array"):
        return f'has the "type" {field_label(kind)}, and ACP forms are flat'
    if kind == "array":
        return 'is a list whose "items" are no choices'
    return f"is of type {kind}, but a keyword of it does not read"


@dataclass(frozen=True, slots=True)
class AcpForm:
    """A form that ACP can carry without loss. No fields: a yes/no question."""

    schema: Form
    """Sent with ``elicitation/create``; the answer is checked against it."""


@dataclass(frozen=True, slots=True)
class Unrepresentable:
    """A form that ACP cannot carry; ``reason`` completes "it was declined because …"."""

    reason: str


def acp_form(schema: models.McpElicitationSchema) -> AcpForm | Unrepresentable:
    """Return ``schema`` as an ACP form, or why that would lose something."""
    try:
        form = _form(schema)
    except LossError as loss:
        return Unrepresentable(str(loss))
    reason = too_large(form)
    return AcpForm(form) if reason is None else Unrepresentable(reason)


def acp_form_of_json(schema: object) -> AcpForm | Unrepresentable:
    """The same for the free JSON of the modes ``openai/form`` and ``openaiForm``."""
    try:
        asked = decode(models.McpElicitationSchema, schema)
    except InvalidPayload:
        return Unrepresentable(what_does_not_read(schema))
    return acp_form(asked)


def _form(schema: models.McpElicitationSchema) -> Form:
    no_more("its schema", schema, title=str, description=str, additionalProperties=bool)
    if "type" not in schema.model_fields_set:
        raise LossError("its schema", "does not say that it is an object")
    if len(schema.properties) > MAX_FIELDS:  # before anything is made of them
        fields = len(schema.properties)
        raise LossError("it", f"has {fields} fields, above the limit of {MAX_FIELDS}")
    form: Form = {
        "type": "object",
        "properties": {name: _property(name, p) for name, p in schema.properties.items()},
    }
    required = list(dict.fromkeys(schema.required or ()))
    for name in required:
        if name not in schema.properties:
            raise LossError("it", f"requires {field_label(name)}, which is not one of its fields")
    if required:
        form["required"] = required
    extra = schema.model_extra or {}
    if extra.get("title") is not None:
        form["title"] = visible(extra["title"])
    if extra.get("description") is not None:
        form["description"] = visible(extra["description"], multiline=True)
    return form


def _property(name: str, asked: models.McpElicitationPrimitiveSchema) -> Field:
    at = f"its field {field_label(name)}"
    nothing_lost(at, asked)
    made: Field
    match asked:
        case models.McpElicitationStringSchema():
            made = _string(at, asked)
        case models.McpElicitationNumberSchema():
            made = _integer(at, asked) if asked.type == "integer" else _number(at, asked)
        case models.McpElicitationBooleanSchema():
            made = {"type": "boolean"}
            if asked.default is not None:
                made["default"] = asked.default
        case (
            models.McpElicitationUntitledSingleSelectEnumSchema()
            | models.McpElicitationTitledSingleSelectEnumSchema()
            | models.McpElicitationLegacyTitledEnumSchema()
        ):
            made = _single_choice(at, asked)
        case (
            models.McpElicitationUntitledMultiSelectEnumSchema()
            | models.McpElicitationTitledMultiSelectEnumSchema()
        ):
            made = _several_choices(at, asked)
        case _:
            assert_never(asked)
    if asked.title is not None:
        made["title"] = visible(asked.title)
    elif not is_plain(name):
        made["title"] = visible(name)
    if asked.description is not None:
        made["description"] = visible(asked.description, multiline=True)
    return made


# --- values ------------------------------------------------------------------------------------


def _string(at: str, asked: models.McpElicitationStringSchema) -> Field:
    made: Field = {"type": "string"}
    _ordered(at, "minLength", asked.min_length, "maxLength", asked.max_length)
    if asked.min_length is not None:
        made["minLength"] = asked.min_length
    if asked.max_length is not None:
        made["maxLength"] = asked.max_length
    match asked.format:
        case None:
            pass
        case UnknownValue():
            raise LossError(at, f"has the format {field_label(asked.format)}, which is not known")
        case "email" | "uri" | "date" | "date-time":
            made["format"] = asked.format
        case _:
            assert_never(asked.format)
    # With an invisible character in the default, a person would send what they cannot see.
    default = asked.default
    if default is not None and misfit(made, default) is None and is_plain(default, multiline=True):
        made["default"] = default
    return made


def _number(at: str, asked: models.McpElicitationNumberSchema) -> Field:
    made: Field = {"type": "number"}
    _finite(at, asked)
    _ordered(at, "minimum", asked.minimum, "maximum", asked.maximum)
    if asked.minimum is not None:
        made["minimum"] = asked.minimum
    if asked.maximum is not None:
        made["maximum"] = asked.maximum
    if asked.default is not None and misfit(made, asked.default) is None:
        made["default"] = asked.default
    return made


def _integer(at: str, asked: models.McpElicitationNumberSchema) -> Field:
    """Return an integer field; its bounds are rounded inwards, to integers that ACP can carry."""
    made: Field = {"type": "integer"}
    _finite(at, asked)
    low = MIN_INTEGER if asked.minimum is None else max(math.ceil(asked.minimum), MIN_INTEGER)
    high = MAX_INTEGER if asked.maximum is None else min(math.floor(asked.maximum), MAX_INTEGER)
    _ordered(at, "minimum", low, "maximum", high)
    if low != MIN_INTEGER:
        made["minimum"] = low
    if high != MAX_INTEGER:
        made["maximum"] = high
    if asked.default is not None and misfit(made, asked.default) is None:
        made["default"] = int(asked.default)
    return made


def _finite(at: str, asked: models.McpElicitationNumberSchema) -> None:
    for keyword, bound in (("minimum", asked.minimum), ("maximum", asked.maximum)):
        if bound is not None and not math.isfinite(bound):
            raise LossError(at, f"has a {keyword} that is no finite number")


def _ordered(at: str, low_name: str, low: float | None, high_name: str, high: float | None) -> None:
    if low is not None and high is not None and low > high:
        raise LossError(at, f"can have no value: its {low_name} is above its {high_name}")


# --- choices -----------------------------------------------------------------------------------


def _single_choice(at: str, asked: SingleSelect) -> Field:
    made: Field = {"type": "string"}
    choices = _choices(at, asked)
    if _need_titles(asked, choices):
        made["oneOf"] = enum_options(choices)
    else:
        made["enum"] = [choice.const for choice in choices]
    if asked.default is not None and misfit(made, asked.default) is None:
        made["default"] = asked.default
    return made


def _several_choices(at: str, asked: MultiSelect) -> Field:
    choices = _choices(at, asked)
    _ordered(at, "minItems", asked.min_items, "maxItems", asked.max_items)
    _ordered(at, "minItems", asked.min_items, "number of choices", len(choices))
    made: Field = {"type": "array"}
    if _need_titles(asked, choices):
        made["items"] = {"anyOf": enum_options(choices)}
    else:
        made["items"] = {"type": "string", "enum": [choice.const for choice in choices]}
    if asked.min_items is not None:
        made["minItems"] = asked.min_items
    if asked.max_items is not None:
        made["maxItems"] = asked.max_items
    if asked.default is not None and misfit(made, asked.default) is None:
        made["default"] = asked.default
    return made


def _choices(at: str, asked: SingleSelect | MultiSelect) -> tuple[FormChoice, ...]:
    choices = distinct(choices_of(asked))
    if choices is not None and len(choices) > MAX_CHOICES:
        raise LossError(at, f"offers {len(choices)} choices, above the limit of {MAX_CHOICES}")
    if choices is None:
        raise LossError(at, "offers one value under two names")
    if not choices:
        raise LossError(at, "offers nothing to choose from")
    return choices


def _need_titles(asked: SingleSelect | MultiSelect, choices: tuple[FormChoice, ...]) -> bool:
    """Return whether choices need titles: they have some, or a bare value is not fully visible."""
    bare = isinstance(
        asked,
        models.McpElicitationUntitledSingleSelectEnumSchema
        | models.McpElicitationUntitledMultiSelectEnumSchema,
    )
    return not bare or any(
        c.title != c.const or not is_plain(c.const) or c.description is not None for c in choices
    )
