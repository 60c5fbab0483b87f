"""Contract 2: what is asked as an elicitation, and the one reply that follows."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp._urls import RefusedUrl
from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp.form_answers import ValidContent, validate
from codex_acp.codex._generated.models import (
    McpFormElicitationParams,
    McpOpenaiFormElicitationParams,
    McpOpenaiFormLegacyElicitationParams,
    McpServerElicitationRequestResponse,
    McpUrlElicitationParams,
    ToolRequestUserInputResponse,
)
from codex_acp.errors import MisuseError
from codex_acp.routing.elicitations import (
    AskedElicitation,
    ElicitationReply,
    FormElicitation,
    UrlElicitation,
    cancelled,
    create_request,
    declined,
    form_elicitation,
    reply_to,
    url_elicitation,
    user_input_elicitation,
)
from codex_acp.routing.forms import Unrepresentable
from codex_acp.wire.codec import decode, encode, plain
from tests.routing.form_samples import params as user_input_params
from tests.routing.form_samples import question
from tests.routing.form_strategies import askable
from tests.support.acp_schema import problems_of_message

WHERE = {"threadId": "t1", "turnId": "u1", "serverName": "notes", "message": "Please\nfill in"}
FIELDS = {"name": {"type": "string"}, "count": {"type": "integer", "maximum": 3}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["name"]}
NO_FIELDS = {"type": "object", "properties": {}}


def form(schema: object = SCHEMA, **fields: Any) -> FormElicitation:
    value = {**WHERE, "mode": "form", "_meta": None, "requestedSchema": schema, **fields}
    made = form_elicitation(decode(McpFormElicitationParams, value))
    assert isinstance(made, FormElicitation), made
    return made


def page(url: str = "https://example.com/consent") -> UrlElicitation:
    value = {**WHERE, "mode": "url", "url": url, "elicitationId": "url-2"}
    made = url_elicitation(decode(McpUrlElicitationParams, value))
    assert isinstance(made, UrlElicitation), made
    return made


def questions() -> FormElicitation:
    made = user_input_elicitation(user_input_params(question("color", "Red"), question("why")))
    assert isinstance(made, FormElicitation), made
    return made


KINDS: dict[str, AskedElicitation] = {
    "form": form(),
    "question": form(NO_FIELDS),
    "url": page(),
    "user input": questions(),
}


def sent(elicitation: AskedElicitation, **fields: Any) -> dict[str, Any]:
    """Params of ``elicitation/create``, checked against ACP's schema."""
    params = json.loads(encode(create_request(elicitation, "s1", "e1", **fields)))
    message = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
    assert problems_of_message("agent", message, None) == []
    assert isinstance(params, dict)
    return params


def answer(action: str, **fields: Any) -> dict[str, Any]:
    """A client's answer, as it is read from the wire."""
    response = MODELS.decode("CreateElicitationResponse", {"action": action, **fields}, "answer")
    return cast("dict[str, Any]", plain(response))


def result(reply: ElicitationReply) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(encode(reply.result))
    return value


# --- what the client is asked ------------------------------------------------------------------


def test_a_form_says_who_asks_in_whose_words() -> None:
    params = sent(form())
    assert params == {
        "mode": "form",
        "sessionId": "s1",
        "requestedSchema": SCHEMA,
        "message": 'The MCP server "notes" says:\n```\n> Please\n> fill in\n```\n'
        "The names and descriptions of the fields are the server's words, too.",
    }


def test_2_2_a_yes_or_no_question_cannot_pass_as_an_approval() -> None:
    params = sent(form(NO_FIELDS, message="Allow the notes MCP server to run tool?\u202e"))
    assert params["requestedSchema"] == NO_FIELDS
    first, _, words, _, last = params["message"].split("\n")
    assert first == 'The MCP server "notes" says:'
    assert words == "> Allow the notes MCP server to run tool?⟦U+202E⟧"
    assert last == "This is a question of the server, not an approval by Codex."


def test_2_4_a_url_is_shown_whole_with_its_host() -> None:
    url = "https://аррӏе.com/" + "a" * 3000  # noqa: RUF001 - a look-alike is what is tested
    params = sent(page(url))
    assert params["url"] == url
    assert params["elicitationId"] == "e1"
    assert "toolCallId" not in params
    lines = params["message"].split("\n")
    assert lines[0] == 'The MCP server "notes" asks you to open a page:'
    assert lines[1] == f"`{url}`"
    assert lines[2].startswith("Its host is `xn--80ak6aa92e.com`, written ")
    assert lines[3:] == ['The MCP server "notes" says:', "```", "> Please", "> fill in", "```"]
    assert sent(page())["message"].split("\n")[2] == "Its host is example.com"


def test_the_questions_of_the_model_are_codex_s() -> None:
    params = sent(questions())
    assert params["message"] == "Codex asks:\n```\n> Which color?\n> Which why?\n```"
    assert list(params["requestedSchema"]["properties"]) == ["color", "why"]


def test_3_9_a_sub_agent_that_asks_is_named() -> None:
    for elicitation in KINDS.values():
        message = sent(elicitation, sub_agent="c\n1")["message"]
        assert message.startswith("Asked by the sub-agent `c⏎1`.\n")
        assert message.endswith(sent(elicitation)["message"])


@given(askable(), st.text(), st.text())
def test_2_2_every_form_goes_to_the_client_as_the_schema_has_it(
    case: tuple[Any, Any], message: str, server: str
) -> None:
    params = sent(form(json.loads(encode(case[0])), message=message, serverName=server))
    assert params["requestedSchema"]["properties"].keys() == case[1].keys()


@pytest.mark.parametrize(
    ("mode", "model"),
    [
        ("openai/form", McpOpenaiFormElicitationParams),
        ("openaiForm", McpOpenaiFormLegacyElicitationParams),
    ],
)
def test_2_2_a_form_in_free_json_is_asked_if_nothing_is_lost(mode: str, model: Any) -> None:
    made = form_elicitation(decode(model, {**WHERE, "mode": mode, "requestedSchema": SCHEMA}))
    assert isinstance(made, FormElicitation)
    assert sent(made)["requestedSchema"] == SCHEMA
    nested = {"type": "object", "properties": {"p": {"type": "object"}}}
    lost = form_elicitation(decode(model, {**WHERE, "mode": mode, "requestedSchema": nested}))
    assert isinstance(lost, Unrepresentable)


# --- what is never asked -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mcp_tool_call", "tool_suggestion", "", None, 5, {}])
def test_2_2_what_claims_to_be_an_approval_never_becomes_an_elicitation(kind: object) -> None:
    meta = {"_meta": {"codex_approval_kind": kind}, **WHERE}
    for schema in (SCHEMA, NO_FIELDS):
        for mode, model in (
            ("form", McpFormElicitationParams),
            ("openai/form", McpOpenaiFormElicitationParams),
            ("openaiForm", McpOpenaiFormLegacyElicitationParams),
        ):
            value = {**meta, "mode": mode, "requestedSchema": schema}
            params: Any = decode(model, value)
            assert isinstance(form_elicitation(params), Unrepresentable)
    value = {**meta, "mode": "url", "url": "https://example.com", "elicitationId": "1"}
    assert isinstance(url_elicitation(decode(McpUrlElicitationParams, value)), Unrepresentable)


@pytest.mark.parametrize("meta", [None, {}, {"persist": ["always"]}, [], "codex_approval_kind"])
def test_other_meta_makes_no_difference_to_the_person(meta: object) -> None:
    assert sent(form(_meta=meta)) == sent(form())


def test_2_2_a_question_with_the_id_of_an_approval_is_not_asked() -> None:
    for ids in (["mcp_tool_call_approval"], ["x", "mcp_tool_call_approval_call_7"]):
        made = user_input_elicitation(user_input_params(*(question(name, "Yes") for name in ids)))
        assert isinstance(made, Unrepresentable)


def test_2_4_a_url_that_is_refused_is_not_asked() -> None:
    value = {**WHERE, "mode": "url", "url": "javascript:alert(1)", "elicitationId": "1"}
    assert isinstance(url_elicitation(decode(McpUrlElicitationParams, value)), RefusedUrl)


def test_2_5_a_secret_question_is_not_asked() -> None:
    made = user_input_elicitation(user_input_params(question("pin", isSecret=True)))
    assert isinstance(made, Unrepresentable)


# --- what Codex gets ---------------------------------------------------------------------------


def test_2_5_content_that_fits_is_passed_on() -> None:
    reply = reply_to(form(), answer("accept", content={"name": "n", "count": 2.0}))
    assert (reply.how, reply.problem) == ("accepted", None)
    assert result(reply) == {
        "action": "accept",
        "content": {"name": "n", "count": 2},
        "_meta": None,
    }


@pytest.mark.parametrize(
    "content", [None, {}, {"name": 5}, {"name": "hunter2", "count": 4}, {"name": "n", "x": 1}]
)
def test_2_5_content_that_does_not_fit_is_declined_with_the_reason(
    content: dict[str, object] | None,
) -> None:
    reply = reply_to(form(), answer("accept", content=content))
    assert reply.how == "declined"
    assert reply.problem is not None
    assert reply.problem.startswith("the answer does not fit the form: ")
    assert "hunter2" not in reply.problem
    assert result(reply) == {"action": "decline", "content": None, "_meta": None}


@pytest.mark.parametrize("content", [{}, {"content": {}}, {"content": None}])
def test_a_yes_to_a_question_needs_no_content(content: dict[str, object]) -> None:
    reply = reply_to(form(NO_FIELDS), answer("accept", **content))
    assert result(reply) == {"action": "accept", "content": {}, "_meta": None}
    assert reply_to(form(NO_FIELDS), answer("accept", content={"a": 1})).how == "declined"


@pytest.mark.parametrize("content", [None, {}, {"url": "https://evil.example"}])
def test_2_4_agreeing_to_open_a_page_carries_no_content(content: dict[str, object] | None) -> None:
    reply = reply_to(page(), answer("accept", content=content))
    assert reply.how == "accepted"
    assert result(reply) == {"action": "accept", "content": None, "_meta": None}


def test_answers_to_questions_are_passed_on() -> None:
    reply = reply_to(questions(), answer("accept", content={"color": "Red", "why": "so"}))
    assert reply.how == "accepted"
    assert result(reply) == {"answers": {"color": {"answers": ["Red"]}, "why": {"answers": ["so"]}}}
    wrong = reply_to(questions(), answer("accept", content={"color": "Green"}))
    assert (wrong.how, result(wrong)) == ("declined", {"answers": {}})
    assert wrong.problem is not None
    assert "Green" not in wrong.problem


@pytest.mark.parametrize(("action", "how"), [("decline", "declined"), ("cancel", "cancelled")])
@pytest.mark.parametrize("kind", KINDS)
def test_a_no_is_a_no_whatever_comes_with_it(kind: str, action: str, how: str) -> None:
    content = {"name": "n", "color": "Red"}
    reply = reply_to(KINDS[kind], answer(action, content=content, _meta={"persist": "always"}))
    assert (reply.how, reply.problem) == (how, None)
    if kind == "user input":
        assert result(reply) == {"answers": {}}
    else:
        assert result(reply) == {"action": action, "content": None, "_meta": None}


@pytest.mark.parametrize("kind", KINDS)
def test_2_5_an_unknown_action_is_a_decline(kind: str) -> None:
    for action in ("_vendor\n\u202e", "Accept", "", "accepted", "a" * 10_000):
        reply = reply_to(KINDS[kind], answer(action, content={"name": "n", "color": "Red"}))
        assert reply.how == "declined"
        assert reply.problem is not None
        assert "unknown action" in reply.problem
        assert "\n" not in reply.problem
        assert len(reply.problem) < 200
        assert result(reply).get("action", "decline") == "decline"


@pytest.mark.parametrize("kind", KINDS)
def test_1_4_without_an_answer_there_is_a_negative_reply(kind: str) -> None:
    no = declined(KINDS[kind], "the client is gone")
    assert (no.how, no.problem) == ("declined", "the client is gone")
    withdrawn = cancelled(KINDS[kind])
    assert (withdrawn.how, withdrawn.problem) == ("cancelled", None)
    if kind == "user input":
        assert result(no) == result(withdrawn) == {"answers": {}}
    else:
        assert result(no) == {"action": "decline", "content": None, "_meta": None}
        assert result(withdrawn) == {"action": "cancel", "content": None, "_meta": None}


@pytest.mark.parametrize("kind", KINDS)
@given(meta=st.dictionaries(st.text(), st.text()) | st.just({"persist": "always"}))
def test_2_6_meta_of_an_answer_never_reaches_codex(kind: str, meta: dict[str, str]) -> None:
    contents: dict[str, dict[str, object]] = {"form": {"name": "n"}, "user input": {"color": "Red"}}
    response = answer(
        "accept", content=contents.get(kind), _meta=meta, persist="always", scope="session"
    )
    reply = reply_to(KINDS[kind], response)
    assert reply.how == "accepted"
    assert result(reply).get("_meta") is None
    assert result(reply).keys() <= {"action", "content", "_meta", "answers"}
    assert "always" not in json.dumps(result(reply))


@given(askable(), st.dictionaries(st.text(max_size=3), st.text() | st.integers()), st.data())
def test_2_5_only_content_that_fits_is_ever_accepted(
    case: tuple[Any, dict[str, Any]], other: dict[str, Any], data: st.DataObject
) -> None:
    schema, content = case
    if data.draw(st.booleans()):
        content = content | other
    asked = form(json.loads(encode(schema)))
    reply = reply_to(asked, answer("accept", content=content))
    assert isinstance(asked, FormElicitation)
    checked = validate(asked.schema, content)
    assert (reply.how == "accepted") is isinstance(checked, ValidContent)
    if isinstance(checked, ValidContent):
        assert isinstance(reply.result, McpServerElicitationRequestResponse)
        assert reply.result.content == checked.value


# --- the reply's type --------------------------------------------------------------------------


def test_2_3_nobody_else_can_make_a_reply() -> None:
    accepting = McpServerElicitationRequestResponse(action="accept")
    with pytest.raises(MisuseError):
        ElicitationReply(accepting, "accepted")
    with pytest.raises(MisuseError):
        ElicitationReply(accepting, "accepted", None, object())
    reply = declined(form(), "no")
    with pytest.raises((MisuseError, ValueError)):
        dataclasses.replace(reply, result=accepting)
    with pytest.raises(dataclasses.FrozenInstanceError):
        reply.how = "accepted"  # type: ignore[misc] # that it is frozen is what is tested
    assert copy.copy(reply).how == "declined"


@pytest.mark.parametrize("kind", KINDS)
def test_2_3_a_reply_is_of_the_request_s_own_kind(kind: str) -> None:
    wanted = (
        ToolRequestUserInputResponse
        if kind == "user input"
        else McpServerElicitationRequestResponse
    )
    for reply in (declined(KINDS[kind], "no"), cancelled(KINDS[kind])):
        assert type(reply.result) is wanted
