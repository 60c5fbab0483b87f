"""Whether what is to be sent as a form's answer is what the form asked for.

Pure. Owns the check; the rules are those of ``ElicitationSchema``. Problems name fields, never a
value that a person typed. Must not know who filled the form in.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

from codex_acp.acp.types import (
    ArrayElicitationPropertySchema,
    BooleanElicitationPropertySchema,
    IntegerElicitationPropertySchema,
    NumberElicitationPropertySchema,
    StringElicitationPropertySchema,
    TitledMultiSelectItems,
    UnknownVariant,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.acp.types import ElicitationPropertySchema, ElicitationSchema, StringFormat

__all__ = ["choices_of", "problem_of", "problems_of"]


def problems_of(schema: ElicitationSchema, content: Mapping[str, object]) -> tuple[str, ...]:
    """What is wrong with ``content``, a sentence for each field; empty if it fits."""
    found = [
        f"{name} is not a field of the form" for name in content if name not in schema.properties
    ]
    required = set(schema.required or ())
    for name, field in schema.properties.items():
        value = content.get(name)
        if value is None:
            if name in required:
                found.append(f"{name} is required")
            continue
        problem = problem_of(field, value)
        if problem is not None:
            found.append(f"{name} {problem}")
    return tuple(found)


def problem_of(field: ElicitationPropertySchema, value: object) -> str | None:
    """What is wrong with one value, to follow the field's name; None if it fits."""
    match field:
        case StringElicitationPropertySchema():
            return _of_string(field, value)
        case IntegerElicitationPropertySchema():
            if isinstance(value, bool) or not isinstance(value, int):
                return "must be a whole number"
            return _of_range(value, field.minimum, field.maximum)
        case NumberElicitationPropertySchema():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return "must be a number"
            return _of_range(value, field.minimum, field.maximum)
        case BooleanElicitationPropertySchema():
            return None if isinstance(value, bool) else "must be true or false"
        case ArrayElicitationPropertySchema():
            return _of_array(field, value)
        case UnknownVariant():
            return "is of a kind that is not known here"
        case _:
            assert_never(field)


def choices_of(field: ElicitationPropertySchema) -> tuple[tuple[str, str], ...]:
    """The values that may be chosen, each with its title; empty where anything may be said."""
    if isinstance(field, StringElicitationPropertySchema):
        if field.one_of is not None:
            return tuple((option.const, option.title) for option in field.one_of)
        return tuple((value, value) for value in field.enum or ())
    if isinstance(field, ArrayElicitationPropertySchema):
        items = field.items
        if isinstance(items, TitledMultiSelectItems):
            return tuple((option.const, option.title) for option in items.any_of)
        if isinstance(items, UnknownVariant):
            return ()
        return tuple((value, value) for value in items.enum)
    return ()


def _of_string(field: StringElicitationPropertySchema, value: object) -> str | None:
    if not isinstance(value, str):
        return "must be text"
    choices = choices_of(field)
    if (field.enum is not None or field.one_of is not None) and value not in dict(choices):
        return "must be one of the choices"
    if field.min_length is not None and len(value) < field.min_length:
        return f"must have at least {field.min_length} characters"
    if field.max_length is not None and len(value) > field.max_length:
        return f"must have at most {field.max_length} characters"
    if field.format is not None and not _has_format(field.format, value):
        return f"must be a valid {field.format}"
    # Patterns are not tried: they are another language's, and the agent's own to check.
    return None


def _of_range(value: int | float, minimum: float | None, maximum: float | None) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if minimum is not None and value < minimum:
        return f"must be at least {minimum}"
    if maximum is not None and value > maximum:
        return f"must be at most {maximum}"
    return None


def _of_array(field: ArrayElicitationPropertySchema, value: object) -> str | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return "must be a list of choices"
    allowed = dict(choices_of(field))
    if any(item not in allowed for item in value):
        return "must hold only offered choices"
    if field.min_items is not None and len(value) < field.min_items:
        return f"must have at least {field.min_items} choices"
    if field.max_items is not None and len(value) > field.max_items:
        return f"must have at most {field.max_items} choices"
    return None


def _has_format(name: StringFormat, value: str) -> bool:
    try:
        match name:
            case "email":
                return re.fullmatch(r"[^@\s]+@[^@\s]+", value) is not None
            case "uri":
                return bool(urlsplit(value).scheme) and not re.search(r"\s", value)
            case "date":
                date.fromisoformat(value)
            case "date-time":
                return datetime.fromisoformat(value).tzinfo is not None
            case _:
                assert_never(name)
    except ValueError:
        return False
    return True
