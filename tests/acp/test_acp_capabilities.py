"""What counts as advertised, and which protocol version is spoken."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.acp import (
    AgentFeatures,
    ClientFeatures,
    agent_features,
    client_features,
    is_supported_version,
    negotiated_version,
)
from codex_acp.acp.capabilities import features_in
from codex_acp.acp.types import InitializeRequest, InitializeResponse
from codex_acp.wire.codec import decode


def client(capabilities: Any) -> ClientFeatures:
    params = {"protocolVersion": 1, "clientCapabilities": capabilities}
    return client_features(decode(InitializeRequest, params).client_capabilities)


def agent(capabilities: Any) -> AgentFeatures:
    result = {"protocolVersion": 1, "agentCapabilities": capabilities}
    return agent_features(decode(InitializeResponse, result).agent_capabilities)


def advertised(features: ClientFeatures | AgentFeatures) -> set[str]:
    return {field.name for field in fields(features) if getattr(features, field.name)}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"elicitation": {"form": {}}}, {"elicitation_form"}),
        ({"elicitation": {"url": {}}}, {"elicitation_url"}),
        ({"elicitation": {"form": {"x": 1}, "url": {}}}, {"elicitation_form", "elicitation_url"}),
        ({"elicitation": {}}, set()),
        ({"elicitation": None}, set()),
        ({"elicitation": True}, set()),
        ({"elicitation": {"form": None, "url": None}}, set()),
        ({"elicitation": {"form": True, "url": "yes"}}, set()),
        ({"elicitation": {"form": [], "url": {}}}, {"elicitation_url"}),
        ({"fs": {"readTextFile": True}}, {"read_text_file"}),
        ({"fs": {"readTextFile": False, "writeTextFile": True}}, {"write_text_file"}),
        ({"fs": {"readTextFile": "true", "writeTextFile": 1}}, set()),
        ({"fs": None}, set()),
        ({"terminal": True}, {"terminal"}),
        ({"terminal": {}}, set()),
        ({"auth": {"terminal": True}}, {"terminal_auth"}),
        ({"auth": {"terminal": {}}}, set()),
        ({"session": {"notices": {}}}, {"notices"}),
        ({"session": {"compaction": {}}}, {"compaction"}),
        ({"session": {"notices": True, "compaction": None}}, set()),
        ({"session": {}}, set()),
        ({"session": None}, set()),
        ({"session": {"configOptions": {"boolean": {}}}}, {"boolean_config_options"}),
        ({"session": {"configOptions": {"boolean": True}}}, set()),
        ({"session": {"configOptions": {}}}, set()),
        ({"_meta": {"terminal_output": True}}, {"terminal_output_meta"}),
        ({"_meta": {"terminal-auth": True}}, {"terminal_auth_meta"}),
        ({"_meta": {"terminal_output": {}, "terminal-auth": "true"}}, set()),
        ({"_meta": [], "future": {}}, set()),
        ({}, set()),
        (None, set()),
        ("all", set()),
    ],
)
def test_what_a_client_advertises(capabilities: Any, expected: set[str]) -> None:
    assert advertised(client(capabilities)) == expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"loadSession": True}, {"load_session"}),
        ({"loadSession": {}}, set()),
        ({"sessionCapabilities": {"list": {}}}, {"list_sessions"}),
        ({"sessionCapabilities": {"delete": {}}}, {"delete_session"}),
        ({"sessionCapabilities": {"resume": {}}}, {"resume_session"}),
        ({"sessionCapabilities": {"close": {}}}, {"close_session"}),
        ({"sessionCapabilities": {"additionalDirectories": {}}}, {"additional_directories"}),
        ({"sessionCapabilities": {"list": True, "resume": None}}, set()),
        ({"auth": {"logout": {}}}, {"logout"}),
        ({"auth": {}}, set()),
        ({"promptCapabilities": {"image": True}}, {"prompt_image"}),
        ({"promptCapabilities": {"audio": True}}, {"prompt_audio"}),
        ({"promptCapabilities": {"embeddedContext": True}}, {"prompt_embedded_context"}),
        ({"mcpCapabilities": {"http": True}}, {"mcp_http"}),
        ({"mcpCapabilities": {"sse": True}}, {"mcp_sse"}),
        ({}, set()),
        (None, set()),
    ],
)
def test_what_an_agent_advertises(capabilities: Any, expected: set[str]) -> None:
    assert advertised(agent(capabilities)) == expected


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, 1, 1.0, "true", [], {}, {"_meta": 3}, {"x": 1}]
)


def _with(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return ODD | st.fixed_dictionaries({}, optional=members)


@given(
    _with(
        elicitation=_with(form=ODD, url=ODD),
        fs=_with(readTextFile=ODD, writeTextFile=ODD),
        terminal=ODD,
        auth=_with(terminal=ODD),
        session=_with(notices=ODD, compaction=ODD, configOptions=_with(boolean=ODD)),
        _meta=_with(**{"terminal_output": ODD, "terminal-auth": ODD}),
    )
)
def test_what_was_sent_reads_as_the_model_reads_it(capabilities: Any) -> None:
    assert features_in(capabilities) == client(capabilities)


def test_nothing_was_said_is_nothing_advertised() -> None:
    assert client_features(None) == ClientFeatures()
    assert agent_features(None) == AgentFeatures()
    assert advertised(ClientFeatures()) == set()
    assert advertised(AgentFeatures()) == set()


def test_features_are_values() -> None:
    features = ClientFeatures(terminal=True)
    assert features == client({"terminal": True})
    with pytest.raises(FrozenInstanceError):
        features.terminal = False  # type: ignore[misc] # what must not work


@pytest.mark.parametrize(
    ("requested", "supported", "answer"),
    [(1, {1}, 1), (2, {1}, 1), (0, {1}, 1), (1, {1, 2}, 1), (2, {1, 2}, 2), (3, {1, 2}, 2)],
)
def test_an_agent_answers_the_same_version_or_its_highest(
    requested: int, supported: set[int], answer: int
) -> None:
    assert negotiated_version(requested, supported) == answer


def test_only_version_one_is_spoken() -> None:
    assert negotiated_version(1) == 1
    assert negotiated_version(65535) == 1
    assert is_supported_version(1)
    assert not is_supported_version(0)
    assert not is_supported_version(2)
