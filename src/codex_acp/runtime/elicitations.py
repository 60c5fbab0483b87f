"""The agent's forms and URLs: given to the callback that was registered for them, if any.

Owns the rules that only a person's checked answer accepts, and that nobody is asked to open what is
no page. Must not know how one is shown.
Source: the protocol's page on elicitation, and the definition ``CreateElicitationRequest``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.acp import types
from codex_acp.acp.form_answers import InvalidContent, too_large, validate, written

logger = logging.getLogger(__name__)

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
