"""How models read and write: three states, unknown fields, lenient values, open unions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from codex_acp.acp._generated.v1 import methods as acp_methods
from codex_acp.acp._generated.v1 import models as acp
from codex_acp.codex._generated import models as codex
from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.transport.json_decoding import fast_loads, standard_loads
from codex_acp.wire.codec import (
    MAX_ERRORS,
    decode,
    decoder,
    encode,
    encode_any_text,
    problems_of,
    validator_of,
)
from codex_acp.wire.model import UnknownValue, UnknownVariant


def wire(model: object) -> Any:
    return json.loads(encode(model))


# Three states


def test_absent_null_and_set_are_told_apart_when_read_and_when_written() -> None:
    for value in ({}, {"title": None}, {"title": "T"}):
        read = decode(acp.SessionInfoUpdateSessionUpdate, value)
        assert ("title" in read.model_fields_set) == ("title" in value)
        assert wire(read) == value


def test_what_a_program_sets_is_written_and_nothing_else() -> None:
    made = codex.ThreadStartParams(cwd="w", model=None)
    assert wire(made) == {"cwd": "w", "model": None}


def test_literal_tags_are_always_written() -> None:
    chunk = acp.AgentMessageChunkSessionUpdate(content=acp.TextContentBlock(text="hi"))
    update = acp.SessionNotification(session_id="s", update=chunk)
    assert wire(update) == {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi"},
        },
    }


def test_a_default_of_the_schema_is_read_but_not_written() -> None:
    capabilities = decode(acp.AgentCapabilities, {})
    assert capabilities.load_session is False
    assert wire(capabilities) == {}


def test_null_is_refused_where_only_absence_is_allowed() -> None:
    with pytest.raises(InvalidPayload, match="includeTurns"):
        decode(codex.ThreadReadParams, {"threadId": "t", "includeTurns": None})


# Strictness


@pytest.mark.parametrize("flag", ["yes", 1, "true"])
def test_a_wrong_type_is_never_converted(flag: object) -> None:
    with pytest.raises(InvalidPayload, match="willRetry"):
        decode(
            codex.ErrorNotification,
            {"error": {"message": "m"}, "threadId": "t", "turnId": "u", "willRetry": flag},
        )


@pytest.mark.parametrize("loads", [fast_loads, standard_loads])
def test_a_number_above_what_a_float_holds_is_a_wrong_field(
    loads: Callable[[bytes], object],
) -> None:
    value = loads(b'{"amount":1e400,"currency":"USD"}')
    with pytest.raises(InvalidPayload, match="finite"):
        decode(acp.Cost, value)


def test_the_wire_cannot_use_python_names() -> None:
    with pytest.raises(InvalidPayload, match="sessionId"):
        decode(acp.CancelNotification, {"session_id": "s"})


def test_an_error_names_each_field_and_keeps_the_value_to_itself() -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode(acp.NewSessionRequest, {"cwd": 5, "secret": "hunter2"}, "session/new")
    assert "session/new" in str(caught.value)
    assert {p.split(":")[0] for p in caught.value.problems} == {"cwd", "mcpServers"}
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("tag", [[], {}, ["stdio"], 1.5, None, True])
def test_a_tag_that_is_no_string_is_refused_like_any_wrong_field(tag: object) -> None:
    server = {"type": tag, "name": "n", "url": "u", "headers": []}
    with pytest.raises(InvalidPayload, match="mcpServers"):
        decode(acp.NewSessionRequest, {"cwd": "/w", "mcpServers": [server]})


# Unknown fields and values


def test_unknown_fields_survive_at_every_depth() -> None:
    value = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "x", "inner": [1, {"a": None}]},
            "beside": True,
        },
        "outer": {"k": "v"},
    }
    assert wire(decode(acp.SessionNotification, value)) == value


def test_an_unknown_value_of_an_open_enum_is_kept_and_marked() -> None:
    params = decode(codex.ThreadStartParams, {"approvalPolicy": "whenever"})
    assert isinstance(params.approval_policy, UnknownValue)
    assert wire(params) == {"approvalPolicy": "whenever"}


def test_an_unknown_tag_of_an_open_union_is_kept_whole() -> None:
    value = {"type": "hologram", "id": "1", "depth": {"z": 3}}
    item = decode(codex.ItemStartedNotification, _item(value)).item
    assert isinstance(item, UnknownVariant)
    assert item.wire() == value
    assert item.type == "hologram"
    assert UnknownVariant().type == ""


def test_malformed_data_under_a_known_tag_is_an_error_not_unknown() -> None:
    with pytest.raises(InvalidPayload, match="text"):
        decode(codex.ItemStartedNotification, _item({"type": "agentMessage", "id": "1"}))


def test_a_tag_that_is_no_string_is_no_crash() -> None:
    tags: list[Any] = [[], {}, 1, None, True]
    for tag in tags:
        value = {"type": tag, "anyOf": []}
        read = acp_methods.MODELS.decode("MultiSelectItems", value, "items")
        assert (type(read), wire(read)) == (acp.TitledMultiSelectItems, value)
        with pytest.raises(InvalidPayload):
            decode(codex.ItemStartedNotification, _item({"type": tag, "id": "1"}))


def test_an_object_without_a_tag_is_no_unknown_variant() -> None:
    with pytest.raises(InvalidPayload):
        decode(codex.ItemStartedNotification, _item({"id": "1"}))


def _item(item: object) -> dict[str, object]:
    return {"item": item, "threadId": "t", "turnId": "u", "startedAtMs": 1}


def test_an_unknown_decision_is_kept_beside_the_known_ones() -> None:
    decisions = ["accept", "acceptTwice", {"acceptOnMondays": {}}, "cancel"]
    params = decode(
        codex.CommandExecutionRequestApprovalParams,
        {
            "threadId": "t",
            "turnId": "u",
            "itemId": "i",
            "startedAtMs": 1,
            "availableDecisions": decisions,
        },
    )
    read = params.available_decisions
    assert read is not None
    assert [type(d) for d in read] == [str, UnknownValue, UnknownVariant, str]
    assert wire(params)["availableDecisions"] == decisions


def test_a_closed_union_refuses_an_unknown_tag() -> None:
    with pytest.raises(InvalidPayload, match="sessionUpdate"):
        decode(acp.SessionNotification, {"sessionId": "s", "update": {"sessionUpdate": "dance"}})


def test_the_schemas_of_a_form_are_told_apart() -> None:
    properties = {
        "color": {"type": "string", "enum": ["red"]},
        "titled": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
        "legacy": {"type": "string", "enum": ["r"], "enumNames": ["Red"]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        "text": {"type": "string", "maxLength": 3},
        "count": {"type": "integer", "maximum": 3.0},
        "sure": {"type": "boolean"},
    }
    schema = decode(codex.McpElicitationSchema, {"type": "object", "properties": properties})
    kinds = {name: type(value).__name__ for name, value in schema.properties.items()}
    assert kinds == {
        "color": "McpElicitationUntitledSingleSelectEnumSchema",
        "titled": "McpElicitationTitledSingleSelectEnumSchema",
        "legacy": "McpElicitationLegacyTitledEnumSchema",
        "many": "McpElicitationUntitledMultiSelectEnumSchema",
        "text": "McpElicitationStringSchema",
        "count": "McpElicitationNumberSchema",
        "sure": "McpElicitationBooleanSchema",
    }


# ACP's lenient reading


def test_a_bad_optional_value_reads_as_absent() -> None:
    update = decode(acp.ToolCallUpdate, {"toolCallId": "1", "status": "exploded", "title": 7})
    assert (update.status, update.title) == (None, None)
    assert update.model_fields_set == {"tool_call_id"}
    assert wire(update) == {"toolCallId": "1"}


def test_bad_items_of_a_list_are_dropped_and_the_others_kept() -> None:
    locations = [{"path": "a"}, {"path": 5}, "b", {"path": "c", "line": 3}]
    update = decode(acp.ToolCallUpdate, {"toolCallId": "1", "locations": locations})
    assert wire(update)["locations"] == [{"path": "a"}, {"path": "c", "line": 3}]


def test_a_bad_value_of_a_required_list_reads_as_empty_but_a_missing_one_is_an_error() -> None:
    assert decode(acp.AvailableCommandsUpdateSessionUpdate, {"availableCommands": 5}) is not None
    with pytest.raises(InvalidPayload, match="availableCommands"):
        decode(acp.AvailableCommandsUpdateSessionUpdate, {})


def test_null_reads_as_empty_where_the_schema_says_so() -> None:
    request = decode(acp.NewSessionRequest, {"cwd": "/w", "mcpServers": None})
    assert request.mcp_servers == []
    with pytest.raises(InvalidPayload, match="mcpServers"):
        decode(acp.NewSessionRequest, {"cwd": "/w", "mcpServers": 5})


# Unions of ACP that are told apart in their own ways


def test_a_server_without_a_type_is_stdio_and_a_bad_http_one_is_an_error() -> None:
    stdio = {"name": "n", "command": "c", "args": [], "env": []}
    read = decode(acp.NewSessionRequest, {"cwd": "/w", "mcpServers": [stdio]}).mcp_servers
    assert isinstance(read[0], acp.StdioMcpServer)
    bad = {"cwd": "/w", "mcpServers": [{**stdio, "type": "http"}]}
    with pytest.raises(InvalidPayload, match="url"):
        decode(acp.NewSessionRequest, bad)


def test_an_action_nobody_knows_is_kept_as_unknown() -> None:
    tp: Any = acp.CreateElicitationResponse
    assert isinstance(decode(tp, {"action": "postpone"}), UnknownVariant)
    assert isinstance(decode(tp, {"action": "accept"}), acp.AcceptCreateElicitationResponse)
    with pytest.raises(InvalidPayload):
        decode(tp, {"action": "accept", "content": "no object"})


def test_the_scope_of_an_elicitation_is_told_by_its_fields() -> None:
    form: dict[str, object] = {
        "mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}},
    }  # fmt: skip
    tp: Any = acp.CreateElicitationRequest
    session = decode(tp, {**form, "sessionId": "s"})
    request = decode(tp, {**form, "requestId": 0})
    assert isinstance(session, acp.SessionFormCreateElicitationRequest)
    assert isinstance(request, acp.RequestFormCreateElicitationRequest)


@pytest.mark.parametrize("value", [{"path": "\udce9"}, acp.TextContentBlock(text="\udce9")])
def test_a_text_that_is_no_unicode_is_an_error_of_the_caller(value: object) -> None:
    """As the name of a file that is not UTF-8, which Python gives with surrogates."""
    with pytest.raises(MisuseError, match="not Unicode"):
        encode(value)
    assert encode_any_text(value).count(b'"?"') == 1


# Many invalid entries: each error takes a kilobyte


@pytest.mark.attack("client")
@pytest.mark.parametrize(
    ("model", "field", "entries"),
    [
        (acp.NewSessionRequest, "mcpServers", [{}] * 10_000),
        (codex.ToolRequestUserInputResponse, "answers", {str(n): 0 for n in range(10_000)}),
    ],
)
def test_only_the_first_invalid_entry_of_a_list_or_map_is_reported(
    model: type[Any], field: str, entries: Any
) -> None:
    with pytest.raises(ValidationError) as found:
        decoder(validator_of(model))({"cwd": "/", field: entries})
    assert found.value.error_count() < 20


def test_of_very_many_errors_only_the_number_is_reported() -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(list[int]).validate_python(["x"] * (MAX_ERRORS + 1))
    assert problems_of(found.value, []) == (f"{MAX_ERRORS + 1} problems",)
