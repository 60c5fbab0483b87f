"""Asks what a message of the model asks without waiting, and steers the answer into its turn.

The turn goes on meanwhile, so the session does not wait for the person. A form that is open when
the turn ends is withdrawn: see `ElicitationRunner`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codex_acp.adapter.prompts.turn_calls import TurnCalls
from codex_acp.adapter.side_tasks import SideTasks, guarded
from codex_acp.codex._generated import models
from codex_acp.mapping.prompt.message import replies_text
from codex_acp.routing.async_questions import async_questions

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.requests.server_requests import ServerRequestRunner
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.routing.route import AsyncQuestions

MOST_OPEN: Final = 16
"""Forms of one thread at a time: a model that does not wait could open any number of them."""

NOT_SENT: Final = (
    "Your answer was not sent: the turn that asked has ended. Send it as a message if it still "
    "matters."
)


class AsyncQuestionRunner:
    """Asks the async questions of one app-server connection."""

    def __init__(
        self, codex: AppServerConnection, runner: Callable[[], ServerRequestRunner]
    ) -> None:
        self._codex = codex
        self._runner = runner
        self._spawn = guarded(SideTasks().start)
        self._open: list[str] = []
        """The thread of each."""

    def completed(self, params: models.ItemCompletedNotification) -> None:
        """An item is complete: what it asks is asked, and nothing waits for that."""
        questions = async_questions(params)
        if questions is not None and self._open.count(params.thread_id) < MOST_OPEN:
            self._open.append(params.thread_id)
            self._spawn(partial(self._ask, questions))

    async def _ask(self, questions: AsyncQuestions) -> None:
        try:
            answered = await self._runner().ask_aside(questions)
        finally:
            self._open.remove(questions.params.thread_id)
        if answered is None:
            return
        params = questions.params
        text = replies_text(questions.id, params.questions, answered.answers)
        if text is None:
            return
        calls = TurnCalls(self._codex, params.thread_id)
        message: list[models.UserInput] = [models.TextUserInput(text=text, text_elements=[])]
        if not await calls.steer(params.turn_id, message, uuid4().hex):
            self._runner().say_in(params.thread_id, NOT_SENT)
