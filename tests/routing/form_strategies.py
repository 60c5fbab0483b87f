"""Hypothesis strategies: requested schemas that can be asked, and content that fits them."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from codex_acp.codex._generated.models import McpElicitationSchema
from codex_acp.wire.codec import decode

TEXT = st.text(max_size=8)
NAME = st.text(st.sampled_from("abc_é\u202e -"), min_size=1, max_size=4)
VALUES = st.lists(TEXT, min_size=1, max_size=4, unique=True)

FORMATTED = {
    "email": st.sampled_from(["a@b.example", "first.last+tag@mail.example.org"]),
    "uri": st.sampled_from(["https://example.com/a?b=c", "mailto:a@b.example", "urn:isbn:0"]),
    "date": st.dates().map(str),
    "date-time": st.datetimes(timezones=st.timezones()).map(
        lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    ),
}


def _texts() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={"title": TEXT | st.none(), "description": TEXT | st.none()}
    )


@st.composite
def _string(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    low = draw(st.integers(0, 5))
    high = draw(st.integers(low, 9))
    bounds = {"minLength": low, "maxLength": high}
    kept = draw(st.sets(st.sampled_from(sorted(bounds))))
    asked = {"type": "string"} | {key: bounds[key] for key in kept}
    return asked, st.text(min_size=low, max_size=high)


@st.composite
def _formatted(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    name = draw(st.sampled_from(sorted(FORMATTED)))
    return {"type": "string", "format": name}, FORMATTED[name]


@st.composite
def _numbers(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    finite = st.floats(-1e6, 1e6)
    low, high = sorted((draw(finite), draw(finite)))
    if draw(st.booleans()):
        asked = {"type": "number", "minimum": low, "maximum": high}
        return asked, st.floats(low, high)
    asked = {"type": "integer", "minimum": low - 1, "maximum": high + 1}
    whole = st.integers(math.ceil(low - 1), math.floor(high + 1))
    return asked, whole | whole.map(float)


@st.composite
def _choice(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    values = draw(VALUES)
    titled = [{"const": value, "title": draw(TEXT)} for value in values]
    names = draw(st.lists(TEXT, max_size=5))
    form = draw(st.sampled_from(["enum", "oneOf", "enumNames", "list", "anyOf"]))
    asked: dict[str, Any] = {"type": "string", "enum": values}
    if form in ("list", "anyOf"):
        low = draw(st.integers(0, len(values)))
        items = asked if form == "list" else {"anyOf": titled}
        chosen = st.lists(st.sampled_from(values), min_size=low, unique=True)
        return {"type": "array", "items": items, "minItems": low, "maxItems": len(values)}, chosen
    if form == "oneOf":
        asked = {"type": "string", "oneOf": titled}
    elif form == "enumNames":
        asked["enumNames"] = names
    return asked, st.sampled_from(values)


def _boolean() -> st.SearchStrategy[tuple[dict[str, Any], st.SearchStrategy[Any]]]:
    return st.just(({"type": "boolean"}, st.booleans()))


@st.composite
def askable(draw: st.DrawFn) -> tuple[McpElicitationSchema, dict[str, Any]]:
    """A schema that ACP can carry, and content that fits it with every field filled in."""
    properties: dict[str, Any] = {}
    content: dict[str, Any] = {}
    for name in draw(st.lists(NAME, max_size=4, unique=True)):
        asked, values = draw(_string() | _formatted() | _numbers() | _choice() | _boolean())
        content[name] = draw(values)
        if draw(st.booleans()):
            asked = asked | {"default": draw(values)}
        properties[name] = asked | draw(_texts())
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)))) if content else []
    return decode(McpElicitationSchema, schema), content
