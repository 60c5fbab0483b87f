"""PURE: ask a person for input as an elicitation, and make the one reply that follows (contract 2).

Owns the request that goes to the client, the reply that goes to Codex, the words around both, and
whether this client can be asked at all (2.2, 2.4). Must not know approvals: nothing here can make
an accepting approval reply (2.3), and a request that claims to be an approval is never made into an
elicitation (2.2). ``_meta`` of an answer is dropped: persistence belongs to approvals (2.6).
Both versions of ACP write elicitations alike, so they are plain JSON here.

The questions of ``item/tool/requestUserInput`` are the model's. A question with options becomes a
choice of their labels; with ``isOther`` also a text field beside it, whose name no question has. A
question without options becomes a text field. A choice without such a text field is required;
everything else may be left empty. A form must not ask for secrets (2.5), so one ``isSecret``
question makes the whole request `Unrepresentable`. A message of the model can ask such questions
without waiting for an answer (`AsyncQuestions`): they are an item and not a request, so nothing is
declined where they cannot be asked; the message shows them, and a prompt answers them as well.

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
from codex_acp.acp.form_answers import InvalidContent, too_large, validate
from codex_acp.codex._generated import models
from codex_acp.codex.approvals import classify as kinds
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
    from codex_acp.acp.form_answers import Field, Form, ValidContent


_OTHER: Final = "_other"
"""Suffix to a question's id, for the name of its text field."""


@dataclass(frozen=True, slots=True)
class QuestionFields:
    """The fields of the form that hold the answer to one question."""

    id: str
    choice: str | None
    """The field for one of the labels; None: free words only."""
    text: str | None
    """The field for the person's own words; None: labels only."""


@dataclass(frozen=True, slots=True)
class UserInputForm:
    """Questions that ACP can carry as a form."""

    schema: Form
    """Sent with ``elicitation/create``; the answer is checked against it."""
    questions: tuple[QuestionFields, ...]
    words: tuple[str, ...]
    """The questions, as the model wrote them."""


def user_input_form(
    params: models.ToolRequestUserInputParams,
) -> UserInputForm | forms.Unrepresentable:
    """Return the questions as a form, or why ACP cannot carry them."""
    questions = params.questions
    if not questions:
        return forms.Unrepresentable("it asks no question")
    for question in questions:
        if question.is_secret:
            label = forms.field_label(question.id)
            return forms.Unrepresentable(
                f"its question {label} asks for a secret, which an ACP form must not"
            )
    ids = [question.id for question in questions]
    if len(set(ids)) != len(ids):
        return forms.Unrepresentable("two of its questions have the same id")
    fields: dict[str, Field] = {}
    places: list[QuestionFields] = []
    for question in questions:
        choices = forms.distinct(
            forms.FormChoice(option.label, option.label, option.description or None)
            for option in question.options or ()
        )
        if choices is None:
            label = forms.field_label(question.id)
            return forms.Unrepresentable(f"its question {label} offers one label with two meanings")
        places.append(_add(question, choices, fields, {*ids, *fields}))
    required = [place.id for place in places if place.text is None]
    schema: Form = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    reason = too_large(schema)
    if reason is not None:
        return forms.Unrepresentable(reason)
    return UserInputForm(schema, tuple(places), tuple(q.question for q in questions))


def user_input_answers(
    form: UserInputForm, content: Mapping[str, object] | None
) -> models.ToolRequestUserInputResponse | InvalidContent:
    """Return the content of an accepting answer in Codex's form.

    Every question has an entry. It lists the chosen label, then the person's own words as typed:
    both if both were given, so that nothing a person said is lost, and nothing if the question
    was left empty. A text field that is empty says nothing.
    """
    checked = validate(form.schema, content)
    if isinstance(checked, InvalidContent):
        return checked
    answers = {}
    for place in form.questions:
        label = checked.value.get(place.choice) if place.choice is not None else None
        text = checked.value.get(place.text) if place.text is not None else None
        typed = [said for said in (label, text or None) if isinstance(said, str)]
        answers[place.id] = models.ToolRequestUserInputAnswer(answers=typed)
    return models.ToolRequestUserInputResponse(answers=answers)


def _add(
    question: models.ToolRequestUserInputQuestion,
    choices: tuple[forms.FormChoice, ...],
    fields: dict[str, Field],
    taken: set[str],
) -> QuestionFields:
    """Add the fields of one question to the form."""
    name, title = question.id, visible(question.header or question.id)
    words = visible(question.question, multiline=True)
    fields[name] = {"type": "string", "title": title, "description": words}
    if not choices:
        return QuestionFields(name, None, name)
    fields[name]["oneOf"] = forms.enum_options(choices)
    if not question.is_other:
        return QuestionFields(name, name, None)
    other = name + _OTHER
    while other in taken:
        other += "_"
    fields[other] = {
        "type": "string",
        "title": f"{title} (other)",
        "description": "Your own words, besides a choice or instead of one.",
    }
    return QuestionFields(name, name, other)


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

    form: forms.AcpForm | UserInputForm
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


def form_elicitation(params: FormParams) -> FormElicitation | forms.Unrepresentable:
    """A form of an MCP server, or why it cannot be asked over ACP."""
    if _claims_approval(params.meta):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a form")
    if isinstance(params, models.McpFormElicitationParams):
        form = forms.acp_form(params.requested_schema)
    else:
        form = forms.acp_form_of_json(params.requested_schema)
    if isinstance(form, forms.Unrepresentable):
        return form
    return FormElicitation(form, params.server_name, params.message)


def url_elicitation(
    params: models.McpUrlElicitationParams,
) -> UrlElicitation | RefusedUrl | forms.Unrepresentable:
    """A page that an MCP server wants opened, or why it must not be (contract 2.4)."""
    if _claims_approval(params.meta):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a URL")
    url = allowed_url(params.url)
    if isinstance(url, RefusedUrl):
        return url
    return UrlElicitation(url, params.server_name, params.message)


def user_input_elicitation(
    params: models.ToolRequestUserInputParams, *, waits: bool = True
) -> FormElicitation | forms.Unrepresentable:
    """The model's questions, or why they cannot be asked over ACP."""
    if any(question.id.startswith(kinds.APPROVAL_QUESTION) for question in params.questions):
        return forms.Unrepresentable("it claims to be an approval, which is never asked as a form")
    form = user_input_form(params)
    if isinstance(form, forms.Unrepresentable):
        return form
    return FormElicitation(form, None, "\n".join(form.words), waits)


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
        return ElicitationReply(_mcp("accept", None), "accepted", None, _SEAL)
    form = elicitation.form
    checked: models.ToolRequestUserInputResponse | InvalidContent | ValidContent
    if isinstance(form, UserInputForm):
        checked = user_input_answers(form, content)
    else:
        checked = validate(form.schema, content)
    if isinstance(checked, InvalidContent):
        why = "; ".join(checked.sentences(forms.field_label))
        return declined(elicitation, f"the answer does not fit the form: {why}")
    if isinstance(checked, models.ToolRequestUserInputResponse):
        return ElicitationReply(checked, "accepted", None, _SEAL)
    return ElicitationReply(_mcp("accept", checked.value), "accepted", None, _SEAL)


def _negative(
    elicitation: AskedElicitation, how: Literal["declined", "cancelled"], problem: str | None
) -> ElicitationReply:
    if isinstance(elicitation, FormElicitation) and isinstance(elicitation.form, UserInputForm):
        empty = models.ToolRequestUserInputResponse(answers={})
        return ElicitationReply(empty, how, problem, _SEAL)
    reply = _mcp("decline" if how == "declined" else "cancel", None)
    return ElicitationReply(reply, how, problem, _SEAL)


def _mcp(
    action: Literal["accept", "decline", "cancel"], content: dict[str, object] | None
) -> models.McpServerElicitationRequestResponse:
    return models.McpServerElicitationRequestResponse(action=action, content=content, meta=None)


_WORDS = 300
"""Characters of the asker's words that a reason repeats: enough to know what was wanted."""


class Unaskable(NamedTuple):
    """Why a person cannot be asked; one line for that person."""

    reason: str


def asked_of(
    what: kinds.ElicitationRequest, client: ClientFeatures
) -> AskedElicitation | Unaskable:
    """Return the elicitation for a client: never in another mode, never a permission request."""
    able, action = client.elicitation_form, "show forms"
    ask: Callable[[], AskedElicitation | forms.Unrepresentable | RefusedUrl]
    match what:
        case kinds.McpForm(params=form):
            wanted = f"{server_name(form.server_name)} asks: {_words(form.message)}"
            ask = partial(form_elicitation, form)
        case kinds.McpUrl(params=page):
            wanted = f"{server_name(page.server_name)} wants a page opened: {_words(page.url)}"
            able, action = client.elicitation_url, "open pages for an agent"
            ask = partial(url_elicitation, page)
        case kinds.UserInput(request=request):
            questions = request.params.questions
            wanted = f"Codex asks: {'; '.join(_words(each.question) for each in questions)}"
            ask = partial(user_input_elicitation, request.params)
        case _:
            assert_never(what)
    if not able:
        return Unaskable(f"this client cannot {action}. {wanted}")
    made = ask()
    if isinstance(made, forms.Unrepresentable | RefusedUrl):
        return Unaskable(f"{made.reason}. {wanted}")
    return made


def _words(text: str) -> str:
    return visible(shortened(text, _WORDS))


# --- questions of a message, which nobody waits for ---------------------------------------------


@dataclass(frozen=True, slots=True)
class AsyncQuestions:
    """Questions that a message of the model asks without waiting: an item of Codex, and no request.

    ``id`` is the item's; ``params`` are those with which Codex would have asked for it.
    """

    method: ClassVar[Literal["item/completed"]] = "item/completed"
    id: str
    params: models.ToolRequestUserInputParams


def async_questions(completed: models.ItemCompletedNotification) -> AsyncQuestions | None:
    """Return the questions that a completed item asks so; None: it asks nothing."""
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
                is_other=bool(options),  # words of one's own are always an answer, as in Codex
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
