"""2.2, 2.5: a form goes to the client only if nothing of what was asked is lost on the way."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given

from codex_acp.acp._generated.v1.models import ElicitationSchema
from codex_acp.acp.form_answers import Form, ValidContent, validate
from codex_acp.codex._generated.models import McpElicitationSchema
from codex_acp.routing.display import is_plain
from codex_acp.routing.forms import Unrepresentable, acp_form
from codex_acp.wire.codec import decode, encode
from tests.routing.form_samples import written
from tests.routing.form_strategies import askable
from tests.support.schema_values import ValueMaker

SCHEMAS: Final = Path(__file__).parents[2] / "schema"
CODEX = json.loads((SCHEMAS / "codex" / "stable.json").read_text("utf-8"))["definitions"]


def convert(properties: dict[str, Any], **root: Any) -> Form | Unrepresentable:
    schema = {"type": "object", "properties": properties, **root}
    return acp_form(decode(McpElicitationSchema, schema))


def converted(properties: dict[str, Any], **root: Any) -> dict[str, Any]:
    """The form as it is written, checked against ACP's schema."""
    form = convert(properties, **root)
    assert isinstance(form, dict), form
    return written(form)


def reason(properties: dict[str, Any], **root: Any) -> str:
    form = convert(properties, **root)
    assert isinstance(form, Unrepresentable), form
    return form.reason


SAME = [
    {"type": "string"},
    {"type": "string", "title": "T", "description": "D\nE", "minLength": 1, "maxLength": 3},
    {"type": "string", "default": "a@b.example", "format": "email", "title": ""},
    {"type": "string", "format": "uri"},
    {"type": "string", "format": "date", "default": "2024-02-29"},
    {"type": "string", "format": "date-time"},
    {"type": "number", "minimum": -1.5, "maximum": 2.5, "default": 0.25},
    {"type": "number"},
    {"type": "boolean", "default": False, "title": "Sure?"},
    {"type": "string", "enum": ["a", "b"], "default": "b"},
    {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
    {
        "type": "array",
        "items": {"type": "string", "enum": ["a", "b"]},
        "minItems": 1,
        "maxItems": 2,
        "default": ["b", "a"],
    },
    {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "description": "D"},
]


@pytest.mark.parametrize("asked", SAME, ids=json.dumps)
def test_what_acp_has_is_kept(asked: dict[str, Any]) -> None:
    assert converted({"p": asked}) == {"type": "object", "properties": {"p": asked}}


CHANGED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "integer", "minimum": 0.5, "maximum": 9.5, "default": 3.0},
        {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    ),
    ({"type": "integer", "minimum": -0.5}, {"type": "integer", "minimum": 0}),
    ({"type": "integer", "default": 2.5}, {"type": "integer"}),
    ({"type": "integer", "minimum": -1e300, "maximum": 1e300}, {"type": "integer"}),
    ({"type": "integer", "default": 1e300}, {"type": "integer"}),
    ({"type": "integer", "minimum": 1, "default": 0}, {"type": "integer", "minimum": 1}),
    ({"type": "number", "maximum": 1, "default": 2}, {"type": "number", "maximum": 1.0}),
    (
        {"type": "string", "enum": ["a", "b", "c"], "enumNames": ["A"]},
        {
            "type": "string",
            "oneOf": [
                {"const": "a", "title": "A"},
                {"const": "b", "title": "b"},
                {"const": "c", "title": "c"},
            ],
        },
    ),
    (
        {"type": "string", "enum": ["a"], "enumNames": ["A", "B", "C"]},
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    ),
    (
        {"type": "string", "enum": ["a"], "enumNames": None},
        {"type": "string", "oneOf": [{"const": "a", "title": "a"}]},
    ),
    ({"type": "string", "enum": ["a", "a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"type": "string", "enum": ["a"], "default": "x"}, {"type": "string", "enum": ["a"]}),
    ({"type": "string", "format": "date", "default": "?"}, {"type": "string", "format": "date"}),
    ({"type": "string", "minLength": 1, "default": ""}, {"type": "string", "minLength": 1}),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a", "a"]},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    ),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["x"]},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}},
    ),
    (
        dict.fromkeys(("title", "description", "default", "format", "minLength", "maxLength"))
        | {"type": "string"},
        {"type": "string"},
    ),
    (
        dict.fromkeys(("title", "description", "default", "minimum", "maximum"))
        | {"type": "integer"},
        {"type": "integer"},
    ),
    ({"type": "boolean", "default": None, "later": None}, {"type": "boolean"}),
]


@pytest.mark.parametrize(("asked", "shown"), CHANGED, ids=json.dumps)
def test_what_acp_writes_otherwise_is_converted(
    asked: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert converted({"p": asked})["properties"] == {"p": shown}


def test_3_8_words_are_made_visible_and_values_are_not_changed() -> None:
    bare, listed = {"type": "string", "enum": ["a\u200b"]}, {"type": "string", "enum": ["\x1b"]}
    shown = converted(
        {
            "k\u202e": {"type": "string", "default": "x\u200by", "description": "d\x1b\nz"},
            "e": {**bare, "title": "t\r"},
            "m": {"type": "array", "items": listed},
            "o": {"type": "string", "oneOf": [{"const": "\ufeff", "title": "\ufeff"}]},
        },
        required=["k\u202e"],
    )
    choice = {"const": "a\u200b", "title": "a⟦U+200B⟧"}
    assert shown["required"] == ["k\u202e"]
    assert shown["properties"] == {
        "k\u202e": {"type": "string", "title": "k⟦U+202E⟧", "description": "d⟦U+001B⟧\nz"},
        "e": {"type": "string", "title": "t⟦U+000D⟧", "oneOf": [choice]},
        "m": {"type": "array", "items": {"anyOf": [{"const": "\x1b", "title": "⟦U+001B⟧"}]}},
        "o": {"type": "string", "oneOf": [{"const": "\ufeff", "title": "⟦U+FEFF⟧"}]},
    }


def test_a_form_without_fields_is_a_yes_or_no_question() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "required": None}
    assert converted({}, **schema) == {"type": "object", "properties": {}}


def test_what_is_said_of_the_whole_form_is_kept() -> None:
    shown = converted(
        {"p": {"type": "string"}},
        title="T\u202e",
        description="D",
        additionalProperties=False,
        required=["p", "p"],
    )
    assert shown == {
        "type": "object",
        "title": "T⟦U+202E⟧",
        "description": "D",
        "properties": {"p": {"type": "string"}},
        "required": ["p"],
    }


LOST: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "pattern": "^a+$"}, '"pattern"'),
    ({"type": "string", "format": "zip-code"}, '"zip-code"'),
    ({"type": "string", "const": "a"}, '"const"'),
    ({"type": "string", "writeOnly": True}, '"writeOnly"'),
    ({"type": "string", "enum": ["a"], "pattern": "b"}, '"pattern"'),
    ({"type": "string", "enum": ["a", 1]}, '"enum"'),
    ({"type": "string", "enum": ["a"], "oneOf": [{"const": "a", "title": "A"}]}, '"enum"'),
    ({"type": "integer", "multipleOf": 2}, '"multipleOf"'),
    ({"type": "number", "exclusiveMinimum": 0}, '"exclusiveMinimum"'),
    ({"type": "boolean", "const": True}, '"const"'),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A", "if": {}}]}, '"if"'),
    ({"type": "string", "oneOf": [{"const": "a", "title": "A", "description": 5}]}, '"descr'),
    ({"type": "array", "items": {"type": "string", "enum": ["a"], "minLength": 1}}, '"minLength"'),
    ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "contains": {}}, '"contains"'),
    (
        {"type": "array", "items": {"type": "integer", "anyOf": [{"const": "a", "title": "A"}]}},
        '"type"',
    ),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "uniqueItems": "yes"},
        '"uniqueItems"',
    ),
    ({}, "type"),
    ({"enum": ["a"]}, "type"),
    ({"type": "string", "enum": []}, "nothing to choose"),
    ({"type": "string", "oneOf": []}, "nothing to choose"),
    ({"type": "array", "items": {"type": "string", "enum": []}}, "nothing to choose"),
    ({"type": "string", "enum": ["a", "a"], "enumNames": ["A", "B"]}, "two names"),
    ({"type": "string", "oneOf": [{"const": "a", "title": t} for t in ("Yes", "No")]}, "two names"),
    ({"type": "string", "minLength": 2, "maxLength": 1}, "no value"),
    ({"type": "number", "minimum": 2, "maximum": 1}, "no value"),
    ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "no value"),
    ({"type": "integer", "minimum": 1e300}, "no value"),
    ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 2}, "no value"),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
        | {"minItems": 2, "maxItems": 1},
        "no value",
    ),
]


@pytest.mark.parametrize(("asked", "why"), LOST, ids=str)
def test_2_5_what_would_be_lost_names_its_field_and_keyword(
    asked: dict[str, Any], why: str
) -> None:
    said = reason({"fine": {"type": "string"}, "pl\u202eace": asked})
    assert '"pl⟦U+202E⟧ace"' in said
    assert why in said


@pytest.mark.parametrize(
    ("root", "why"),
    [
        ({"required": ["gone"]}, '"gone"'),
        ({"additionalProperties": {"type": "string"}}, '"additionalProperties"'),
        ({"minProperties": 1}, '"minProperties"'),
        ({"allOf": []}, '"allOf"'),
        ({"title": 5}, '"title"'),
    ],
)
def test_2_5_what_the_whole_form_would_lose_is_named(root: dict[str, Any], why: str) -> None:
    assert why in reason({"p": {"type": "string"}}, **root)


@given(askable())
def test_2_5_every_askable_schema_becomes_a_form_of_acp(
    case: tuple[McpElicitationSchema, Any],
) -> None:
    schema, content = case
    form = acp_form(schema)
    assert isinstance(form, dict), form
    value = written(form)
    assert value["properties"].keys() == content.keys()
    assert value.get("required", []) == list(dict.fromkeys(schema.required or []))
    assert decode(ElicitationSchema, value) == decode(ElicitationSchema, json.loads(encode(form)))


@given(askable())
def test_3_8_every_word_of_a_form_can_be_seen(case: tuple[McpElicitationSchema, Any]) -> None:
    form = acp_form(case[0])
    assert isinstance(form, dict)
    for name, shown in written(form)["properties"].items():
        assert is_plain(name) or "title" in shown
        options = shown.get("oneOf", []) + shown.get("items", {}).get("anyOf", [])
        words = [shown.get("title", ""), *(option["title"] for option in options)]
        words += shown.get("enum", []) + shown.get("items", {}).get("enum", [])
        assert all(map(is_plain, words))
        assert is_plain(shown.get("description", ""), multiline=True)


@given(askable())
def test_2_5_a_default_of_a_form_is_an_answer_that_fits(
    case: tuple[McpElicitationSchema, Any],
) -> None:
    schema, content = case
    form = acp_form(schema)
    assert isinstance(form, dict)
    shown = written(form)["properties"]
    defaults = {name: asked["default"] for name, asked in shown.items() if "default" in asked}
    assert isinstance(validate(form, content | defaults), ValidContent)


@pytest.mark.parametrize("seed", range(300))
def test_2_5_any_schema_of_codex_converts_or_says_why_not(seed: int) -> None:
    maker = ValueMaker(CODEX, random.Random(seed))
    value = maker.make(CODEX["McpElicitationSchema"])
    if seed % 2:  # by chance, a required name is hardly ever that of a field
        value["required"] = sorted(value["properties"])[:1]
        value.pop("xUnknown", None)
    schema = decode(McpElicitationSchema, value)
    form = acp_form(schema)
    if isinstance(form, Unrepresentable):
        assert is_plain(form.reason)
        assert len(form.reason) > 10
    else:
        assert written(form)["properties"].keys() == value["properties"].keys()


def test_the_random_schemas_include_both_kinds() -> None:
    kinds = set()
    for seed in range(1, 300, 2):
        value = ValueMaker(CODEX, random.Random(seed)).make(CODEX["McpElicitationSchema"])
        value["required"] = None
        kinds.add(type(acp_form(decode(McpElicitationSchema, value))))
    assert kinds == {dict, Unrepresentable}
