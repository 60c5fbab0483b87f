"""Define how a worker sends an agent's question to the driver, and how the driver answers.

Questions and answers are plain data. The runtime in the worker checks each answer, and refuses an
option that the agent did not offer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from codex_acp._json import object_at, without_none
from codex_acp.acp import types
from codex_acp.errors import CodexAcpError, InvalidPayload
from codex_acp.runtime import Permission, ToolCall
from codex_acp.runtime.permissions import Decision, ask_form, ask_url, decide
from codex_acp.wire.codec import decode, plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.runtime import Form, FormAnswer, UrlAnswer, UrlRequest


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


def permission_question(permission: Permission) -> dict[str, JsonValue]:
    """Return a permission question as plain data."""
    call = permission.tool_call
    fields: dict[str, Any] = {
        "toolCallId": call.tool_call_id, "title": call.title, "name": call.name,
        "kind": call.kind, "status": call.status,
        "content": [plain(part) for part in call.content],
        "locations": [plain(location) for location in call.locations],
        "rawInput": call.raw_input, "rawOutput": call.raw_output,
    }  # fmt: skip
    request = object_at(plain(permission.request))
    return {"kind": "permission", "request": request, "toolCall": without_none(fields)}


async def answer_permission(
    policy: FleetPolicy, task_id: str, question: Mapping[str, JsonValue]
) -> tuple[dict[str, JsonValue], bool]:
    """Return the ``optionId`` that the policy chose (None: rejected), and whether the option allows
    the action. Raises nothing but CancelledError."""
    try:
        request = decode(
            types.RequestPermissionRequest, question.get("request"), "a permission request"
        )
        update = decode(types.ToolCallUpdate, question.get("toolCall"), "a tool call")
        call = ToolCall(update.tool_call_id).patched(update)
        permission = TaskPermission(
            request.session_id, call, tuple(request.options), request, task_id
        )
    except CodexAcpError:
        return {"optionId": None}, False
    outcome = await decide(lambda _permission: policy(permission), permission)
    if not isinstance(outcome, types.SelectedRequestPermissionOutcome):
        return {"optionId": None}, False
    option_id = outcome.option_id
    kinds = {option.kind for option in permission.options if option.option_id == option_id}
    return {"optionId": option_id}, bool(kinds & {"allow_once", "allow_always"})


async def answer_elicitation(
    on_form: FleetFormCallback | None,
    on_url: FleetUrlCallback | None,
    task_id: str,
    question: Mapping[str, JsonValue],
) -> tuple[dict[str, JsonValue], bool]:
    """Return the answer to a form or to a request to open a page, and whether the answer accepts.
    Without a callback for the question, declines."""
    kind, request = question.get("kind"), question.get("request")
    answer: types.CreateElicitationResponse = types.DeclineCreateElicitationResponse()
    try:
        if kind == "form" and on_form is not None:
            form = decode(types.SessionFormCreateElicitationRequest, request, "an elicitation")
            answer = await ask_form(partial(on_form, task_id), form)
        elif kind == "url" and on_url is not None:
            page = decode(types.SessionUrlCreateElicitationRequest, request, "an elicitation")
            answer = await ask_url(partial(on_url, task_id), page)
    except InvalidPayload:
        answer = types.CancelCreateElicitationResponse()
    accepts = isinstance(answer, types.AcceptCreateElicitationResponse)
    return {"answer": object_at(plain(answer))}, accepts
