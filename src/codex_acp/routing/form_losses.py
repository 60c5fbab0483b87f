"""PURE: what of a requested schema a form over ACP would lose (contract 2.5).

Owns the knowledge of which keywords are carried or checked; must not know how. A keyword that is
neither makes the whole form unrepresentable: an answer that was not held against it would be
passed on as if it fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex._generated import models
from codex_acp.errors import InvalidPayload
from codex_acp.routing.display import shortened, visible
from codex_acp.wire.codec import decode

if TYPE_CHECKING:
    from codex_acp.wire.model import WireModel

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
