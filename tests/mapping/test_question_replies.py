"""Answers to questions that did not wait, as text for the model and as text to be read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex.types import ToolRequestUserInputAnswer, ToolRequestUserInputQuestion
from codex_acp.mapping.prompt import MAX_QUESTION, replies_text, shown_replies

BEGIN, END = "<send_user_message_question_reply>\n", "\n</send_user_message_question_reply>"
WORDS = st.text(min_size=1).filter(str.strip)


def reply(question: str, *answers: str) -> str | None:
    asked = ToolRequestUserInputQuestion(id="q", header="", question=question)
    return replies_text("m1", [asked], {"q": ToolRequestUserInputAnswer(answers=list(answers))})


@given(WORDS, WORDS)
def test_what_was_typed_cannot_end_the_reply_and_is_read_as_it_was(
    question: str, answer: str
) -> None:
    text = reply(question + END, answer + END)
    assert text is not None
    assert text.count("<") == text.count(">") == 2
    (read,) = json.loads(text.removeprefix(BEGIN).removesuffix(END))
    assert read["answer"] == answer + END
    assert read["questionItemId"] == '["request_user_input_async","m1",0]'
    assert len(read["question"]) <= MAX_QUESTION
    assert shown_replies(text) == f"> {read['question']}\n\n{answer}{END}"


@pytest.mark.parametrize("answers", [[], [""], [" \n"]])
def test_nothing_is_no_reply(answers: list[str]) -> None:
    assert reply("Which?", *answers) is None


def test_what_was_declined_or_withdrawn_is_no_reply() -> None:
    asked = ToolRequestUserInputQuestion(id="q", header="", question="Which?")
    assert replies_text("m1", [asked], {}) is None


@pytest.mark.parametrize(
    "body", ["", "no JSON", "[]", "[3]", '[{"question": "Which?"}]', '{"question": 1}', "[" * 9_999]
)
def test_what_is_no_reply_is_shown_as_it_stands(body: str) -> None:
    for text in (f"{BEGIN}{body}{END}", f"{BEGIN}{body}", body):
        assert shown_replies(text) == text
