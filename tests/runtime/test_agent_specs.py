"""How agents are named and written down, and when one may be started again."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from codex_acp.errors import MisuseError
from codex_acp.runtime import AgentRuntime, AgentSpec, TerminalAccess
from codex_acp.transport.link import memory_pair


def test_a_command_line_is_split_as_a_shell_does() -> None:
    spec = AgentSpec.parse("my-agent --flag 'two words'")
    assert spec.command == ("my-agent", "--flag", "two words")
    assert spec.name == "my-agent"
    assert AgentSpec.parse("/opt/bin/agent", name="mine").name == "mine"


@pytest.mark.parametrize("command", ["", "  ", "agent 'unclosed"])
def test_a_line_that_is_no_command_is_a_misuse(command: str) -> None:
    with pytest.raises(MisuseError):
        AgentSpec.parse(command)


@pytest.mark.parametrize("arguments", [{}, {"command": "one string"}, {"command": [""]}])
def test_a_spec_without_a_proper_command_is_a_misuse(arguments: dict[str, Any]) -> None:
    with pytest.raises(MisuseError, match="list of words"):
        AgentSpec(**arguments)


def test_a_link_stands_in_place_of_a_command() -> None:
    assert AgentSpec(name="x", link=lambda: memory_pair()[0]).command == ()
    with pytest.raises(MisuseError, match="no command"):
        AgentSpec(["a"], name="x", link=lambda: memory_pair()[0])
    with pytest.raises(MisuseError, match="a name"):
        AgentSpec(link=lambda: memory_pair()[0])


def test_codex_is_this_package_in_this_python() -> None:
    spec = AgentSpec.codex("--log-level", "INFO")
    assert spec.command[0] == sys.executable
    assert spec.command[-2:] == ("--log-level", "INFO")
    assert AgentRuntime().agents["codex"].name == "codex"
    assert AgentRuntime().agents["claude"].command[0] == "npx"


def test_two_specs_share_a_process_only_if_they_start_alike() -> None:
    spec = AgentSpec(["a"], env={"X": "1"})
    assert spec.key == AgentSpec(["a"], env={"X": "1"}).key
    for other in (
        AgentSpec(["a"]),
        AgentSpec(["a", "b"], env={"X": "1"}),
        AgentSpec(["a"], env={"X": "1"}, inherit_env=False),
        AgentSpec(["a"], env={"X": "1"}, cwd="/"),
        AgentSpec(["a"], "other", env={"X": "1"}),
        AgentSpec(["a"], env={"X": "1"}, auth_method="key"),
    ):
        assert spec.key != other.key


@pytest.mark.attack("agent")
def test_what_is_shown_of_an_agent_or_its_terminals_has_no_variable_and_no_argument() -> None:
    env = {"AGENT_KEY": "swordfish"}
    spec = AgentSpec(("an-agent", "--api-key", "swordfish"), env=env)
    assert "an-agent" in repr(spec)
    for shown in (repr(spec), repr(TerminalAccess(env=env))):
        assert "swordfish" not in shown
