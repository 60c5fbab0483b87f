"""PURE: ask a person for input as an elicitation, and make the one reply that follows (contract 2).

Owns the request to the client, the reply to Codex, the texts of both, and whether the client can be
asked at all (2.2, 2.4). Must not know approvals: nothing here can make a reply that accepts an
approval (2.3), and a request that claims to be an approval never becomes an elicitation (2.2).
``_meta`` of an answer is dropped: only an approval can be remembered (2.6). Elicitations are plain
JSON here, because they are the same in all versions of ACP.

The questions of ``item/tool/requestUserInput`` are the model's. A question with options becomes a
choice of their labels; ``isOther`` adds a text field, whose name is no question's id. A question
without options becomes a text field. A choice without a text field is required; every other field
may be left empty. A form must not ask for secrets (2.5), so one ``isSecret`` question makes the
whole request `Unrepresentable`. A message of the model can ask questions without waiting for the
answer (`AsyncQuestions`). These questions come in an item, not in a request: if the client cannot
be asked, nothing is declined. The message shows the questions, and a prompt can answer them, too.

Sources: ``CreateElicitationRequest`` of ``schema/acp``; ``McpServerElicitationRequestResponse``,
``ToolRequestUserInputParams`` and ``ToolRequestUserInputResponse`` of ``schema/codex``.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    assert_never,
    final,
)

from codex_acp._urls import AllowedUrl, RefusedUrl, allowed_url
from codex_acp.acp.form_answers import InvalidContent, validate, why_too_large
from codex_acp.codex._generated import models
from codex_acp.codex.approvals import classify as classes
from codex_acp.codex.approvals.running_items import full_server_name
from codex_acp.errors import MisuseError
from codex_acp.routing import forms
from codex_acp.routing.display import (
    inline,
    quotation,
    quoted_words,
    server_name,
    shortened,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.acp.form_answers import Field, Form


_OTHER: Final = "_other"
"""Suffix that makes the name of a text field from the id of its question."""


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """The fields of the form that hold the answer to one question."""

    id: str
    choice: str | None
    """Name of the field for a label; None if the question has no options."""
    text: str | None
    """Name of the field for free text; None if only labels are allowed."""


_MAX_ACTION: Final = 60
"""Characters of an unknown action of the client that a problem repeats."""

Outcome: TypeAlias = Literal["accepted", "declined", "cancelled"]

FormParams: TypeAlias = (
    models.McpFormElicitationParams
    | models.McpOpenaiFormElicitationParams
    | models.McpOpenaiFormLegacyElicitationParams
)


@dataclass(frozen=True, slots=True)
class FormElicitation:
    """A form for a person, from an MCP server or from the model."""

    schema: Form
    """The form that ``elicitation/create`` sends, and that the answer must fit."""
    server: str | None
    """The MCP server's name in Codex; None if the model asks."""
    message: str
    """The text of the server or the model, unchanged."""
    questions: tuple[QuestionFields, ...] | None = None
    """The model's questions; None for the form of an MCP server."""
    waits: bool = True
    """Whether the turn waits for the answer."""


@dataclass(frozen=True, slots=True)
class UrlElicitation:
    """A page that a person is asked to open."""

    url: AllowedUrl
    server: str
    """The MCP server's name in Codex."""
    message: str
    """The server's text, unchanged."""


AskedElicitation: TypeAlias = FormElicitation | UrlElicitation

_SEAL: Final = object()  # only this module has it, so only this module makes replies


@final
@dataclass(frozen=True, slots=True)
class ElicitationReply:
    """The one reply to a server request that became an elicitation. Only this module makes one."""

    result: models.McpServerElicitationRequestResponse | models.ToolRequestUserInputResponse
    how: Outcome
    problem: str | None = None
    """Why the reply differs from the client's answer, for the person and the log; never has a
    value that the person typed."""
    seal: InitVar[object] = None

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise MisuseError("an ElicitationReply is made by reply_to, declined or cancelled only")


# --- from Codex --------------------------------------------------------------------------------


def _server_of(params: FormParams | models.McpUrlElicitationParams) -> str:
    return full_server_name(params.server_name, params.environment_id)


def form_elicitation(params: FormParams) -> FormElicitation | forms.Unrepresentable:
    """Return the form of an MCP server, or why ACP cannot carry it."""
    if _claims_approval(params.meta):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a form")
    if isinstance(params, models.McpFormElicitationParams):
        form = forms.acp_form(params.requested_schema)
    else:
        form = forms.acp_form_of_json(params.requested_schema)
    if isinstance(form, forms.Unrepresentable):
        return form
    return FormElicitation(form, _server_of(params), params.message)


def url_elicitation(
    params: models.McpUrlElicitationParams,
) -> UrlElicitation | RefusedUrl | forms.Unrepresentable:
    """Return the page that an MCP server wants opened, or why not to open it (contract 2.4)."""
    if _claims_approval(params.meta):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a URL")
    url = allowed_url(params.url)
    if isinstance(url, RefusedUrl):
        return url
    return UrlElicitation(url, _server_of(params), params.message)


def user_input_elicitation(
    params: models.ToolRequestUserInputParams, *, waits: bool = True
) -> FormElicitation | forms.Unrepresentable:
    """Return the model's questions as a form, or why ACP cannot carry them."""
    questions = params.questions
    if any(question.id.startswith(classes.APPROVAL_QUESTION) for question in questions):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a form")
    if not questions:
        return forms.Unrepresentable("it asks no question")
    for question in questions:
        if question.is_secret:
            label = forms.field_label(question.id)
            problem = f"its question {label} asks for a secret, which an ACP form must not"
            return forms.Unrepresentable(problem)
    ids = [question.id for question in questions]
    if len(set(ids)) != len(ids):
        return forms.Unrepresentable("two of its questions have the same id")
    fields: dict[str, Field] = {}
    fields_of_questions: list[QuestionFields] = []
    for question in questions:
        choices = forms.distinct(
            forms.FormChoice(option.label, option.label, option.description or None)
            for option in question.options or ()
        )
        if choices is None:
            label = forms.field_label(question.id)
            return forms.Unrepresentable(f"its question {label} offers one label with two meanings")
        fields_of_questions.append(_add_fields(question, choices, fields, {*ids, *fields}))
    required = [each.id for each in fields_of_questions if each.text is None]
    schema: Form = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    reason = why_too_large(schema)
    if reason is not None:
        return forms.Unrepresentable(reason)
    message = "\n".join(question.question for question in questions)
    return FormElicitation(schema, None, message, tuple(fields_of_questions), waits)


def _add_fields(
    question: models.ToolRequestUserInputQuestion,
    choices: tuple[forms.FormChoice, ...],
    fields: dict[str, Field],
    used_names: set[str],
) -> QuestionFields:
    """Add the fields of one question to ``fields``; a second field's name is no used name."""
    name, title = question.id, visible(question.header or question.id)
    text = visible(question.question, multiline=True)
    fields[name] = {"type": "string", "title": title, "description": text}
    if not choices:
        return QuestionFields(name, None, name)
    fields[name]["oneOf"] = forms.enum_options(choices)
    if not question.is_other:
        return QuestionFields(name, name, None)
    other = name + _OTHER
    while other in used_names:
        other += "_"
    fields[other] = {
        "type": "string",
        "title": f"{title} (other)",
        "description": "Your own words, besides a choice or instead of one.",
    }
    return QuestionFields(name, name, other)


def _claims_approval(meta: object) -> bool:
    return isinstance(meta, dict) and classes.APPROVAL_KIND in meta


# --- to the client -----------------------------------------------------------------------------


def create_request(
    elicitation: AskedElicitation,
    session_id: str,
    elicitation_id: str,
    sub_agent: str | None = None,
) -> dict[str, Any]:
    """Return the params of ``elicitation/create``. ``elicitation_id`` must be unique on the
    client's connection, so an MCP server's own id does not do; only the mode ``url`` sends an id.
    ``sub_agent`` is the thread id of the sub-agent that asks, if one does (contract 3.9)."""
    params: dict[str, Any] = {"sessionId": session_id}
    match elicitation:
        case FormElicitation():
            params |= {"mode": "form", "requestedSchema": elicitation.schema}
            if not elicitation.waits:
                params["_meta"] = {"codex": {"delivery": "async"}}
            message = _form_message(elicitation)
        case UrlElicitation():
            params |= {"mode": "url", "elicitationId": elicitation_id, "url": elicitation.url.url}
            message = _url_message(elicitation)
        case _:
            assert_never(elicitation)
    if sub_agent is not None:
        message = f"Asked by the sub-agent {inline(sub_agent)}.\n{message}"
    return {**params, "message": message}


def _form_message(elicitation: FormElicitation) -> str:
    if not elicitation.waits:
        return f"Codex asks, and goes on until its turn ends:\n{quotation(elicitation.message)}"
    if elicitation.server is None:
        return f"Codex asks:\n{quotation(elicitation.message)}"
    words = quoted_words(elicitation.server, elicitation.message)
    if elicitation.schema.get("properties"):
        return f"{words}\nThe names and descriptions of the fields are the server's words, too."
    return f"{words}\nThis is a question of the server, not an approval by Codex."


def _url_message(elicitation: UrlElicitation) -> str:
    """Return the whole URL and its host, before the server's text."""
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
    """Convert the client's answer: accepted only for the action ``accept`` with fitting content."""
    action = response.get("action")
    if action == "accept":
        return _accepted(elicitation, response.get("content"))
    if action == "decline":
        return _negative(elicitation, "declined", None)
    if action == "cancel":
        return _negative(elicitation, "cancelled", None)
    shown = visible(shortened(str(action), _MAX_ACTION))
    return declined(elicitation, f'the client answered with the unknown action "{shown}"')


def declined(elicitation: AskedElicitation, reason: str) -> ElicitationReply:
    """Return the negative reply, because no answer may be passed on; ``reason`` says why."""
    return _negative(elicitation, "declined", reason)


def cancelled(elicitation: AskedElicitation) -> ElicitationReply:
    """Return the reply for a turn that was cancelled while the elicitation waited."""
    return _negative(elicitation, "cancelled", None)


def _accepted(
    elicitation: AskedElicitation, content: Mapping[str, object] | None
) -> ElicitationReply:
    if isinstance(elicitation, UrlElicitation):
        # A page asks for no content: the content of an answer is dropped.
        return ElicitationReply(_mcp_response("accept", None), "accepted", None, _SEAL)
    checked = validate(elicitation.schema, content)
    if isinstance(checked, InvalidContent):
        problems = "; ".join(checked.sentences(forms.field_label))
        return declined(elicitation, f"the answer does not fit the form: {problems}")
    if elicitation.questions is None:
        return ElicitationReply(_mcp_response("accept", checked.value), "accepted", None, _SEAL)
    answers = {}
    for fields in elicitation.questions:
        label = checked.value.get(fields.choice) if fields.choice is not None else None
        text = checked.value.get(fields.text) if fields.text is not None else None
        given = [part for part in (label, text or None) if isinstance(part, str)]
        answers[fields.id] = models.ToolRequestUserInputAnswer(answers=given)
    response = models.ToolRequestUserInputResponse(answers=answers)
    return ElicitationReply(response, "accepted", None, _SEAL)


def _negative(
    elicitation: AskedElicitation, how: Literal["declined", "cancelled"], problem: str | None
) -> ElicitationReply:
    if isinstance(elicitation, FormElicitation) and elicitation.questions is not None:
        # Codex defines no negative response for the model's questions.
        empty = models.ToolRequestUserInputResponse(answers={})
        return ElicitationReply(empty, how, problem, _SEAL)
    response = _mcp_response("decline" if how == "declined" else "cancel", None)
    return ElicitationReply(response, how, problem, _SEAL)


def _mcp_response(
    action: Literal["accept", "decline", "cancel"], content: dict[str, object] | None
) -> models.McpServerElicitationRequestResponse:
    return models.McpServerElicitationRequestResponse(action=action, content=content, meta=None)


_MAX_QUESTION: Final = 300
"""Characters of a question or URL that a reason repeats."""


class Unaskable(NamedTuple):
    """The reason why the client's person cannot be asked, as one line for that person."""

    reason: str


def elicitation_for(
    wanted: classes.ElicitationRequest, client: ClientFeatures
) -> AskedElicitation | Unaskable:
    """Return the elicitation in the wanted mode, or why ``client`` cannot be asked."""
    can_ask, ability = client.elicitation_form, "show forms"
    make: Callable[[], AskedElicitation | forms.Unrepresentable | RefusedUrl]
    match wanted:
        case classes.McpForm(params=form):
            question = f"{server_name(_server_of(form))} asks: {_cut(form.message)}"
            make = partial(form_elicitation, form)
        case classes.McpUrl(params=page):
            question = f"{server_name(_server_of(page))} wants a page opened: {_cut(page.url)}"
            can_ask, ability = client.elicitation_url, "open pages for an agent"
            make = partial(url_elicitation, page)
        case classes.UserInput(request=request):
            questions = request.params.questions
            question = f"Codex asks: {'; '.join(_cut(each.question) for each in questions)}"
            make = partial(user_input_elicitation, request.params)
        case _:
            assert_never(wanted)
    if not can_ask:  # before `make`, which takes long for a large form
        return Unaskable(f"this client cannot {ability}. {question}")
    elicitation = make()
    if isinstance(elicitation, forms.Unrepresentable | RefusedUrl):
        return Unaskable(f"{elicitation.reason}. {question}")
    return elicitation


def _cut(text: str) -> str:
    return visible(shortened(text, _MAX_QUESTION))


# --- questions in a message, which no turn waits for ---------------------------------------------


@dataclass(frozen=True, slots=True)
class AsyncQuestions:
    """Questions in a message of the model, which does not wait for answers: an item, no request.
    ``id`` is the id of the item; ``params`` ask the questions in the form of a request."""

    method: ClassVar[Literal["item/completed"]] = "item/completed"
    id: str
    params: models.ToolRequestUserInputParams


def async_questions(completed: models.ItemCompletedNotification) -> AsyncQuestions | None:
    """Return the questions in a completed message; None if it has none, or if the model waits for
    the answers."""
    item = completed.item
    if not isinstance(item, models.AgentMessageThreadItem) or item.delivery != "async":
        return None
    questions: list[models.ToolRequestUserInputQuestion] = []
    for number, asked in enumerate(item.questions or (), start=1):
        options = [
            models.ToolRequestUserInputOption(label=label, description="")
            for label in asked.options or ()
            if label
        ]
        questions.append(
            models.ToolRequestUserInputQuestion(
                id=f"question_{number}",
                header=f"Question {number}" if len(item.questions or ()) > 1 else "Question",
                question=asked.title,
                is_other=bool(options),  # Codex accepts a free text beside its options, too
                options=options,
            )
        )
    if not questions:
        return None
    params = models.ToolRequestUserInputParams(
        thread_id=completed.thread_id,
        turn_id=completed.turn_id,
        item_id=item.id,
        is_blocking=False,
        questions=questions,
    )
    return AsyncQuestions(item.id, params)
