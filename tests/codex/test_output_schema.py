"""Output types: the schema is strict, and what cannot be is refused at the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from codex_acp.codex.threads.results import RunResult
from codex_acp.codex.threads.tools import OutputType, strict_schema
from codex_acp.codex.threads.turn_errors import OutputInvalid
from codex_acp.errors import MisuseError


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    weight: float | None = None


class Branch(BaseModel):
    kind: Literal["branch"]
    parts: list[Node]
    first: Leaf = Field(description="The one at the left.")


Node = Annotated[Leaf | Branch, Field(discriminator="kind")]


class Tree(BaseModel):
    """A tree."""

    title: str = Field("oak", examples=["elm"])
    root: Node
    pair: tuple[int, str] = (1, "x")


class Chain(BaseModel):
    value: int
    rest: Chain | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class AnyKey(BaseModel):
    counts: dict[str, int]


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Anything(BaseModel):
    x: Any


class NotJson(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    x: object = Field(default_factory=object)


def objects(schema: object) -> list[dict[str, Any]]:
    """Every object schema in a schema."""
    found: list[dict[str, Any]] = []
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            found.append(schema)
        for value in schema.values():
            found += objects(value)
    elif isinstance(schema, list):
        for value in schema:
            found += objects(value)
    return found


def keywords(schema: object) -> set[str]:
    """Every keyword in a schema; the names of properties are none."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    named = {"properties", "$defs"}
    below = [list(v.values()) if k in named else v for k, v in schema.items()]
    return set(schema).union(*map(keywords, below))


@pytest.mark.parametrize("wanted", [Tree, Chain, Point, Branch])
def test_every_object_is_closed_and_every_property_required(wanted: type) -> None:
    schema = OutputType(wanted).schema
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert objects(schema)
    for part in objects(schema):
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])
    assert not {"default", "oneOf", "discriminator", "examples"} & keywords(schema)


@pytest.mark.parametrize("wanted", [Tree, Chain, Branch])
def test_a_reference_stands_alone(wanted: type) -> None:
    def check(part: object) -> None:
        if isinstance(part, dict):
            assert "$ref" not in part or list(part) == ["$ref"]
            for value in part.values():
                check(value)
        elif isinstance(part, list):
            for value in part:
                check(value)

    check(OutputType(wanted).schema)


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    assert "title" in OutputType(Tree).schema["properties"]


def test_what_fits_the_strict_schema_is_read_as_the_type() -> None:
    output = OutputType(Tree)
    text = '{"title": "t", "root": {"kind": "leaf", "weight": null}, "pair": [2, "y"]}'
    Draft202012Validator(output.schema).validate(TypeAdapter(dict[str, Any]).validate_json(text))
    read = output.read(completed(text))
    assert read == Tree(title="t", root=Leaf(), pair=(2, "y"))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (int, "an answer is an object"),
        (list[Point], "an answer is an object"),
        (AnyKey, "counts may have any property"),
        (Extra, "it may have any property"),
        (Anything, "x may be anything"),
        (NotJson, "NotJson cannot be an output type"),
        (type, "cannot be an output type"),
    ],
)
def test_a_type_that_no_answer_can_be_held_to_is_refused(wanted: Any, why: str) -> None:
    with pytest.raises(MisuseError, match=why):
        OutputType(wanted)


def test_the_schema_that_was_given_stays_as_it_is() -> None:
    given = Tree.model_json_schema()
    before = repr(given)
    strict_schema(given, "Tree")
    assert repr(given) == before


@pytest.mark.parametrize("text", ["", "no", '{"x": 1} and more', '{"y": 1}', '{"x": "a", "y": 1}'])
def test_a_text_that_is_no_such_value_is_kept_in_the_error(text: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        OutputType(Point).read(completed(text))
    assert caught.value.text == text
    assert caught.value.problems


def test_the_error_names_the_field() -> None:
    with pytest.raises(OutputInvalid, match="the answer is no Point: x: "):
        OutputType(Point).read(completed('{"x": "a", "y": 1}'))


def completed(text: str) -> RunResult[None]:
    return RunResult("t", "u", "completed", text, None, (), None, None, None)
