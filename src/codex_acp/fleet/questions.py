"""Define how a worker sends an agent's question to the driver, and how the driver answers.

The runtime in the worker checks each answer, and refuses an option that the agent did not offer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.acp import types
from codex_acp.runtime import Form, Permission, UrlRequest
from codex_acp.runtime.permissions import Decision, ask_form, ask_url, decide

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.runtime import FormAnswer, UrlAnswer


@dataclass(frozen=True, slots=True)
class TaskPermission(Permission):
    """A permission question of the agent of a task."""

    task_id: str = ""


FleetPolicy: TypeAlias = "Callable[[TaskPermission], Decision | Awaitable[Decision]]"
"""Chooses among the options; None rejects. Every `codex_acp.runtime.PermissionPolicy` is one."""

FleetFormCallback: TypeAlias = "Callable[[str, Form], FormAnswer | Awaitable[FormAnswer]]"
"""Answers a form; the first argument is the task's id."""

FleetUrlCallback: TypeAlias = "Callable[[str, UrlRequest], UrlAnswer | Awaitable[UrlAnswer]]"
"""Answers a request to open a page; the first argument is the task's id."""


Question: TypeAlias = Permission | Form | UrlRequest | str
"""A question of the agent, whose answer is ACP's outcome or response. A text is the agent's last
message, which the driver checks; the answer is the output and the problems."""


def kind_of(question: Permission | Form | UrlRequest) -> str:
    """Return the name of a question's kind in events and transcripts."""
    if isinstance(question, Permission):
        return "permission"
    return "form" if isinstance(question, Form) else "url"


async def answer_permission(
    policy: FleetPolicy, task_id: str, question: Permission
) -> tuple[types.RequestPermissionOutcome, bool]:
    """Return the outcome that the policy chose, and whether its option allows the action. Raises
    nothing but CancelledError."""
    call, options, request = question.tool_call, question.options, question.request
    permission = TaskPermission(question.session_id, call, options, request, task_id)
    outcome = await decide(lambda _permission: policy(permission), permission)
    if not isinstance(outcome, types.SelectedRequestPermissionOutcome):
        return outcome, False
    kinds = {option.kind for option in options if option.option_id == outcome.option_id}
    return outcome, bool(kinds & {"allow_once", "allow_always"})


async def answer_elicitation(
    on_form: FleetFormCallback | None,
    on_url: FleetUrlCallback | None,
    task_id: str,
    question: Form | UrlRequest,
) -> tuple[types.CreateElicitationResponse, bool]:
    """Return the answer to a form or to a request to open a page, and whether the answer accepts.
    Declines without a callback for the question."""
    answer: types.CreateElicitationResponse = types.DeclineCreateElicitationResponse()
    if isinstance(question, UrlRequest):
        if on_url is not None:
            answer = await ask_url(partial(on_url, task_id), question)
    elif on_form is not None:
        answer = await ask_form(partial(on_form, task_id), question)
    return answer, isinstance(answer, types.AcceptCreateElicitationResponse)
