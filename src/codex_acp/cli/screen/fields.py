"""PURE: the fields of a form: how each is asked, and what a line that was typed means for it."""

from __future__ import annotations

from codex_acp.acp import types
from codex_acp.acp.form_answers import choices_of, written


def heading(
    name: str, field: types.ElicitationPropertySchema, schema: types.ElicitationSchema
) -> str:
    """Describe the field in a line."""
    assert not isinstance(field, types.UnknownVariant)
    more = f": {field.description}" if field.description else ""
    needed = "" if name in (schema.required or ()) else " (may be left out)"
    default = ""
    if field.default is not None:
        default = f" [{', '.join(shown_value(schema, name, field.default))}]"
    return f"{title_of(name, field)}{needed}{default}{more}"


def title_of(name: str, field: types.ElicitationPropertySchema) -> str:
    """Return the title of the field."""
    assert not isinstance(field, types.UnknownVariant)
    return field.title or name


def titles_of(field: types.ElicitationPropertySchema) -> list[str]:
    """Return the choices as a person reads them; empty where anything can be typed."""
    return [title for _, title in choices_of(written(field))]


def hint(field: types.ElicitationPropertySchema) -> str:
    """Return a hint of what is to be typed."""
    if isinstance(field, types.BooleanElicitationPropertySchema):
        return "y or n"
    if isinstance(field, types.ArrayElicitationPropertySchema):
        return "numbers, with commas"
    if titles_of(field):
        return "a number"
    return "answer"


def value_of(field: types.ElicitationPropertySchema, text: str) -> types.ElicitationContentValue:
    """Return the typed text as the field's type; as text where it does not fit."""
    values = tuple(value for value, _ in choices_of(written(field)))
    if isinstance(field, types.BooleanElicitationPropertySchema):
        return {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
    if isinstance(field, types.ArrayElicitationPropertySchema):
        return [_choice(part, values) for part in text.split(",") if part.strip()]
    try:
        if isinstance(field, types.IntegerElicitationPropertySchema):
            return int(text)
        if isinstance(field, types.NumberElicitationPropertySchema):
            return float(text)
    except ValueError:
        return text
    return _choice(text, values) if values else text


def shown_value(
    schema: types.ElicitationSchema, name: str, value: types.ElicitationContentValue
) -> list[str]:
    """A value as a person reads it, on a line or on several."""
    titles = dict(choices_of(written(schema.properties[name])))
    if isinstance(value, list):
        return [titles.get(each, each) for each in value] or ["nothing"]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [titles.get(value, value) if isinstance(value, str) else str(value)]


def _choice(text: str, values: tuple[str, ...]) -> str:
    """By its number; whatever else was typed is left as it is, to be refused."""
    number = text.strip()
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(values):
        return values[int(number) - 1]
    return number
