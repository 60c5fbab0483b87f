"""The agent's forms and URLs: given to the callback that was registered for them, if any.

Owns the rule that only a person's checked answer accepts. Must not know how one is shown.
Source: the protocol's page on elicitation, and the definition ``CreateElicitationRequest``.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp.acp.form_answers import InvalidContent, too_large, validate
from codex_acp.acp.types import (
    AcceptCreateElicitationResponse,
    CancelCreateElicitationResponse,
    DeclineCreateElicitationResponse,
    ElicitationContentValue,
    RequestFormCreateElicitationRequest,
    RequestUrlCreateElicitationRequest,
    SessionFormCreateElicitationRequest,
    SessionUrlCreateElicitationRequest,
)

if TYPE_CHECKING:
    from codex_acp.acp.types import CreateElicitationResponse, ElicitationSchema

logger = logging.getLogger(__name__)

Form: TypeAlias = SessionFormCreateElicitationRequest | RequestFormCreateElicitationRequest
"""A form of the agent: ``message``, and ``requested_schema`` with its fields."""

UrlRequest: TypeAlias = SessionUrlCreateElicitationRequest | RequestUrlCreateElicitationRequest
"""A URL that the person is asked to open: ``message``, ``url``, ``elicitation_id``."""

FormAnswer: TypeAlias = Mapping[str, ElicitationContentValue] | Literal["decline", "cancel"]
"""The content of the fields, which accepts; or one of the two words."""

UrlAnswer: TypeAlias = Literal["accept", "decline", "cancel"]
"""``accept`` means that the person agreed to open it, not that what happens there is done."""

FormCallback: TypeAlias = Callable[[Form], FormAnswer | Awaitable[FormAnswer]]
UrlCallback: TypeAlias = Callable[[UrlRequest], UrlAnswer | Awaitable[UrlAnswer]]


def problems_of(schema: ElicitationSchema, content: Mapping[str, object]) -> tuple[str, ...]:
    """What is wrong with ``content``, a sentence for each field; empty if it fits."""
    checked = validate(schema, content)
    return checked.sentences() if isinstance(checked, InvalidContent) else ()


async def ask_form(callback: FormCallback, form: Form) -> CreateElicitationResponse:
    """What the form is answered with; content that does not fit the form is not sent, and a form
    that nobody could fill in is declined unasked."""
    reason = too_large(form.requested_schema)
    if reason is not None:
        logger.warning("a form of the agent was declined because %s", reason)
        return DeclineCreateElicitationResponse()
    try:
        answer = callback(form)
        given = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("the callback for forms failed; the form is cancelled")
        return CancelCreateElicitationResponse()
    if not isinstance(given, Mapping):
        return _without_content(given)
    checked = validate(form.requested_schema, given)
    if isinstance(checked, InvalidContent):
        why = "; ".join(checked.sentences())
        logger.error("the form's answer does not fit it and is cancelled: %s", why)
        return CancelCreateElicitationResponse()
    return AcceptCreateElicitationResponse(content=dict(checked.value))


async def ask_url(callback: UrlCallback, request: UrlRequest) -> CreateElicitationResponse:
    """What the URL is answered with."""
    try:
        answer = callback(request)
        given = await answer if inspect.isawaitable(answer) else answer
    except Exception:
        logger.exception("the callback for URLs failed; the request is cancelled")
        return CancelCreateElicitationResponse()
    if given == "accept":
        return AcceptCreateElicitationResponse()
    return _without_content(given)


def _without_content(word: object) -> CreateElicitationResponse:
    if word == "decline":
        return DeclineCreateElicitationResponse()
    if word != "cancel":
        logger.error("an elicitation callback gave %r, which is no answer; cancelled", type(word))
    return CancelCreateElicitationResponse()
