"""PURE: questions that a message of the model asks without waiting for an answer, as a form.

They come as an item, not as a request: nobody waits, so nothing is declined where they cannot be
asked. The message itself shows them, and a prompt answers them as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex._generated import models
from codex_acp.routing.elicitations import user_input_elicitation
from codex_acp.routing.forms import Unrepresentable
from codex_acp.routing.route import AsyncQuestions, Elicitation

if TYPE_CHECKING:
    from codex_acp.routing.route import RoutingContext


def async_questions(completed: models.ItemCompletedNotification) -> AsyncQuestions | None:
    """Return the questions that a completed item asks so; None: it asks nothing."""
    item = completed.item
    if not isinstance(item, models.AgentMessageThreadItem) or item.delivery != "async":
        return None
    titles = [question.title for question in item.questions or ()]
    if not titles:
        return None
    params = models.ToolRequestUserInputParams(
        thread_id=completed.thread_id,
        turn_id=completed.turn_id,
        item_id=item.id,
        is_blocking=False,
        questions=[
            _question(number, question, alone=len(titles) == 1)
            for number, question in enumerate(item.questions or (), start=1)
        ],
    )
    return AsyncQuestions(item.id, params)


def form_of(questions: AsyncQuestions, context: RoutingContext) -> Elicitation | None:
    """The form for this client; None: it cannot be asked."""
    thread_id = questions.params.thread_id
    session_id = context.items.root_of(thread_id)
    if session_id not in context.sessions or not context.client.elicitation_form:
        return None
    asked = user_input_elicitation(questions.params, waits=False)
    if isinstance(asked, Unrepresentable):
        return None
    return Elicitation(
        request=questions,
        session_id=session_id,
        thread_id=thread_id,
        turn_id=questions.params.turn_id,
        asked=asked,
    )


def _question(
    number: int, question: models.AsyncUserInputQuestion, *, alone: bool
) -> models.ToolRequestUserInputQuestion:
    """Words of one's own are always an answer, as in Codex."""
    labels = [label for label in question.options or () if label]
    return models.ToolRequestUserInputQuestion(
        id=f"question_{number}",
        header="Question" if alone else f"Question {number}",
        question=question.title,
        is_other=bool(labels),
        options=[
            models.ToolRequestUserInputOption(label=label, description="") for label in labels
        ],
    )
