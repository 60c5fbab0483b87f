"""PURE: the questions of ``item/tool/requestUserInput`` as a form, and its content as answers.

Owns both directions. Must not know the client or the reply's way to Codex. The questions are the
model's words.

A question with options becomes a choice of their labels; with ``isOther`` also a text field beside
it, of a name that no question has. A question without options becomes a text field. A choice that
leaves no room for other words is required; everything else may be left empty. Contract 2.5: a form
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
"""Behind a question's id: the name of its text field."""


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """Where the answer to one question is found in the content."""

    id: str
    choice: str | None
    """The field with one of the labels."""
    text: str | None
    """The field with the person's own words."""


@dataclass(frozen=True, slots=True)
class UserInputForm:
    """Questions that ACP can carry as a form."""

    schema: Form
    """For ``elicitation/create``, and what an answer is checked against."""
    questions: tuple[QuestionFields, ...]
    words: tuple[str, ...]
    """Words in which the model asks."""


def user_input_form(params: models.ToolRequestUserInputParams) -> UserInputForm | Unrepresentable:
    """The questions as a form, or why they cannot be asked over ACP."""
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
    """The content of an accepting answer as Codex reads it.

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
    """The chosen label, then the person's own words, as far as there are any."""
    choice = value.get(place.choice) if place.choice is not None else None
    text = value.get(place.text) if place.text is not None else None
    return [said for said in (choice, text or None) if isinstance(said, str)]


def _choices(question: models.ToolRequestUserInputQuestion) -> tuple[FormChoice, ...] | None:
    """The labels to choose from, none for a question that is answered in free words."""
    options = question.options or ()
    return distinct(FormChoice(o.label, o.label, o.description or None) for o in options)


def _add(
    question: models.ToolRequestUserInputQuestion,
    choices: tuple[FormChoice, ...],
    fields: dict[str, Field],
    taken: set[str],
) -> QuestionFields:
    """Put the fields of one question among the others."""
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
