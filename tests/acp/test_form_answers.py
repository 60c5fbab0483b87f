"""2.5: what comes back from a form is held against what was asked. 5.2: no value is repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp.form_answers import (
    MAX_CHARACTERS,
    MAX_CHOICES,
    MAX_FIELDS,
    MAX_INTEGER,
    MAX_PROBLEMS,
    MIN_INTEGER,
    Form,
    InvalidContent,
    Problem,
    ValidContent,
    as_json,
    validate,
    why_too_large,
)
from codex_acp.acp.types import ElicitationSchema
from codex_acp.codex._generated.models import McpElicitationSchema
from codex_acp.routing.forms import Unrepresentable, acp_form
from codex_acp.wire.codec import decode, encode
from tests.routing.form_strategies import askable


def _schema(properties: dict[str, Any], *required: str) -> Form:
    """As an MCP server asks for it, if that can be carried; else as an agent may ask for it."""
    value = {"type": "object", "properties": properties, "required": list(required)}
    form = acp_form(decode(McpElicitationSchema, value))
    return form if isinstance(form, dict) else _as_read(value)


def _as_read(value: dict[str, Any]) -> Form:
    form: Form = as_json(decode(ElicitationSchema, value))
    return form


def _form(schema: McpElicitationSchema) -> Form:
    form = acp_form(schema)
    assert isinstance(form, dict), form
    return form


ENUM = {"type": "string", "enum": ["a", "b", ""]}
TITLED = {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}
LEGACY = {"type": "string", "enum": ["a", "b"], "enumNames": ["A"]}
LIST = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
TITLED_LIST = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}
INTEGER = {"type": "integer", "minimum": 0.5, "maximum": 9.5}
NUMBER = {"type": "number", "minimum": 0.5, "maximum": 9.5}

FITS: list[tuple[dict[str, Any], object]] = [
    ({"type": "string"}, ""),
    ({"type": "string"}, "any\nthing\u202e \x1b"),
    ({"type": "string", "minLength": 2, "maxLength": 2}, "🙂🙂"),
    ({"type": "string", "minLength": 2}, "e\u0301"),
    (ENUM, "a"),
    (ENUM, ""),
    (TITLED, "a"),
    (LEGACY, "b"),
    (LIST, []),
    (LIST, ["c", "a"]),
    ({**LIST, "minItems": 1, "maxItems": 2}, ["a", "b"]),
    (TITLED_LIST, ["a"]),
    ({"type": "boolean"}, True),
    ({"type": "boolean"}, False),
    (INTEGER, 1),
    (INTEGER, 9),
    ({"type": "integer"}, MAX_INTEGER),
    ({"type": "integer"}, MIN_INTEGER),
    ({"type": "number"}, 1),
    ({"type": "number"}, 10**20),
    ({"type": "number"}, -0.0),
    (NUMBER, 0.5),
    (NUMBER, 9.5),
]


@pytest.mark.parametrize(("asked", "value"), FITS, ids=str)
def test_2_5_a_value_that_fits_is_passed_on_unchanged(asked: dict[str, Any], value: object) -> None:
    valid = validate(_schema({"p": asked}, "p"), {"p": value})
    assert valid == ValidContent({"p": value})
    assert type(valid.value["p"]) is type(value)


MISFITS: list[tuple[dict[str, Any], object, str]] = [
    ({"type": "string"}, 5, "text"),
    ({"type": "string"}, True, "text"),
    ({"type": "string"}, ["a"], "text"),
    ({"type": "string"}, {"a": "b"}, "text"),
    ({"type": "string"}, "\ud800", "broken"),
    ({"type": "string", "minLength": 3}, "🙂🙂", "at least 3"),
    ({"type": "string", "maxLength": 1}, "e\u0301", "at most 1"),
    ({"type": "string", "format": "date"}, "tomorrow", "a date"),
    (ENUM, "c", "one of its choices"),
    (ENUM, "A", "one of its choices"),
    (ENUM, 1, "one of its choices"),
    (ENUM, ["a"], "one of its choices"),
    (TITLED, "A", "one of its choices"),
    (LEGACY, "A", "one of its choices"),
    (LIST, "a", "a list"),
    (LIST, [1], "a list"),
    (LIST, {"a": 1}, "a list"),
    (LIST, ["a", None], "a list"),
    (LIST, ["a", "d"], "nothing but"),
    (LIST, ["a", "a"], "twice"),
    ({**LIST, "minItems": 1}, [], "at least 1"),
    ({**LIST, "maxItems": 1}, ["a", "b"], "at most 1"),
    (TITLED_LIST, ["A"], "nothing but"),
    ({"type": "boolean"}, 1, "true or false"),
    ({"type": "boolean"}, "true", "true or false"),
    ({"type": "integer"}, True, "a number"),
    ({"type": "integer"}, "3", "a number"),
    ({"type": "integer"}, 3.5, "whole"),
    ({"type": "integer"}, MAX_INTEGER + 1, "64 bits"),
    ({"type": "integer"}, MIN_INTEGER - 1, "64 bits"),
    ({"type": "integer"}, 1e300, "64 bits"),
    (INTEGER, 0, "at least 1"),
    (INTEGER, 10, "at most 9"),
    ({"type": "integer", "minimum": 1234567}, 1, "at least 1234567"),
    ({"type": "number"}, False, "a number"),
    ({"type": "number"}, float("nan"), "finite"),
    ({"type": "number"}, float("inf"), "finite"),
    ({"type": "number"}, 10**400, "finite"),
    (NUMBER, 0.49, "at least 0.5"),
    (NUMBER, 10, "at most 9.5"),
]


@pytest.mark.parametrize(("asked", "value", "rule"), MISFITS, ids=str)
def test_2_5_a_value_that_does_not_fit_names_field_and_rule(
    asked: dict[str, Any], value: object, rule: str
) -> None:
    invalid = validate(_schema({"p": asked}), {"p": value})
    assert isinstance(invalid, InvalidContent)
    (problem,) = invalid.problems
    assert problem.field == "p"
    assert rule in problem.rule


def test_a_whole_number_is_an_integer_however_it_is_written() -> None:
    valid = validate(_schema({"p": {"type": "integer"}}), {"p": 3.0})
    assert valid == ValidContent({"p": 3})
    assert type(valid.value["p"]) is int


@pytest.mark.parametrize("content", [None, {}, {"p": None}])
def test_2_5_content_without_a_field_fits_unless_it_is_required(
    content: dict[str, object] | None,
) -> None:
    asked = {"p": {"type": "string"}}
    assert validate(_schema(asked), content) == ValidContent({})
    assert validate(_schema(asked, "p"), content) == InvalidContent((Problem("p", "is required"),))


def test_2_5_a_field_that_was_not_asked_is_refused_without_its_name() -> None:
    for extra in ({"secret-name": 1}, {"secret-name": None}, {"_meta": {"persist": "always"}}):
        invalid = validate(_schema({"p": {"type": "string"}}), {"p": "x", **extra})
        assert invalid == InvalidContent((Problem(None, "1 field the form does not have"),))
    invalid = validate(_schema({}), {"a": 1, "b": 2})
    assert invalid == InvalidContent((Problem(None, "2 fields the form does not have"),))


def test_2_5_a_required_name_that_is_no_field_can_never_be_given() -> None:
    invalid = validate(_schema({}, "gone"), {"gone": "x"})
    assert isinstance(invalid, InvalidContent)
    assert invalid.problems[0] == Problem("gone", "is required but is no field of the form")


def test_problems_are_few_and_their_names_visible() -> None:
    names = {f"n\u202e{i}": {"type": "string"} for i in range(MAX_PROBLEMS + 5)}
    invalid = validate(_schema(names, *names), {})
    assert isinstance(invalid, InvalidContent)
    sentences = invalid.sentences()
    assert len(sentences) == MAX_PROBLEMS + 1
    assert sentences[0] == "'n\\u202e0' is required"
    assert sentences[-1] == "and 5 more"
    assert invalid.sentences(str.upper)[0] == "N\u202e0 is required"


@given(askable())
def test_2_5_content_made_to_fit_is_accepted(case: tuple[McpElicitationSchema, Any]) -> None:
    schema, content = _form(case[0]), case[1]
    valid = validate(schema, content)
    assert isinstance(valid, ValidContent), valid
    assert valid.value == content
    assert validate(schema, valid.value) == valid


@given(askable(), st.data())
def test_2_5_a_field_may_be_left_out_exactly_if_it_is_not_required(
    case: tuple[McpElicitationSchema, Any], data: st.DataObject
) -> None:
    schema, content = _form(case[0]), case[1]
    kept = {name: value for name, value in content.items() if data.draw(st.booleans())}
    missing = set(schema.get("required") or ()) - kept.keys()
    assert isinstance(validate(schema, kept), InvalidContent if missing else ValidContent)


NEVER: tuple[object, ...] = (object(), {}, (), ["\x00", "\x00"], b"x", 10**400, float("nan"))
"""Values that no field of a form can have."""


@given(askable().filter(lambda case: bool(case[1])), st.data())
def test_2_5_content_with_one_wrong_value_is_refused(
    case: tuple[McpElicitationSchema, Any], data: st.DataObject
) -> None:
    schema, content = _form(case[0]), case[1]
    name = data.draw(st.sampled_from(sorted(content)))
    wrong = data.draw(st.sampled_from(NEVER))
    invalid = validate(schema, {**content, name: wrong})
    assert isinstance(invalid, InvalidContent)
    assert len(invalid.problems) == 1


@given(askable())
def test_2_5_content_with_one_field_too_many_is_refused(
    case: tuple[McpElicitationSchema, Any],
) -> None:
    schema, content = _form(case[0]), case[1]
    assert isinstance(validate(schema, {**content, "not asked": ""}), InvalidContent)


MARK = "hunter2-5550199"


@pytest.mark.parametrize("asked", [a for a, _, _ in MISFITS], ids=json.dumps)
@pytest.mark.parametrize(
    "value", [MARK, [MARK, MARK], {MARK: MARK}, 5550199.25, -5550199, [[MARK]]]
)
def test_5_2_a_problem_never_contains_what_was_typed(asked: dict[str, Any], value: object) -> None:
    answer = validate(_schema({"p": asked}, "p"), {"p": value, MARK: value})
    assert isinstance(answer, InvalidContent)
    assert "5550199" not in str(answer.sentences())
    assert "hunter2" not in repr(answer)


MANY = 20_000


def _fields(count: int) -> dict[str, Any]:
    return {f"f{number}": {"type": "boolean"} for number in range(count)}


def test_a_form_that_no_person_fills_in_is_too_large() -> None:
    fields = _fields(MANY)
    schema = _as_read({"type": "object", "properties": fields, "required": [*fields]})
    assert why_too_large(schema) == f"it has {MANY} fields, above the limit of {MAX_FIELDS}"
    assert acp_form(
        decode(McpElicitationSchema, {"type": "object", "properties": fields})
    ) == Unrepresentable(f"it has {MANY} fields, above the limit of {MAX_FIELDS}")
    schema = _as_read({"properties": _fields(MAX_FIELDS)})
    assert why_too_large(schema) is None
    words = {"f": {"type": "boolean", "description": "x" * MAX_CHARACTERS}}
    assert why_too_large(_as_read({"properties": words})) is not None
    values = [str(n) for n in range(MAX_CHOICES + 1)]
    choices = {"f": {"type": "string", "enum": values}}
    assert why_too_large(_as_read({"properties": choices})) is not None
    values.pop()
    assert why_too_large(_as_read({"properties": choices})) is None


class Looked:
    """A list of names that counts how often somebody goes through it."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        self.times += 1
        return name in self._names


def test_each_field_is_looked_at_once_however_many_are_required() -> None:
    fields = _fields(100)
    looked = Looked([*fields])
    required: Any = {"type": "object", "properties": fields, "required": looked}
    assert isinstance(validate(required, dict.fromkeys(fields, True)), ValidContent)
    assert isinstance(validate(required, {}), InvalidContent)
    assert looked.times == 2


CHECKED_ALIKE = ("email", "date")
"""Formats of which jsonschema, as it is installed here, has a check of its own."""


@pytest.mark.parametrize("name", CHECKED_ALIKE)
@given(text=st.text(max_size=20) | st.dates().map(str) | st.emails())
def test_2_5_what_fits_is_what_jsonschema_accepts(name: str, text: str) -> None:
    asked = {"type": "string", "format": name}
    if isinstance(validate(_schema({"p": asked}), {"p": text}), ValidContent):
        assert jsonschema.FormatChecker().conforms(text, name)


@given(askable())
def test_2_5_what_fits_is_what_the_schema_itself_accepts(
    case: tuple[McpElicitationSchema, Any],
) -> None:
    schema, content = _form(case[0]), case[1]
    assert isinstance(validate(schema, content), ValidContent)
    jsonschema.Draft202012Validator(json.loads(encode(schema))).validate(content)


def test_2_5_a_bound_beyond_every_double_is_told_as_it_is() -> None:
    form = _as_read(
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 10**400}}}
    )
    checked = validate(form, {"n": 1})
    assert isinstance(checked, InvalidContent)
    assert checked.sentences() == (f"'n' must be at least {10**400}",)
