"""PURE: answers to the questions that a message asks without waiting, as a message of the person.

Codex has no reply for them: its own terminal steers the answers into the turn as text between these
marks, which is read here again to be shown. ``<`` and ``>`` of what was asked and typed are written
as JSON escapes, so that they cannot end it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.codex._generated import models

_BEGIN: Final = "<send_user_message_question_reply>"
_END: Final = "</send_user_message_question_reply>"
_TOOL: Final = "request_user_input_async"

MAX_QUESTION: Final = 512
"""Characters of a question that are repeated, as Codex does it."""


def replies_text(
    item_id: str,
    questions: Sequence[models.ToolRequestUserInputQuestion],
    answers: Mapping[str, models.ToolRequestUserInputAnswer],
) -> str | None:
    """Return the answers in words, for the model; None: there are none, or the person declined."""
    replies = []
    for index, question in enumerate(questions):
        answer = answers.get(question.id)
        said = [part for part in answer.answers if part.strip()] if answer is not None else ()
        if said:
            asked = question.question[:MAX_QUESTION].replace("\r", " ").replace("\n", " ")
            item = json.dumps([_TOOL, item_id, index], ensure_ascii=False, separators=(",", ":"))
            reply = {"answer": "\n\n".join(said), "question": asked, "questionItemId": item}
            replies.append(reply)
    if not replies:
        return None
    body = json.dumps(replies, ensure_ascii=False, separators=(",", ":"))
    body = body.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"{_BEGIN}\n{body}\n{_END}"


def shown_replies(text: str) -> str:
    """A message of the person as it is to be read: with questions and answers, if it is those."""
    stripped = text.strip()
    if not (stripped.startswith(_BEGIN) and stripped.endswith(_END)):
        return text
    try:
        body = json.loads(stripped[len(_BEGIN) : -len(_END)])
    except (ValueError, RecursionError):
        return text
    replies = body if isinstance(body, list) else [body]
    shown = [(text_at(reply, "question"), text_at(reply, "answer")) for reply in replies]
    read = [f"> {question}\n\n{answer}" for question, answer in shown if question and answer]
    return "\n\n".join(read) if read and len(read) == len(replies) else text
