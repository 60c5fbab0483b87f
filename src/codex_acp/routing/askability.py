"""Whether an elicitation can be asked of this client, and if not, why (contract 2.2, 2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from codex_acp._urls import RefusedUrl
from codex_acp.codex.approvals.classify import ElicitationRequest, McpForm, McpUrl, UserInput
from codex_acp.routing.display import server_name, shortened, visible
from codex_acp.routing.elicitations import (
    FormElicitation,
    UrlElicitation,
    form_elicitation,
    url_elicitation,
    user_input_elicitation,
)
from codex_acp.routing.forms import Unrepresentable

if TYPE_CHECKING:
    from codex_acp.acp.capabilities import ClientFeatures

_WORDS = 300
"""Characters of the asker's words that a reason repeats: enough to know what was wanted."""


class Unaskable(NamedTuple):
    """Why a person cannot be asked; one line for that person."""

    reason: str


def asked_of(
    what: ElicitationRequest, client: ClientFeatures
) -> FormElicitation | UrlElicitation | Unaskable:
    """The elicitation for this client. Never another mode, never a permission request instead."""
    match what:
        case McpForm(params=params):
            wanted = f"{server_name(params.server_name)} asks: {_words(params.message)}"
            if not client.elicitation_form:
                return Unaskable(f"this client cannot show forms. {wanted}")
            return _or_reason(form_elicitation(params), wanted)
        case McpUrl(params=params):
            wanted = f"{server_name(params.server_name)} wants a page opened: {_words(params.url)}"
            if not client.elicitation_url:
                return Unaskable(f"this client cannot open pages for an agent. {wanted}")
            return _or_reason(url_elicitation(params), wanted)
        case UserInput(request=request):
            questions = "; ".join(_words(q.question) for q in request.params.questions)
            wanted = f"Codex asks: {questions}"
            if not client.elicitation_form:
                return Unaskable(f"this client cannot show forms. {wanted}")
            return _or_reason(user_input_elicitation(request.params), wanted)
        case _:
            assert_never(what)


def _or_reason(
    made: FormElicitation | UrlElicitation | Unrepresentable | RefusedUrl, wanted: str
) -> FormElicitation | UrlElicitation | Unaskable:
    if isinstance(made, Unrepresentable | RefusedUrl):
        return Unaskable(f"{made.reason}. {wanted}")
    return made


def _words(text: str) -> str:
    return visible(shortened(text, _WORDS))
