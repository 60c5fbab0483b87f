"""PURE: whether what came back from a form is what the form asked for (contract 2.5).

Owns the check. Must not know where the content came from nor what happens to it. Problems name
fields and rules, never a value that a person typed (contract 5.2).

The schema is one that `codex_acp.routing.forms` could represent: keywords beyond
``McpElicitationSchema`` are not looked at here. Null is absent. A number with an integral value
is an integer (JSON has one kind of number) and becomes an ``int``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.codex._generated.models import (
    McpElicitationBooleanSchema,
    McpElicitationLegacyTitledEnumSchema,
    McpElicitationNumberSchema,
    McpElicitationStringSchema,
    McpElicitationTitledMultiSelectEnumSchema,
    McpElicitationTitledSingleSelectEnumSchema,
    McpElicitationUntitledMultiSelectEnumSchema,
    McpElicitationUntitledSingleSelectEnumSchema,
)
from codex_acp.routing.display import shortened, visible
from codex_acp.routing.form_choices import choices_of
from codex_acp.routing.form_formats import misses_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.codex._generated.models import (
        McpElicitationPrimitiveSchema,
        McpElicitationSchema,
    )
    from codex_acp.routing.form_choices import MultiSelect, SingleSelect

__all__ = [
    "InvalidContent",
    "MAX_INTEGER",
    "MIN_INTEGER",
    "ValidContent",
    "field_label",
    "fits",
    "validate",
]

MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
"""ACP's integers are 64 bits wide; what is beyond is no longer an integer in many parsers."""

MAX_PROBLEMS: Final = 10
"""More wrong fields than this help nobody; the rest is counted."""

MAX_LABEL: Final = 100
"""Characters of a field's name in a sentence; more would drown the sentence."""


@dataclass(frozen=True, slots=True)
class ValidContent:
    """Content that fits: the fields that have a value, null ones left out."""

    value: dict[str, object]


@dataclass(frozen=True, slots=True)
class InvalidContent:
    """Content that does not fit; each problem names a field and the rule it breaks."""

    problems: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.problems)


def validate(
    content: Mapping[str, object] | None, schema: McpElicitationSchema
) -> ValidContent | InvalidContent:
    """``content`` of an accepting answer against the schema that was asked.

    Absent content is that of a form in which nothing was filled in.
    """
    given = content or {}
    value: dict[str, object] = {}
    problems: list[str] = []
    for name, asked in schema.properties.items():
        item = given.get(name)
        if item is None:
            if name in (schema.required or ()):
                problems.append(f"{field_label(name)} is required")
            continue
        problem = _misfit(item, asked)
        if problem is None:
            value[name] = _as_asked(item, asked)
        else:
            problems.append(f"{field_label(name)} {problem}")
    problems += _strangers(given, schema)
    if not problems:
        return ValidContent(value)
    shown = problems[:MAX_PROBLEMS]
    if len(problems) > MAX_PROBLEMS:
        shown.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return InvalidContent(tuple(shown))


def fits(value: object, asked: McpElicitationPrimitiveSchema) -> bool:
    """Whether one value is what one field asks for."""
    return _misfit(value, asked) is None


def field_label(name: str) -> str:
    """A field's name for a sentence: visible, on one line, not too long."""
    return f'"{visible(shortened(name, MAX_LABEL))}"'


def _strangers(given: Mapping[str, object], schema: McpElicitationSchema) -> list[str]:
    """What the schema requires without having it, and how much came that it does not have.

    The names of the latter are the client's, so they are not repeated.
    """
    problems = [
        f"{field_label(name)} is required but is no field of the form"
        for name in dict.fromkeys(schema.required or ())
        if name not in schema.properties
    ]
    extra = sum(name not in schema.properties for name in given)
    if extra:
        problems.append(f"{extra} field{'s' if extra > 1 else ''} the form does not have")
    return problems


def _as_asked(value: object, asked: McpElicitationPrimitiveSchema) -> object:
    """A value that fits, with 3.0 as 3 where an integer is asked."""
    if isinstance(asked, McpElicitationNumberSchema) and asked.type == "integer":
        return int(value) if isinstance(value, float) else value
    return value


def _misfit(value: object, asked: McpElicitationPrimitiveSchema) -> str | None:
    """The rule that ``value`` breaks, to be read behind the field's name."""
    match asked:
        case McpElicitationStringSchema():
            return _string(value, asked)
        case McpElicitationNumberSchema():
            return _number(value, asked)
        case McpElicitationBooleanSchema():
            return None if isinstance(value, bool) else "must be true or false"
        case (
            McpElicitationUntitledSingleSelectEnumSchema()
            | McpElicitationTitledSingleSelectEnumSchema()
            | McpElicitationLegacyTitledEnumSchema()
        ):
            return _choice(value, asked)
        case (
            McpElicitationUntitledMultiSelectEnumSchema()
            | McpElicitationTitledMultiSelectEnumSchema()
        ):
            return _choices(value, asked)
        case _:
            assert_never(asked)


def _string(value: object, asked: McpElicitationStringSchema) -> str | None:
    """Lengths count code points, as JSON Schema does."""
    if not isinstance(value, str):
        return "must be text"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "must be text without broken characters"
    if asked.min_length is not None and len(value) < asked.min_length:
        return f"must have at least {asked.min_length} characters"
    if asked.max_length is not None and len(value) > asked.max_length:
        return f"must have at most {asked.max_length} characters"
    return None if asked.format is None else misses_format(value, asked.format)


def _number(value: object, asked: McpElicitationNumberSchema) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not _is_finite(value):
        return "must be a number that can be carried"
    if asked.type == "integer" and not float(value).is_integer():
        return "must be a whole number"
    if asked.type == "integer" and not MIN_INTEGER <= value <= MAX_INTEGER:
        return "must fit in 64 bits"
    if asked.minimum is not None and not value >= asked.minimum:
        return f"must be at least {_written(asked.minimum)}"
    if asked.maximum is not None and not value <= asked.maximum:
        return f"must be at most {_written(asked.maximum)}"
    return None


def _written(bound: float) -> str:
    """A bound as a person writes it: 3, not 3.0."""
    return str(int(bound)) if bound.is_integer() else str(bound)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every double
        return False


def _choice(value: object, asked: SingleSelect) -> str | None:
    if isinstance(value, str) and any(value == choice.const for choice in choices_of(asked)):
        return None
    return "must be one of its choices"


def _choices(value: object, asked: MultiSelect) -> str | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of its choices"
    if not {choice.const for choice in choices_of(asked)}.issuperset(value):
        return "must contain nothing but its choices"
    if len(set(value)) != len(value):
        return "must not contain a choice twice"
    if asked.min_items is not None and len(value) < asked.min_items:
        return f"must contain at least {asked.min_items} choices"
    if asked.max_items is not None and len(value) > asked.max_items:
        return f"must contain at most {asked.max_items} choices"
    return None
