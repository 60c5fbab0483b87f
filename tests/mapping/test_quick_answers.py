"""The first answers from plain JSON: equal to the typed ones, and None for what is not simple."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.agent_v1 import AgentInV1
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.errors import InvalidPayload
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.agent import codex_client_info, fits_schema
from codex_acp.mapping.session_setup import simple_thread_params
from codex_acp.transport.shielding import awaited
from codex_acp.wire.codec import encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
CAPABILITIES = st.fixed_dictionaries(
    {},
    optional={
        "fs": st.dictionaries(st.sampled_from(["readTextFile", "writeTextFile"]), JSON) | JSON,
        "terminal": JSON,
        "elicitation": st.dictionaries(st.sampled_from(["form", "url"]), JSON) | JSON,
        "auth": st.dictionaries(st.just("terminal"), JSON),
        "_meta": st.dictionaries(st.sampled_from(["terminal_output", "terminal-auth"]), JSON),
        "session": JSON,
    },
)
NAMES = st.sampled_from(["zed", "An Editor", "", "a" * 65, "x/y_1.2-3"]) | st.text(max_size=5)
SIMPLE = st.fixed_dictionaries(
    {"protocolVersion": st.sampled_from([0, 1, 2, 65535])},
    optional={
        "clientCapabilities": st.none() | CAPABILITIES,
        "clientInfo": st.none()
        | st.fixed_dictionaries(
            {"name": NAMES, "version": st.text(max_size=5)},
            optional={"title": JSON, "_meta": JSON, "icons": JSON},
        ),
        "_meta": JSON,
        "later": JSON,
    },
)


def _agent() -> tuple[CodexAgent, AppServer]:
    app_server = AppServer(LaunchOptions())
    return CodexAgent(app_server, lambda run: run), app_server


@given(SIMPLE)
async def test_initialize_is_answered_as_the_typed_way_answers_it(params: Any) -> None:
    quick, quick_codex = _agent()
    typed, typed_codex = _agent()
    handlers = AgentInV1(quick).quick()
    assert handlers is not None
    run = handlers["initialize"](params)
    assert run is not None
    handler = AgentInV1(typed).requests()["initialize"]
    assert handler is not None
    request = MODELS.decode("InitializeRequest", params, "initialize")
    assert await run() == encode(await awaited(handler(request)))
    assert quick.client.features == typed.client.features
    assert quick_codex.client_info == typed_codex.client_info


@given(JSON | st.dictionaries(st.sampled_from(["protocolVersion", "clientInfo"]), JSON))
def test_a_quick_initialize_is_one_that_the_schema_takes(params: Any) -> None:
    if fits_schema(params):
        MODELS.decode("InitializeRequest", params, "initialize")


@pytest.mark.parametrize(
    "params",
    [
        None, [], 1, {}, {"protocolVersion": "1"}, {"protocolVersion": True},
        {"protocolVersion": 1.0}, {"protocolVersion": -1}, {"protocolVersion": 65536},
        {"protocolVersion": None}, {"protocolVersion": 1, "clientCapabilities": []},
        {"protocolVersion": 1, "clientCapabilities": "fs"},
        {"protocolVersion": 1, "clientInfo": "zed"}, {"protocolVersion": 1, "clientInfo": {}},
        {"protocolVersion": 1, "clientInfo": {"name": "zed"}},
        {"protocolVersion": 1, "clientInfo": {"name": "zed", "version": 1}},
        {"protocolVersion": 1, "clientInfo": {"name": None, "version": "1"}},
    ],
)  # fmt: skip
def test_an_initialize_that_is_not_simple_is_left_to_the_models(params: Any) -> None:
    assert not fits_schema(params)


PATHS = st.text(max_size=5).filter(lambda text: "\0" not in text).map("/{}".format)


@given(
    st.fixed_dictionaries(
        {"cwd": PATHS, "mcpServers": st.sampled_from([[], None])},
        optional={"additionalDirectories": st.sampled_from([[], None]), "_meta": JSON, "x": JSON},
    )
)
def test_a_simple_session_starts_the_thread_that_the_models_would(params: Any) -> None:
    request = MODELS.decode("NewSessionRequest", params, "session/new")
    assert request.mcp_servers == []
    assert not request.additional_directories
    assert simple_thread_params(params) == {"cwd": request.cwd}


@pytest.mark.parametrize(
    "params",
    [
        None, [], {}, {"cwd": "/x"}, {"mcpServers": []}, {"cwd": "x", "mcpServers": []},
        {"cwd": "", "mcpServers": []}, {"cwd": None, "mcpServers": []},
        {"cwd": "/x", "mcpServers": {}}, {"cwd": "/x", "mcpServers": False},
        {"cwd": "/x", "mcpServers": 0}, {"cwd": "/x", "mcpServers": ""},
        {"cwd": "/x", "mcpServers": [{"name": "s", "command": "c", "args": [], "env": []}]},
        {"cwd": "/x", "mcpServers": [], "additionalDirectories": ["/y"]},
        {"cwd": "/x", "mcpServers": [], "additionalDirectories": 1},
    ],
)  # fmt: skip
def test_a_session_that_is_not_simple_is_left_to_the_models(params: Any) -> None:
    assert simple_thread_params(params) is None


def test_only_an_implementation_is_introduced() -> None:
    assert codex_client_info({"protocolVersion": 1}) is None
    info: dict[str, JsonValue] = {"name": "zed", "version": "1", "title": "Zed"}
    assert codex_client_info({"clientInfo": {**info, "icons": []}}) == info


def test_the_models_refuse_what_the_quick_way_leaves_to_them() -> None:
    with pytest.raises(InvalidPayload, match="protocolVersion"):
        MODELS.decode("InitializeRequest", {}, "initialize")
