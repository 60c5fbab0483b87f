"""Answers the agent's permission requests: a policy, which is a function of the question.

Owns what is answered where nobody decides: the option of kind ``reject_once``, else "cancelled".
Nothing here ever accepts by itself. Must not know how a request arrives.
Source: https://agentclientprotocol.com/protocol/v1/tool-calls#requesting-permission
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.acp import types
from codex_acp.acp.client_side import option_of, outcome_of
from codex_acp.acp.form_answers import InvalidContent, too_large, validate, written
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from codex_acp.runtime.results import ToolCall

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Permission:
    """One question of the agent: may this tool call be run?"""

    session_id: str
    tool_call: ToolCall
    """All that is known of it, this request's own part included."""
    options: tuple[types.PermissionOption, ...]
    request: types.RequestPermissionRequest
    """As it came."""

    @property
    def kind(self) -> types.ToolKind:
        """The tool call's kind, as the agent says; ``other`` if it says none."""
        return self.tool_call.kind or "other"

    def option(self, kind: types.PermissionOptionKind) -> types.PermissionOption | None:
        """The first option of this kind, or None.

        Only one whose id stands for this kind alone: the agent goes by the id.
        """
        return option_of(self.options, kind)


Decision: TypeAlias = types.PermissionOption | str | None
"""The option or its id; None rejects."""
PermissionPolicy: TypeAlias = Callable[[Permission], Decision | Awaitable[Decision]]
"""Chooses among the options. If it raises, or names an option that is not there, it rejects."""


def reject_all(permission: Permission) -> None:
    """The default: nothing is permitted."""
    del permission


def allow_kinds(
    *kinds: types.ToolKind, otherwise: PermissionPolicy = reject_all
) -> PermissionPolicy:
    """Permit once the tool calls of these kinds, and ask ``otherwise`` of all else.

    The kind is what the agent says of its own tool call: this trusts the agent, not the model.
    Raises MisuseError for what is no kind.
    """
    known = get_args(types.ToolKind)
    for kind in kinds:
        if kind not in known:
            raise MisuseError(f"{kind!r} is no kind of tool call; use {', '.join(known)}")

    def policy(permission: Permission) -> Decision | Awaitable[Decision]:
        option = permission.option("allow_once") if permission.kind in kinds else None
        return otherwise(permission) if option is None else option

    return policy


async def decide(
    policy: PermissionPolicy, permission: Permission
) -> types.RequestPermissionOutcome:
    """Return the answer to the request; never raise, unless it is cancelled."""
    try:
        answer = policy(permission)
        chosen = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("the permission policy failed; the tool call is rejected")
        return rejected(permission)
    if chosen is None:
        return rejected(permission)
    option_id = chosen.option_id if isinstance(chosen, types.PermissionOption) else chosen
    kinds = {option.kind for option in permission.options if option.option_id == option_id}
    if len(kinds) != 1:
        why = "the agent did not offer" if not kinds else "has two meanings"
        logger.error("the permission policy chose %r, which %s; rejected", option_id, why)
        return rejected(permission)
    return types.SelectedRequestPermissionOutcome(option_id=option_id)


def rejected(permission: Permission) -> types.RequestPermissionOutcome:
    """The option that rejects once, or "cancelled" where there is none."""
    return outcome_of(permission.options, "reject_once")


# The agent's forms and URLs: given to the callback that was registered for them, if any.

Form: TypeAlias = (
    types.SessionFormCreateElicitationRequest | types.RequestFormCreateElicitationRequest
)
"""A form of the agent: ``message``, and ``requested_schema`` with its fields."""
UrlRequest: TypeAlias = (
    types.SessionUrlCreateElicitationRequest | types.RequestUrlCreateElicitationRequest
)
"""A page that the person is asked to open: ``message``, ``url``, ``elicitation_id``.

A callback is given only what `codex_acp.acp.allowed_url` allows; it also says the host to show.
"""
FormAnswer: TypeAlias = Mapping[str, types.ElicitationContentValue] | Literal["decline", "cancel"]
"""The content of the fields, which accepts; or one of the two words."""
UrlAnswer: TypeAlias = Literal["accept", "decline", "cancel"]
"""``accept`` means that the person agreed to open it, not that what happens there is done."""
FormCallback: TypeAlias = Callable[[Form], FormAnswer | Awaitable[FormAnswer]]
UrlCallback: TypeAlias = Callable[[UrlRequest], UrlAnswer | Awaitable[UrlAnswer]]


def problems_of(schema: types.ElicitationSchema, content: Mapping[str, object]) -> tuple[str, ...]:
    """Return what is wrong with ``content``, a sentence for each field; empty if it fits."""
    checked = validate(written(schema), content)
    return checked.sentences() if isinstance(checked, InvalidContent) else ()


async def ask_form(callback: FormCallback, form: Form) -> types.CreateElicitationResponse:
    """Ask the program, and return the answer to the form; content that does not fit the form is not
    sent, and a form that nobody could fill in is declined unasked."""
    reason = too_large(written(form.requested_schema))
    if reason is not None:
        logger.warning("a form of the agent was declined because %s", reason)
        return types.DeclineCreateElicitationResponse()
    try:
        answer = callback(form)
        given = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("the callback for forms failed; the form is cancelled")
        return types.CancelCreateElicitationResponse()
    if not isinstance(given, Mapping):
        return _without_content(given)
    checked = validate(written(form.requested_schema), given)
    if isinstance(checked, InvalidContent):
        why = "; ".join(checked.sentences())
        logger.error("the form's answer does not fit it and is cancelled: %s", why)
        return types.CancelCreateElicitationResponse()
    return types.AcceptCreateElicitationResponse(content=dict(checked.value))


async def ask_url(callback: UrlCallback, request: UrlRequest) -> types.CreateElicitationResponse:
    """Ask the program, and return the answer to the URL; one that a browser reads as another is
    declined unasked."""
    page = allowed_url(request.url)
    if isinstance(page, RefusedUrl):
        logger.error("a page of the agent was declined: the URL was refused: %s", page.reason)
        return types.DeclineCreateElicitationResponse()
    try:
        answer = callback(request)
        given = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("the callback for URLs failed; the request is cancelled")
        return types.CancelCreateElicitationResponse()
    if given == "accept":
        return types.AcceptCreateElicitationResponse()
    return _without_content(given)


def _without_content(word: object) -> types.CreateElicitationResponse:
    if word == "decline":
        return types.DeclineCreateElicitationResponse()
    if word != "cancel":
        logger.error("an elicitation callback gave %r, which is no answer; cancelled", type(word))
    return types.CancelCreateElicitationResponse()
