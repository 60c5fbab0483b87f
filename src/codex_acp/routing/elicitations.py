"""PURE: what is asked of a person as an elicitation, and the one reply that follows (contract 2).

Owns the request that goes to the client, the reply that goes to Codex, and the words around both.
Must not know approvals: nothing here can make an accepting approval reply (2.3), and a request
that claims to be an approval is never made into an elicitation (2.2). ``_meta`` of an answer is
dropped: persistence belongs to approvals (2.6).

Both versions of ACP write elicitations alike, so they are plain JSON here.

Sources: ``CreateElicitationRequest`` of ``schema/acp``, ``McpServerElicitationRequestResponse`` and
``ToolRequestUserInputResponse`` of ``schema/codex``.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never, final

from codex_acp._urls import AllowedUrl, RefusedUrl, allowed_url
from codex_acp.acp.form_answers import InvalidContent, validate
from codex_acp.codex._generated import models
from codex_acp.codex.approvals.classify import APPROVAL_QUESTION
from codex_acp.errors import MisuseError
from codex_acp.routing.display import (
    inline,
    quotation,
    quoted_words,
    server_name,
    shortened,
    visible,
)
from codex_acp.routing.form_losses import field_label
from codex_acp.routing.forms import AcpForm, Unrepresentable, acp_form, acp_form_of_json
from codex_acp.routing.user_input import UserInputForm, user_input_answers, user_input_form

if TYPE_CHECKING:
    from collections.abc import Mapping


_APPROVAL_KIND: Final = "codex_approval_kind"
"""The key of ``_meta`` that says a request is an approval: with it, nothing is a form."""

_MAX_ACTION: Final = 60
"""Characters of an unknown action that are repeated; the client's words, on one line."""

How: TypeAlias = Literal["accepted", "declined", "cancelled"]

FormParams: TypeAlias = (
    models.McpFormElicitationParams
    | models.McpOpenaiFormElicitationParams
    | models.McpOpenaiFormLegacyElicitationParams
)


@dataclass(frozen=True, slots=True)
class FormElicitation:
    """A form for a person, of an MCP server or of the model."""

    form: AcpForm | UserInputForm
    server: str | None
    """The MCP server, by the name Codex gives it; None: the model asks."""
    message: str
    """The asker's words, as they came."""
    waits: bool = True
    """Whether the turn stands still meanwhile."""


@dataclass(frozen=True, slots=True)
class UrlElicitation:
    """A page that a person is asked to open."""

    url: AllowedUrl
    server: str
    """The MCP server, by the name Codex gives it."""
    message: str
    """The server's words, as they came."""


AskedElicitation: TypeAlias = FormElicitation | UrlElicitation

_SEAL: Final = object()


@final
@dataclass(frozen=True, slots=True)
class ElicitationReply:
    """The one reply to a server request that was an elicitation. Only this module makes them."""

    result: models.McpServerElicitationRequestResponse | models.ToolRequestUserInputResponse
    how: How
    problem: str | None = None
    """Why it is not what the client answered, for the person and the log; no typed value."""
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise MisuseError("an ElicitationReply is made by reply_to, declined or cancelled only")


# --- from Codex --------------------------------------------------------------------------------


def form_elicitation(params: FormParams) -> FormElicitation | Unrepresentable:
    """A form of an MCP server, or why it cannot be asked over ACP."""
    if _claims_approval(params.meta):
        return Unrepresentable("it claims to be an approval, which is never asked as a form")
    if isinstance(params, models.McpFormElicitationParams):
        form = acp_form(params.requested_schema)
    else:
        form = acp_form_of_json(params.requested_schema)
    if isinstance(form, Unrepresentable):
        return form
    return FormElicitation(form, params.server_name, params.message)


def url_elicitation(
    params: models.McpUrlElicitationParams,
) -> UrlElicitation | RefusedUrl | Unrepresentable:
    """A page that an MCP server wants opened, or why it must not be (contract 2.4)."""
    if _claims_approval(params.meta):
        return Unrepresentable("it claims to be an approval, which is never asked as a URL")
    url = allowed_url(params.url)
    if isinstance(url, RefusedUrl):
        return url
    return UrlElicitation(url, params.server_name, params.message)


def user_input_elicitation(
    params: models.ToolRequestUserInputParams, *, waits: bool = True
) -> FormElicitation | Unrepresentable:
    """The model's questions, or why they cannot be asked over ACP."""
    if any(question.id.startswith(APPROVAL_QUESTION) for question in params.questions):
        return Unrepresentable("it claims to be an approval, which is never asked as a form")
    form = user_input_form(params)
    if isinstance(form, Unrepresentable):
        return form
    message = "\n".join(form.words)
    return FormElicitation(form, None, message, waits)


def _claims_approval(meta: object) -> bool:
    return isinstance(meta, dict) and _APPROVAL_KIND in meta


# --- to the client -----------------------------------------------------------------------------


def create_request(
    elicitation: AskedElicitation,
    session_id: str,
    elicitation_id: str,
    sub_agent: str | None = None,
) -> dict[str, Any]:
    """Params of ``elicitation/create``.

    ``elicitation_id`` must be unique on the client's connection, which the server's own is not;
    only the mode ``url`` has it.
    ``sub_agent`` names the child thread that asks, if it is not the session's own (contract 3.9).
    """
    made: dict[str, Any] = {"sessionId": session_id}
    match elicitation:
        case FormElicitation():
            made |= {"mode": "form", "requestedSchema": elicitation.form.schema}
            if not elicitation.waits:
                made["_meta"] = {"codex": {"delivery": "async"}}
            message = _form_message(elicitation)
        case UrlElicitation():
            made |= {"mode": "url", "elicitationId": elicitation_id, "url": elicitation.url.url}
            message = _url_message(elicitation)
        case _:
            assert_never(elicitation)
    if sub_agent is not None:
        message = f"Asked by the sub-agent {inline(sub_agent)}.\n{message}"
    return {**made, "message": message}


def _form_message(elicitation: FormElicitation) -> str:
    if not elicitation.waits:
        return f"Codex asks, and goes on until its turn ends:\n{quotation(elicitation.message)}"
    if elicitation.server is None:
        return f"Codex asks:\n{quotation(elicitation.message)}"
    words = quoted_words(elicitation.server, elicitation.message)
    if elicitation.form.schema.get("properties"):
        return f"{words}\nThe names and descriptions of the fields are the server's words, too."
    return f"{words}\nThis is a question of the server, not an approval by Codex."


def _url_message(elicitation: UrlElicitation) -> str:
    """The whole URL and its host stand before the server's words."""
    url = elicitation.url
    lines = [f"{server_name(elicitation.server)} asks you to open a page:", inline(url.url, None)]
    if url.host == url.host_as_written.lower():
        lines.append(f"Its host is {inline(url.host, None)}")
    else:
        written = inline(url.host_as_written, None)
        lines.append(f"Its host is {inline(url.host, None)}, written {written}")
    return "\n".join([*lines, quoted_words(elicitation.server, elicitation.message)])


# --- to Codex ----------------------------------------------------------------------------------


def reply_to(elicitation: AskedElicitation, response: Mapping[str, Any]) -> ElicitationReply:
    """Turn the client's answer into Codex's: accepted only if it says so and its content fits."""
    said = response.get("action")
    if said == "accept":
        return _accepted(elicitation, response.get("content"))
    if said == "decline":
        return _negative(elicitation, "declined", None)
    if said == "cancel":
        return _negative(elicitation, "cancelled", None)
    action = visible(shortened(str(said), _MAX_ACTION))
    return declined(elicitation, f'the client answered with the unknown action "{action}"')


def declined(elicitation: AskedElicitation, reason: str) -> ElicitationReply:
    """The reply when no answer is to be had, or none that may be passed on; ``reason`` says why.

    Where the reply has no negative form (the model's questions) it holds no answers.
    """
    return _negative(elicitation, "declined", reason)


def cancelled(elicitation: AskedElicitation) -> ElicitationReply:
    """The reply when the turn was cancelled while the elicitation waited."""
    return _negative(elicitation, "cancelled", None)


def _accepted(
    elicitation: AskedElicitation, content: Mapping[str, object] | None
) -> ElicitationReply:
    if isinstance(elicitation, UrlElicitation):
        # A page has no content: what a client adds is not what anybody asked for.
        return _made(_mcp("accept", None), "accepted")
    form = elicitation.form
    if isinstance(form, UserInputForm):
        answers = user_input_answers(form, content)
        if isinstance(answers, InvalidContent):
            return _misfit(elicitation, answers)
        return _made(answers, "accepted")
    checked = validate(form.schema, content)
    if isinstance(checked, InvalidContent):
        return _misfit(elicitation, checked)
    return _made(_mcp("accept", checked.value), "accepted")


def _misfit(elicitation: AskedElicitation, content: InvalidContent) -> ElicitationReply:
    why = "; ".join(content.sentences(field_label))
    return declined(elicitation, f"the answer does not fit the form: {why}")


def _negative(
    elicitation: AskedElicitation, how: Literal["declined", "cancelled"], problem: str | None
) -> ElicitationReply:
    if isinstance(elicitation, FormElicitation) and isinstance(elicitation.form, UserInputForm):
        return _made(models.ToolRequestUserInputResponse(answers={}), how, problem)
    return _made(_mcp("decline" if how == "declined" else "cancel", None), how, problem)


def _mcp(
    action: Literal["accept", "decline", "cancel"], content: dict[str, object] | None
) -> models.McpServerElicitationRequestResponse:
    return models.McpServerElicitationRequestResponse(action=action, content=content, meta=None)


def _made(
    result: models.McpServerElicitationRequestResponse | models.ToolRequestUserInputResponse,
    how: How,
    problem: str | None = None,
) -> ElicitationReply:
    return ElicitationReply(result, how, problem, _SEAL)
