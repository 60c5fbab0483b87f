"""Whether what a form is answered with is what the form asked for (contract 2.5).

Pure, and the one check for both sides: for the agent, which passes an answer on, and for the
client, which sends it. Problems name rules, never a value that a person typed (contract 5.2).

Null is absent. A number with an integral value is an integer (JSON has one kind of number) and
becomes an ``int``. A ``pattern`` is not tried: it is written in another language, by a stranger.
Forms are plain JSON here, which is what both versions of ACP have alike.
Source: ``ElicitationSchema`` of ``schema/acp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, assert_never

from codex_acp.acp.form_formats import misses_format
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.acp.form_formats import StringFormat
    from codex_acp.wire.model import WireModel

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


class Choice(TypedDict, total=False):
    """``EnumOption``."""

    const: str
    title: str
    description: str | None


class Items(TypedDict, total=False):
    """``MultiSelectItems``: one or the other."""

    type: Literal["string"]
    enum: Sequence[str]
    anyOf: Sequence[Choice]


class Field(TypedDict, total=False):
    """``ElicitationPropertySchema``: null is absent, and which keys there are, the type says."""

    type: Literal["string", "integer", "number", "boolean", "array"]
    title: str | None
    description: str | None
    default: object
    format: StringFormat | None
    minLength: int | None
    maxLength: int | None
    enum: Sequence[str] | None
    oneOf: Sequence[Choice] | None
    minimum: float | None
    maximum: float | None
    items: Items
    minItems: int | None
    maxItems: int | None


class Form(TypedDict, total=False):
    """``ElicitationSchema``."""

    type: Literal["object"]
    title: str | None
    description: str | None
    properties: dict[str, Field]
    required: Sequence[str] | None


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


def written(model: WireModel) -> Any:
    """A form of either version, or a field of one, as plain JSON."""
    return plain(model)


def too_large(schema: Form) -> str | None:
    """Why a form is no form for a person; completes the sentence "it was declined because …"."""
    properties = schema.get("properties", {})
    fields = max(len(properties), len(set(schema.get("required") or ())))
    if fields > MAX_FIELDS:
        return f"it has {fields} fields, above the limit of {MAX_FIELDS}"
    choices = [option for field in properties.values() for option in choices_of(field)]
    if len(choices) > MAX_CHOICES:
        return f"it has {len(choices)} choices, above the limit of {MAX_CHOICES}"
    words = sum(len(value) + len(title) for value, title in choices)
    for name, field in properties.items():
        if _is_known(field):
            words += len(name)
            words += len(field.get("title") or "") + len(field.get("description") or "")
    return f"its text is above the limit of {MAX_WORDS} characters" if words > MAX_WORDS else None


def validate(schema: Form, content: Mapping[str, object] | None) -> ValidContent | InvalidContent:
    """``content`` of an accepting answer against the schema that was asked.

    Absent content is that of a form in which nothing was filled in.
    """
    given = content or {}
    properties = schema.get("properties", {})
    required = dict.fromkeys(schema.get("required") or ())
    value: dict[str, object] = {}
    problems: list[Problem] = []
    for name, field in properties.items():
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
        if name not in properties
    ]
    # The names of these are not the form's, so they are not repeated.
    extra = sum(name not in properties for name in given)
    if extra:
        fields = "fields" if extra > 1 else "field"
        problems.append(Problem(None, f"{extra} {fields} the form does not have"))
    return InvalidContent(tuple(problems)) if problems else ValidContent(value)


def misfit(field: Field, value: object) -> str | None:
    """The rule that one value breaks, to be read behind the field's name; None if it fits."""
    if not _is_known(field):
        return "is of a kind that is not known here"
    match field["type"]:
        case "string":
            return _string(field, value)
        case "integer" | "number":
            return _number(field, value)
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "array":
            return _array(field, value)
        case _:
            assert_never(field["type"])


def choices_of(field: Field) -> tuple[tuple[str, str], ...]:
    """The values that may be chosen, each with its title; empty where anything may be said."""
    if field.get("type") == "string":
        return _choices(field.get("enum"), field.get("oneOf"))
    if field.get("type") == "array":
        items = field.get("items", {})
        bare = items.get("enum") if items.get("type") == "string" else None
        return _choices(bare, items.get("anyOf"))
    return ()


def _is_known(field: Field) -> bool:
    return field.get("type") in ("string", "integer", "number", "boolean", "array")


def _choices(
    bare: Sequence[str] | None, titled: Sequence[Choice] | None
) -> tuple[tuple[str, str], ...]:
    if titled is None:
        return tuple((value, value) for value in bare or ())
    return tuple((option["const"], option["title"]) for option in titled)


def _as_asked(field: Field, value: object) -> object:
    """A value that fits, with 3.0 as 3 where an integer is asked."""
    if field["type"] == "integer" and isinstance(value, float):
        return int(value)
    return value


def _string(field: Field, value: object) -> str | None:
    """Lengths count code points, as JSON Schema does."""
    offers = field.get("enum") is not None or field.get("oneOf") is not None
    shortest, longest, form = field.get("minLength"), field.get("maxLength"), field.get("format")
    if offers and not (isinstance(value, str) and value in dict(choices_of(field))):
        return "must be one of its choices"
    if not isinstance(value, str):
        return "must be text"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "must be text without broken characters"
    if shortest is not None and len(value) < shortest:
        return f"must have at least {shortest} characters"
    if longest is not None and len(value) > longest:
        return f"must have at most {longest} characters"
    return None if form is None else misses_format(value, form)


def _number(field: Field, value: object) -> str | None:
    low, high = field.get("minimum"), field.get("maximum")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not _is_finite(value):
        return "must be a number that can be carried"
    if field["type"] == "integer":
        if not float(value).is_integer():
            return "must be a whole number"
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            return "must fit in 64 bits"
    if low is not None and not value >= low:
        return f"must be at least {_written(low)}"
    if high is not None and not value <= high:
        return f"must be at most {_written(high)}"
    return None


def _written(bound: float) -> str:
    """A bound as a person writes it: 3, not 3.0."""
    return str(int(bound)) if isinstance(bound, int) or bound.is_integer() else str(bound)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every double
        return False


def _array(field: Field, value: object) -> str | None:
    fewest, most = field.get("minItems"), field.get("maxItems")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of its choices"
    if not dict(choices_of(field)).keys() >= set(value):
        return "must contain nothing but its choices"
    if len(set(value)) != len(value):
        return "must not contain a choice twice"
    if fewest is not None and len(value) < fewest:
        return f"must contain at least {fewest} choices"
    if most is not None and len(value) > most:
        return f"must contain at most {most} choices"
    return None
