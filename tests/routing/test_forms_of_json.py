"""2.5: the free JSON of ``openai/form`` is asked only if it is an MCP form and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.form_answers import MAX_CHOICES, MAX_FIELDS
from codex_acp.routing import forms
from codex_acp.routing.display import is_plain
from codex_acp.routing.forms import Unrepresentable, acp_form, acp_form_of_json
from codex_acp.wire.codec import encode
from tests.routing.form_strategies import askable

CHOICE = {"const": "a", "title": "A", "description": "first\u202e"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


def _object(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


@given(askable())
def test_an_mcp_form_is_the_same_in_free_json(case: tuple[Any, Any]) -> None:
    schema = case[0]
    read = acp_form_of_json(json.loads(encode(schema)))
    typed = acp_form(schema)
    assert isinstance(read, dict)
    assert isinstance(typed, dict)
    assert encode(read) == encode(typed)


def test_keywords_that_acp_has_and_mcp_does_not_are_kept() -> None:
    form = acp_form_of_json(
        {
            "$schema": "x",
            "title": "T",
            "description": "D",
            "additionalProperties": False,
            **_object(
                one={"type": "string", "oneOf": [CHOICE]},
                many={
                    "type": "array",
                    "uniqueItems": True,
                    "items": {"type": "string", "anyOf": [CHOICE]},
                },
            ),
        }
    )
    assert isinstance(form, dict), form
    shown = {"const": "a", "title": "A", "description": "first⟦U+202E⟧"}
    assert json.loads(encode(form)) == {
        "type": "object",
        "title": "T",
        "description": "D",
        "properties": {
            "one": {"type": "string", "oneOf": [shown]},
            "many": {"type": "array", "items": {"anyOf": [shown]}},
        },
    }


REFUSED: list[tuple[object, str]] = [
    (None, "no JSON object"),
    ([], "no JSON object"),
    ("{}", "no JSON object"),
    (True, "no JSON object"),
    ({}, "does not say that it is an object"),
    ({"type": "array", "items": {}}, "does not say that it is an object"),
    ({"properties": {}}, "does not say that it is an object"),
    ({"type": "object"}, '"properties"'),
    ({"type": "object", "$ref": "#/$defs/a"}, '"properties"'),
    ({"type": "object", "properties": []}, '"properties"'),
    ({"type": "object", "properties": {}, "required": "p"}, '"required"'),
    ({"type": "object", "properties": {}, "required": [1]}, '"required"'),
    ({"type": "object", "properties": {}, "$defs": {}}, '"$defs"'),
    ({"type": "object", "properties": {}, "if": {}, "then": {}}, '"if"'),
    (_object(p="text"), '"p" is no schema'),
    (_object(p=True), '"p" is no schema'),
    (_object(p={"$ref": "#/$defs/a"}), '"$ref"'),
    (_object(p={"anyOf": [{"type": "string"}]}), '"anyOf"'),
    (_object(p={"type": "object", "properties": {}}), '"properties"'),
    (_object(p={"type": "object"}), "flat"),
    (_object(p={"type": "null"}), "flat"),
    (_object(p={"type": ["string", "null"]}), '"p" has no single "type"'),
    (_object(p={"type": "array", "items": {"type": "string"}}), '"items"'),
    (_object(p={"type": "array", "items": {"type": "object"}}), '"items"'),
    (_object(p={"type": "array"}), '"items"'),
    (_object(p={"type": "string", "minLength": -1}), "of type string"),
    (_object(p={"type": "string", "minLength": "1"}), "of type string"),
    (_object(p={"type": "boolean", "default": "yes"}), "of type boolean"),
    (_object(p={"type": "number", "default": True}), "of type number"),
    (_object(p={"type": "string", "pattern": "a"}), '"pattern"'),
    (_object(p={"type": "string", "format": "password"}), '"password"'),
    (_object(p={"type": "string", "x-widget": "slider"}), '"x-widget"'),
    (_object(p={"type": "string", "title": "a"}, q={"type": "integer", "enum": [1]}), '"q"'),
]


@pytest.mark.parametrize(("schema", "why"), REFUSED, ids=repr)
def test_2_5_what_acp_cannot_carry_is_refused_by_name(schema: object, why: str) -> None:
    form = acp_form_of_json(schema)
    assert isinstance(form, Unrepresentable), form
    assert why in form.reason


def _choices(count: int) -> list[dict[str, object]]:
    values = [str(number) for number in range(count)]
    titled = [{"const": value, "title": value} for value in values]
    return [
        {"type": "string", "enum": values},
        {"type": "string", "oneOf": titled},
        {"type": "array", "items": {"type": "string", "enum": values}},
        {"type": "array", "items": {"anyOf": titled}},
    ]


TOO_LARGE: list[tuple[object, str]] = [
    (
        _object(**{f"f{number}": {"type": "boolean"} for number in range(MAX_FIELDS + 1)}),
        f"it has {MAX_FIELDS + 1} fields, above the limit of {MAX_FIELDS}",
    ),
    *(
        (
            _object(a=field, b=field),
            f"it has {MAX_CHOICES + 2} choices, above the limit of {MAX_CHOICES}",
        )
        for field in _choices(MAX_CHOICES // 2 + 1)
    ),
]


@pytest.mark.parametrize(("schema", "why"), TOO_LARGE, ids=range(5))
def test_2_5_a_form_that_is_too_large_is_refused_before_it_is_read(
    schema: object, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "decode", pytest.fail)
    assert acp_form_of_json(schema) == Unrepresentable(why)


@given(
    JSON | st.builds(_object, a=JSON, b=st.fixed_dictionaries({"type": JSON}, optional={"x": JSON}))
)
def test_2_5_any_json_is_a_form_or_a_reason(schema: object) -> None:
    form = acp_form_of_json(schema)
    assert isinstance(form, dict) or (form.reason and is_plain(form.reason))


def test_a_reason_is_one_short_line_whatever_the_names_are() -> None:
    form = acp_form_of_json(_object(**{"\n\u202e" * 5000: {"type": "string", "k\n" * 5000: 1}}))
    assert isinstance(form, Unrepresentable)
    assert is_plain(form.reason)
    assert len(form.reason) < 2500
    assert "characters not shown" in form.reason
