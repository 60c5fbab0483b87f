"""PURE: make a form of the questions of ``item/tool/requestUserInput``, and answers of its content.

The model writes the questions.

A question with options becomes a choice of their labels; with ``isOther`` also a text field beside
it, whose name no question has. A question without options becomes a text field. A choice
without such a text field is required; everything else may be left empty. Contract 2.5: a form
must not ask for secrets, so one ``isSecret`` question makes the whole request `Unrepresentable`.

Source: ``ToolRequestUserInputParams`` of ``schema/codex``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp.acp.form_answers import InvalidContent, too_large, validate
from codex_acp.codex._generated import models
from codex_acp.routing.display import visible
from codex_acp.routing.form_choices import FormChoice, distinct, enum_options
from codex_acp.routing.form_losses import field_label
from codex_acp.routing.forms import Unrepresentable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.acp.form_answers import Field, Form

_OTHER: Final = "_other"
"""Suffix to a question's id, for the name of its text field."""


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """The fields of the form that hold the answer to one question."""

    id: str
    choice: str | None
    """The field for one of the labels; None: free words only."""
    text: str | None
    """The field for the person's own words; None: labels only."""


@dataclass(frozen=True, slots=True)
class UserInputForm:
    """Questions that ACP can carry as a form."""

    schema: Form
    """Sent with ``elicitation/create``; the answer is checked against it."""
    questions: tuple[QuestionFields, ...]
    words: tuple[str, ...]
    """The questions, as the model wrote them."""


def user_input_form(params: models.ToolRequestUserInputParams) -> UserInputForm | Unrepresentable:
    """Return the questions as a form, or why ACP cannot carry them."""
    questions = params.questions
    if not questions:
        return Unrepresentable("it asks no question")
    for question in questions:
        if question.is_secret:
            label = field_label(question.id)
            return Unrepresentable(
                f"its question {label} asks for a secret, which an ACP form must not"
            )
    ids = [question.id for question in questions]
    if len(set(ids)) != len(ids):
        return Unrepresentable("two of its questions have the same id")
    fields: dict[str, Field] = {}
    places: list[QuestionFields] = []
    for question in questions:
        options = _choices(question)
        if options is None:
            label = field_label(question.id)
            return Unrepresentable(f"its question {label} offers one label with two meanings")
        places.append(_add(question, options, fields, {*ids, *fields}))
    required = [place.id for place in places if place.text is None]
    schema: Form = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    reason = too_large(schema)
    if reason is not None:
        return Unrepresentable(reason)
    return UserInputForm(schema, tuple(places), tuple(q.question for q in questions))


def user_input_answers(
    form: UserInputForm, content: Mapping[str, object] | None
) -> models.ToolRequestUserInputResponse | InvalidContent:
    """Return the content of an accepting answer in Codex's form.

    Every question has an entry. It lists the chosen label, then the person's own words as typed:
    both if both were given, so that nothing a person said is lost, and nothing if the question
    was left empty. A text field that is empty says nothing.
    """
    checked = validate(form.schema, content)
    if isinstance(checked, InvalidContent):
        return checked
    return models.ToolRequestUserInputResponse(
        answers={
            place.id: models.ToolRequestUserInputAnswer(answers=_said(place, checked.value))
            for place in form.questions
        }
    )


def _said(place: QuestionFields, value: Mapping[str, object]) -> list[str]:
    """Return the chosen label and the person's own words, those that were given."""
    choice = value.get(place.choice) if place.choice is not None else None
    text = value.get(place.text) if place.text is not None else None
    return [said for said in (choice, text or None) if isinstance(said, str)]


def _choices(question: models.ToolRequestUserInputQuestion) -> tuple[FormChoice, ...] | None:
    """Return the labels to choose from, none for free words; None: a label has two meanings."""
    options = question.options or ()
    return distinct(FormChoice(o.label, o.label, o.description or None) for o in options)


def _add(
    question: models.ToolRequestUserInputQuestion,
    choices: tuple[FormChoice, ...],
    fields: dict[str, Field],
    taken: set[str],
) -> QuestionFields:
    """Add the fields of one question to the form."""
    name, title = question.id, visible(question.header or question.id)
    words = visible(question.question, multiline=True)
    fields[name] = {"type": "string", "title": title, "description": words}
    if choices:
        fields[name]["oneOf"] = enum_options(choices)
    if not choices:
        return QuestionFields(name, None, name)
    if not question.is_other:
        return QuestionFields(name, name, None)
    other = name + _OTHER
    while other in taken:
        other += "_"
    fields[other] = {
        "type": "string",
        "title": f"{title} (other)",
        "description": "Your own words, besides a choice or instead of one.",
    }
    return QuestionFields(name, name, other)
