"""The model's questions as a form, and the content of the form as answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.routing.display import is_plain
from codex_acp.routing.elicitations import (
    FormElicitation,
    reply_to,
    user_input_elicitation,
)
from codex_acp.routing.forms import Unrepresentable
from codex_acp.wire.codec import encode
from tests.routing.form_samples import params, question, written


def form_of(*questions: dict[str, Any]) -> FormElicitation:
    asked = user_input_elicitation(params(*questions))
    assert isinstance(asked, FormElicitation)
    assert asked.message == "\n".join(each["question"] for each in questions)
    return asked


def answers(asked: FormElicitation, content: dict[str, object] | None) -> Any:
    """The answers as Codex reads them, or the problem."""
    reply = reply_to(asked, {"action": "accept", "content": content})
    if reply.problem is not None:
        assert reply.how == "declined"
        return reply.problem
    value = json.loads(encode(reply.result))
    return {name: answer["answers"] for name, answer in value["answers"].items()}


COLOR = question("color", "Red", "Blue", isOther=True)
SIZE = question("size", "S", "L")
NAME = question("name")


def test_a_question_becomes_a_field_of_its_own() -> None:
    choices = [
        {"const": "Red", "title": "Red", "description": "Red!"},
        {"const": "Blue", "title": "Blue", "description": "Blue!"},
    ]
    sizes = [
        {"const": "S", "title": "S", "description": "S!"},
        {"const": "L", "title": "L", "description": "L!"},
    ]
    assert written(form_of(COLOR, SIZE, NAME).schema) == {
        "type": "object",
        "properties": {
            "color": {
                "type": "string",
                "title": "Color",
                "description": "Which color?",
                "oneOf": choices,
            },
            "color_other": {
                "type": "string",
                "title": "Color (other)",
                "description": "Your own words, besides a choice or instead of one.",
            },
            "size": {
                "type": "string",
                "title": "Size",
                "description": "Which size?",
                "oneOf": sizes,
            },
            "name": {"type": "string", "title": "Name", "description": "Which name?"},
        },
        "required": ["size"],
    }


def test_the_words_of_the_model_are_made_visible() -> None:
    form = form_of(
        question("a\u202e", "Yes\u200b", header="h\n\x1b", question="q\u202e\nr"),
        question("b", header="", question="q", options=[{"label": "L", "description": ""}]),
    )
    shown = written(form.schema)["properties"]
    assert shown["a\u202e"]["title"] == "h⏎⟦U+001B⟧"
    assert shown["a\u202e"]["description"] == "q⟦U+202E⟧\nr"
    option = {"const": "Yes\u200b", "title": "Yes⟦U+200B⟧", "description": "Yes⟦U+200B⟧!"}
    assert shown["a\u202e"]["oneOf"] == [option]
    assert shown["b"]["title"] == "b"
    assert shown["b"]["oneOf"] == [{"const": "L", "title": "L"}]


def test_the_field_for_other_words_never_collides_with_a_question() -> None:
    names = ["c", "c_other", "c_other_", "c_other__other"]
    form = form_of(*(question(name, "x", isOther=True) for name in names))
    fields = list(form.schema["properties"])
    assert len(fields) == len(set(fields)) == 8
    assert {place.id: place.choice for place in form.questions or ()} == {
        name: name for name in names
    }
    content: dict[str, object] = {place.text or "": place.id for place in form.questions or ()}
    assert answers(form, content) == {name: [name] for name in names}


@pytest.mark.parametrize(
    ("questions", "why"),
    [
        ([], "no question"),
        ([NAME, NAME], "same id"),
        ([NAME, question("pin\u202e", isSecret=True)], '"pin⟦U+202E⟧" asks for a secret'),
        ([question("pin", "a", isSecret=True, isOther=True)], "asks for a secret"),
        (
            [question("x", options=[{"label": "a", "description": d} for d in "de"])],
            '"x" offers one label with two meanings',
        ),
    ],
)
def test_2_5_what_cannot_be_asked_says_why(questions: list[dict[str, Any]], why: str) -> None:
    refused = user_input_elicitation(params(*questions))
    assert isinstance(refused, Unrepresentable)
    assert why in refused.reason
    assert is_plain(refused.reason)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"size": "L", "color": "Red", "name": " a \n"},
            {"color": ["Red"], "size": ["L"], "name": [" a \n"]},
        ),
        ({"size": "L"}, {"color": [], "size": ["L"], "name": []}),
        (
            {"size": "S", "color_other": "green", "name": ""},
            {"color": ["green"], "size": ["S"], "name": []},
        ),
        (
            {"size": "S", "color": "Blue", "color_other": "a bit green"},
            {"color": ["Blue", "a bit green"], "size": ["S"], "name": []},
        ),
        (
            {"size": "S", "color": "Blue", "color_other": "", "name": None},
            {"color": ["Blue"], "size": ["S"], "name": []},
        ),
    ],
)
def test_answers_are_the_label_then_the_own_words(
    content: dict[str, object], expected: dict[str, list[str]]
) -> None:
    assert answers(form_of(COLOR, SIZE, NAME), content) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, '"size" is required'),
        ({}, '"size" is required'),
        ({"size": "M"}, '"size" must be one of its choices'),
        ({"size": "L", "color": "green"}, '"color" must be one of its choices'),
        ({"size": ["L"]}, '"size" must be one of its choices'),
        ({"size": "L", "name": 5}, '"name" must be text'),
        ({"size": "L", "size_other": "XL"}, "1 field the form does not have"),
    ],
)
def test_2_5_answers_that_do_not_fit_are_not_passed_on(
    content: dict[str, object] | None, problem: str
) -> None:
    said = f"the answer does not fit the form: {problem}"
    assert answers(form_of(COLOR, SIZE, NAME), content) == said


def test_no_options_in_the_list_is_a_question_for_free_words() -> None:
    form = form_of(question("a", options=[], isOther=True))
    assert list(form.schema["properties"]) == ["a"]
    assert answers(form, {"a": "words"}) == {"a": ["words"]}


def test_a_label_given_twice_is_one_choice() -> None:
    shown = written(form_of(question("a", "x", "x", "y")).schema)
    assert [option["const"] for option in shown["properties"]["a"]["oneOf"]] == ["x", "y"]


_IDS = st.text(st.sampled_from("a_other"), max_size=8)
_QUESTIONS = st.lists(
    st.builds(
        lambda name, labels, other: question(name, *labels, isOther=other),
        _IDS,
        st.lists(st.text(max_size=3), max_size=3, unique=True),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda q: q["id"],
)


@given(_QUESTIONS, st.data())
def test_every_question_is_asked_and_everything_said_is_passed_on(
    questions: list[dict[str, Any]], data: st.DataObject
) -> None:
    form = form_of(*questions)
    written(form.schema)
    content: dict[str, object] = {}
    expected: dict[str, list[str]] = {}
    for asked, place in zip(questions, form.questions or (), strict=True):
        said = expected.setdefault(asked["id"], [])
        if place.choice is not None and (place.text is None or data.draw(st.booleans())):
            label = data.draw(st.sampled_from([option["label"] for option in asked["options"]]))
            content[place.choice] = label
            said.append(label)
        if place.text is not None and data.draw(st.booleans()):
            text = data.draw(st.text(min_size=1))
            content[place.text] = text
            said.append(text)
    assert answers(form, content) == expected
