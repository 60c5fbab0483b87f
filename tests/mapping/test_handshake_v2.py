"""What a client of ACP v2 says of itself, and what it is answered."""

from __future__ import annotations

import json

import pytest

from codegen.pinned import SCHEMA_DIR
from codex_acp._json import value_at
from codex_acp.acp.capabilities import client_features_v2, features_in
from codex_acp.acp.v2 import ClientCapabilities
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.agent import LoginWays
from codex_acp.mapping.agent import initialize_result as initialize_result_v1
from codex_acp.mapping.v2.handshake import fits_schema, initialize_result, params_in_v1
from codex_acp.wire.codec import decode
from tests.support.acp_schema import problems_of_message

INFO: dict[str, JsonValue] = {"name": "x", "version": "1"}

CAPABILITIES: list[JsonValue] = [
    {},
    {"elicitation": {}},
    {"elicitation": {"form": {}}},
    {"elicitation": {"form": None, "url": {}}, "auth": {"terminal": {}}},
    {"auth": {"terminal": None}},
    {"auth": {}, "_meta": {"terminal_output": True}},
]


@pytest.mark.parametrize("given", CAPABILITIES)
def test_the_features_are_those_that_the_models_read(given: JsonValue) -> None:
    said = params_in_v1({"protocolVersion": 2, "info": INFO, "capabilities": given})

    known = features_in(said["clientCapabilities"], version=2)
    assert known == client_features_v2(decode(ClientCapabilities, given))


@pytest.mark.parametrize("given", CAPABILITIES)
def test_the_answer_fits_the_schema_of_v2(given: JsonValue) -> None:
    said = params_in_v1({"protocolVersion": 2, "info": INFO, "capabilities": given})
    result = initialize_result(said, LoginWays(opens_pages=True, command=("codex-acp-sdk",)), {})
    message = {"jsonrpc": "2.0", "id": 1, "result": result}

    assert problems_of_message("agent", message, "initialize", 2) == []


@pytest.mark.parametrize(
    "params",
    [
        None,
        {"protocolVersion": 2},
        {"protocolVersion": 3, "info": INFO},
        {"protocolVersion": 2, "info": {"name": "x"}},
        {"protocolVersion": 2, "info": INFO, "capabilities": []},
    ],
)
def test_what_is_not_simple_goes_through_the_models(params: JsonValue) -> None:
    assert not fits_schema(params)
    assert fits_schema({"protocolVersion": 2, "info": INFO})


@pytest.mark.parametrize("version", [1, 2])
def test_the_answer_names_the_exact_versions_of_both_schemas(version: int) -> None:
    sources = json.loads((SCHEMA_DIR / "PINNED.json").read_text("utf-8"))["sources"]
    answer = (initialize_result_v1 if version == 1 else initialize_result)(
        {"protocolVersion": version}, LoginWays(), {}
    )
    assert value_at(answer, "_meta", "codex-acp-sdk", "schemas") == {
        "@openai/codex": sources[0]["version"],
        "@agentclientprotocol/sdk": sources[1]["version"],
    }
