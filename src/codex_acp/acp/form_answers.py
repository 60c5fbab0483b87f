"""PURE: check the answer to a form against the form (contract 2.5).

The agent uses this check before it passes an answer on, and the client before it sends an answer.
Problems name rules, never a value that a person typed (contract 5.2).

Null counts as absent. A whole number such as 3.0 counts as an integer and becomes an ``int``. A
``pattern`` is not checked: the asker is not trusted, and JSON Schema has another dialect of regular
expressions than Python.
Forms are plain JSON here, the same in both versions of ACP.

Sources: ``ElicitationSchema`` of ``schema/acp``. The formats are from JSON Schema 2020-12
validation, section 7.3: ``email`` is the mailbox of RFC 5321 (without quoted local parts and
address literals), ``uri`` is from RFC 3986, ``date`` and ``date-time`` are from RFC 3339, which has
no date-time without an offset.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, assert_never
from urllib.parse import urlsplit

from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.wire.model import WireModel


StringFormat: TypeAlias = Literal["email", "uri", "date", "date-time"]


MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
"""ACP's integers have 64 bits; many parsers read larger ones as floats."""
MAX_FIELDS: Final = 500
"""Fields of one form: no person fills in more."""
MAX_CHOICES: Final = 10_000
"""Choices of all fields together: enough for several lists of countries or time zones."""
MAX_CHARACTERS: Final = 1024 * 1024
"""Characters of all names, titles and descriptions together."""
MAX_PROBLEMS: Final = 10
"""Wrong fields that are named; further ones are only counted."""


class Choice(TypedDict, total=False):
    """One choice of a field: ``EnumOption`` of the schema."""

    const: str
    title: str
    description: str | None


class Items(TypedDict, total=False):
    """Choices of an array field, as ``enum`` or ``anyOf``: ``MultiSelectItems`` of the schema."""

    type: Literal["string"]
    enum: Sequence[str]
    anyOf: Sequence[Choice]


class Field(TypedDict, total=False):
    """One field: ``ElicitationPropertySchema``. Null counts as absent; ``type`` decides which
    other keys the field can have."""

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
    """A form: ``ElicitationSchema`` of the schema."""

    type: Literal["object"]
    title: str | None
    description: str | None
    properties: dict[str, Field]
    required: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A field's name and the rule that its value breaks; together they are a sentence."""

    field: str | None
    """None if the rule is about the whole answer."""
    rule: str


@dataclass(frozen=True, slots=True)
class ValidContent:
    """Content that fits: the fields that have a value."""

    value: dict[str, object]


@dataclass(frozen=True, slots=True)
class InvalidContent:
    """Content that does not fit."""

    problems: tuple[Problem, ...]

    def sentences(self, label: Callable[[str], str] = repr) -> tuple[str, ...]:
        """Return the first problems; ``label`` formats a field's name, which is not trusted."""
        sentences = [
            problem.rule if problem.field is None else f"{label(problem.field)} {problem.rule}"
            for problem in self.problems[:MAX_PROBLEMS]
        ]
        if len(self.problems) > MAX_PROBLEMS:
            sentences.append(f"and {len(self.problems) - MAX_PROBLEMS} more")
        return tuple(sentences)


def as_json(model: WireModel) -> Any:
    """Return a form of either version of ACP, or one of its fields, as a `Form` or `Field`."""
    return plain(model)


def why_too_many(fields: int, choices: int) -> str | None:
    """Return why a form with so many fields and choices is too large; None if it is not."""
    if fields > MAX_FIELDS:
        return f"it has {fields} fields, above the limit of {MAX_FIELDS}"
    if choices > MAX_CHOICES:
        return f"it has {choices} choices, above the limit of {MAX_CHOICES}"
    return None


def why_too_large(schema: Form) -> str | None:
    """Return why a form is too large for a person, to complete "it was declined because …"."""
    properties = schema.get("properties", {})
    # ACP allows to require names that are no fields.
    fields = max(len(properties), len(set(schema.get("required") or ())))
    choices = [option for field in properties.values() for option in choices_of(field)]
    if (reason := why_too_many(fields, len(choices))) is not None:
        return reason
    characters = sum(len(value) + len(title) for value, title in choices)
    for name, field in properties.items():
        if _is_known(field):
            characters += len(name)
            characters += len(field.get("title") or "") + len(field.get("description") or "")
    if characters > MAX_CHARACTERS:
        return f"its text is above the limit of {MAX_CHARACTERS} characters"
    return None


def validate(schema: Form, content: Mapping[str, object] | None) -> ValidContent | InvalidContent:
    """Check the ``content`` of an accepting answer against the form; None has no values."""
    answer = content or {}
    properties = schema.get("properties", {})
    required = dict.fromkeys(schema.get("required") or ())
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, field in properties.items():
        value = answer.get(name)
        if value is None:
            if name in required:
                problems.append(Problem(name, "is required"))
            continue
        rule = misfit(field, value)
        if rule is None:
            if field["type"] == "integer" and isinstance(value, float):
                value = int(value)
            values[name] = value
        else:
            problems.append(Problem(name, rule))
    problems += [
        Problem(name, "is required but is no field of the form")
        for name in required
        if name not in properties
    ]
    # Only counted: names that the form does not have may be text that the person typed.
    extra = sum(name not in properties for name in answer)
    if extra:
        fields = "fields" if extra > 1 else "field"
        problems.append(Problem(None, f"{extra} {fields} the form does not have"))
    return InvalidContent(tuple(problems)) if problems else ValidContent(values)


def misfit(field: Field, value: object) -> str | None:
    """Return the rule that a value breaks, to follow the field's name in a sentence, or None."""
    if not _is_known(field):
        return "is of a kind that is not known here"
    match field["type"]:
        case "string":
            return _misfit_of_text(field, value)
        case "integer" | "number":
            return _misfit_of_number(field, value)
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "array":
            return _misfit_of_list(field, value)
        case _:
            assert_never(field["type"])


def choices_of(field: Field) -> tuple[tuple[str, str], ...]:
    """Return the choices of a field as (value, title); empty if it has free text."""
    if field.get("type") == "string":
        bare, titled = field.get("enum"), field.get("oneOf")
    elif field.get("type") == "array":
        items = field.get("items", {})
        bare = items.get("enum") if items.get("type") == "string" else None
        titled = items.get("anyOf")
    else:
        return ()
    if titled is None:
        return tuple((value, value) for value in bare or ())
    return tuple((option["const"], option["title"]) for option in titled)


def _is_known(field: Field) -> bool:
    return field.get("type") in ("string", "integer", "number", "boolean", "array")


def _misfit_of_text(field: Field, value: object) -> str | None:
    """Return the rule that a text breaks. Lengths are in code points, as in JSON Schema."""
    has_choices = field.get("enum") is not None or field.get("oneOf") is not None
    shortest, longest = field.get("minLength"), field.get("maxLength")
    if has_choices and not (isinstance(value, str) and value in dict(choices_of(field))):
        return "must be one of its choices"
    if not isinstance(value, str):
        return "must be text"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "must be text without broken characters"
    if shortest is not None and len(value) < shortest:
        return f"must have at least {shortest} characters"
    if longest is not None and len(value) > longest:
        return f"must have at most {longest} characters"
    text_format = field.get("format")
    return None if text_format is None else misses_format(value, text_format)


def _misfit_of_number(field: Field, value: object) -> str | None:
    low, high = field.get("minimum"), field.get("maximum")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "must be a number"
    if not _is_finite(value):
        return "must be a finite number that fits in 64 bits"
    if field["type"] == "integer":
        if not float(value).is_integer():
            return "must be a whole number"
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            return "must fit in 64 bits"
    if low is not None and not value >= low:
        return f"must be at least {_bound_text(low)}"
    if high is not None and not value <= high:
        return f"must be at most {_bound_text(high)}"
    return None


def _bound_text(bound: float) -> str:
    """Return a bound as a person writes it: 3, not 3.0."""
    return str(int(bound)) if isinstance(bound, int) or bound.is_integer() else str(bound)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def _misfit_of_list(field: Field, value: object) -> str | None:
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


_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"  # of a domain, between two dots
_EMAIL: Final = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@{_LABEL}(?:\.{_LABEL})*")
_MAX_LOCAL: Final = 64
"""Characters before the @, by RFC 5321."""
_MAX_EMAIL: Final = 254
"""Characters of an address, by RFC 5321."""
_URI: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"
)
_DATE: Final = re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})")
_TIME: Final = re.compile(
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?:\.[0-9]+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<off_hour>[0-9]{2}):(?P<off_minute>[0-9]{2}))"
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of each month, in a leap year."""
_MINUTES_OF_A_DAY: Final = 24 * 60


def misses_format(value: str, text_format: StringFormat) -> str | None:
    """Return the rule that ``value`` breaks; None if it has the format."""
    match text_format:
        case "email":
            return None if _is_email(value) else "must be an email address"
        case "uri":
            return None if _is_uri(value) else "must be a URI"
        case "date":
            return None if _is_date(value) else "must be a date like 2025-12-31"
        case "date-time":
            if _is_date_time(value):
                return None
            return "must be a date and time like 2025-12-31T23:59:00Z"
        case _:
            assert_never(text_format)


def _is_email(value: str) -> bool:
    match = _EMAIL.fullmatch(value) if len(value) <= _MAX_EMAIL else None
    return match is not None and len(match["local"]) <= _MAX_LOCAL


def _is_uri(value: str) -> bool:
    if not _URI.fullmatch(value) or value.count("#") > 1:
        return False
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return False
    return not {"[", "]"} & set(parts.path + parts.query + parts.fragment)


def _is_date(value: str) -> bool:
    match = _DATE.fullmatch(value)
    if match is None:
        return False
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not (1 <= month <= len(_DAYS) and 1 <= day <= _DAYS[month - 1]):
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (month, day) != (2, 29) or leap


def _is_date_time(value: str) -> bool:
    date, separator, time = value[:10], value[10:11], value[11:]
    match = _TIME.fullmatch(time)
    if match is None or separator not in ("T", "t") or not _is_date(date):
        return False
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"])
    off_hour, off_minute = int(match["off_hour"] or 0), int(match["off_minute"] or 0)
    if max(hour, off_hour) > 23 or max(minute, off_minute) > 59 or second > 60:
        return False
    offset = (off_hour * 60 + off_minute) * (-1 if match["sign"] == "-" else 1)
    minute_in_utc = (hour * 60 + minute - offset) % _MINUTES_OF_A_DAY
    # A leap second is the last second of a day in UTC.
    return second < 60 or minute_in_utc == _MINUTES_OF_A_DAY - 1
