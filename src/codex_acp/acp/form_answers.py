"""Whether what a form is answered with is what the form asked for (contract 2.5).

Pure, and the one check for both sides: for the agent, which passes an answer on, and for the
client, which sends it. Problems name rules, never a value that a person typed (contract 5.2).

Null is absent. A number with an integral value is an integer (JSON has one kind of number) and
becomes an ``int``. A ``pattern`` is not tried: it is written in another language, by a stranger.
Source: ``ElicitationSchema`` of ``schema/acp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from codex_acp.acp._generated.v1 import models
from codex_acp.acp.form_formats import misses_format
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.acp._generated.v1.models import (
        ElicitationPropertySchema,
        ElicitationSchema,
        EnumOption,
    )

MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
"""ACP's integers are 64 bits wide; what is beyond is no longer an integer in many parsers."""

MAX_FIELDS: Final = 500
"""No person fills in more; whoever asks for them wants something else."""

MAX_CHOICES: Final = 10_000
"""Of all fields together: a list of countries, or of time zones, in some fields."""

MAX_WORDS: Final = 1024 * 1024
"""Characters of all names, titles and descriptions together."""

MAX_PROBLEMS: Final = 10
"""More wrong fields than this help nobody; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A field by its name, and the rule that it breaks: to be read one behind the other."""

    field: str | None
    """None for what is wrong with the whole."""
    rule: str


@dataclass(frozen=True, slots=True)
class ValidContent:
    """Content that fits: the fields that have a value, null ones left out."""

    value: dict[str, object]


@dataclass(frozen=True, slots=True)
class InvalidContent:
    """Content that does not fit."""

    problems: tuple[Problem, ...]

    def sentences(self, label: Callable[[str], str] = repr) -> tuple[str, ...]:
        """The first problems; ``label`` writes a field's name, which is a stranger's word."""
        told = [
            problem.rule if problem.field is None else f"{label(problem.field)} {problem.rule}"
            for problem in self.problems[:MAX_PROBLEMS]
        ]
        if len(self.problems) > MAX_PROBLEMS:
            told.append(f"and {len(self.problems) - MAX_PROBLEMS} more")
        return tuple(told)


def too_large(schema: ElicitationSchema) -> str | None:
    """Why a form is no form for a person; completes the sentence "it was declined because …"."""
    fields = max(len(schema.properties), len(set(schema.required or ())))
    if fields > MAX_FIELDS:
        return f"it has {fields} fields, above the limit of {MAX_FIELDS}"
    choices = [option for field in schema.properties.values() for option in choices_of(field)]
    if len(choices) > MAX_CHOICES:
        return f"it has {len(choices)} choices, above the limit of {MAX_CHOICES}"
    words = sum(len(value) + len(title) for value, title in choices)
    for name, field in schema.properties.items():
        if not isinstance(field, UnknownVariant):
            words += len(name) + len(field.title or "") + len(field.description or "")
    return f"its text is above the limit of {MAX_WORDS} characters" if words > MAX_WORDS else None


def validate(
    schema: ElicitationSchema, content: Mapping[str, object] | None
) -> ValidContent | InvalidContent:
    """``content`` of an accepting answer against the schema that was asked.

    Absent content is that of a form in which nothing was filled in.
    """
    given = content or {}
    required = dict.fromkeys(schema.required or ())
    value: dict[str, object] = {}
    problems: list[Problem] = []
    for name, field in schema.properties.items():
        item = given.get(name)
        if item is None:
            if name in required:
                problems.append(Problem(name, "is required"))
            continue
        rule = misfit(field, item)
        if rule is None:
            value[name] = _as_asked(field, item)
        else:
            problems.append(Problem(name, rule))
    problems += [
        Problem(name, "is required but is no field of the form")
        for name in required
        if name not in schema.properties
    ]
    # The names of these are not the form's, so they are not repeated.
    extra = sum(name not in schema.properties for name in given)
    if extra:
        fields = "fields" if extra > 1 else "field"
        problems.append(Problem(None, f"{extra} {fields} the form does not have"))
    return InvalidContent(tuple(problems)) if problems else ValidContent(value)


def misfit(field: ElicitationPropertySchema, value: object) -> str | None:
    """The rule that one value breaks, to be read behind the field's name; None if it fits."""
    match field:
        case models.StringElicitationPropertySchema():
            return _string(field, value)
        case models.IntegerElicitationPropertySchema() | models.NumberElicitationPropertySchema():
            return _number(field, value)
        case models.BooleanElicitationPropertySchema():
            return None if isinstance(value, bool) else "must be true or false"
        case models.ArrayElicitationPropertySchema():
            return _array(field, value)
        case UnknownVariant():
            return "is of a kind that is not known here"
        case _:
            assert_never(field)


def choices_of(field: ElicitationPropertySchema) -> tuple[tuple[str, str], ...]:
    """The values that may be chosen, each with its title; empty where anything may be said."""
    match field:
        case models.StringElicitationPropertySchema():
            return _bare(field.enum or []) if field.one_of is None else _titled(field.one_of)
        case models.ArrayElicitationPropertySchema():
            match field.items:
                case models.TitledMultiSelectItems():
                    return _titled(field.items.any_of)
                case models.StringMultiSelectItems():
                    return _bare(field.items.enum)
                case UnknownVariant():
                    return ()
                case _:
                    assert_never(field.items)
        case (
            models.IntegerElicitationPropertySchema()
            | models.NumberElicitationPropertySchema()
            | models.BooleanElicitationPropertySchema()
            | UnknownVariant()
        ):
            return ()
        case _:
            assert_never(field)


def _titled(options: list[EnumOption]) -> tuple[tuple[str, str], ...]:
    return tuple((option.const, option.title) for option in options)


def _bare(values: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((value, value) for value in values)


def _as_asked(field: ElicitationPropertySchema, value: object) -> object:
    """A value that fits, with 3.0 as 3 where an integer is asked."""
    if isinstance(field, models.IntegerElicitationPropertySchema) and isinstance(value, float):
        return int(value)
    return value


def _string(field: models.StringElicitationPropertySchema, value: object) -> str | None:
    """Lengths count code points, as JSON Schema does."""
    offers = field.enum is not None or field.one_of is not None
    if offers and not (isinstance(value, str) and value in dict(choices_of(field))):
        return "must be one of its choices"
    if not isinstance(value, str):
        return "must be text"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "must be text without broken characters"
    if field.min_length is not None and len(value) < field.min_length:
        return f"must have at least {field.min_length} characters"
    if field.max_length is not None and len(value) > field.max_length:
        return f"must have at most {field.max_length} characters"
    return None if field.format is None else misses_format(value, field.format)


def _number(
    field: models.IntegerElicitationPropertySchema | models.NumberElicitationPropertySchema,
    value: object,
) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not _is_finite(value):
        return "must be a number that can be carried"
    if isinstance(field, models.IntegerElicitationPropertySchema):
        if not float(value).is_integer():
            return "must be a whole number"
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            return "must fit in 64 bits"
    if field.minimum is not None and not value >= field.minimum:
        return f"must be at least {_written(field.minimum)}"
    if field.maximum is not None and not value <= field.maximum:
        return f"must be at most {_written(field.maximum)}"
    return None


def _written(bound: float) -> str:
    """A bound as a person writes it: 3, not 3.0."""
    return str(int(bound)) if float(bound).is_integer() else str(bound)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every double
        return False


def _array(field: models.ArrayElicitationPropertySchema, value: object) -> str | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of its choices"
    if not dict(choices_of(field)).keys() >= set(value):
        return "must contain nothing but its choices"
    if len(set(value)) != len(value):
        return "must not contain a choice twice"
    if field.min_items is not None and len(value) < field.min_items:
        return f"must contain at least {field.min_items} choices"
    if field.max_items is not None and len(value) > field.max_items:
        return f"must contain at most {field.max_items} choices"
    return None
