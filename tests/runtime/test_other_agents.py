"""The runtime with agents that are not ours. ``nox -s agents`` fetches them and runs this."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio
import pytest

from codex_acp.acp.types import PermissionOption
from codex_acp.codex.connection.launch import find_codex
from codex_acp.errors import ErrorReply
from codex_acp.runtime import AgentRuntime, AgentSpec, Permission, allow_kinds, kind_of
from codex_acp.testing import (
    CodexHome,
    Gate,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    Text,
    exec_command,
)
from tests.runtime.fetch_agents import PLACE_VARIABLE, example, node, package

pytestmark = pytest.mark.agents

WAIT = 120.0


@pytest.fixture(autouse=True)
def _fetched() -> None:
    if PLACE_VARIABLE not in os.environ:
        pytest.fail(f"{PLACE_VARIABLE} does not say where the agents are; use `nox -s agents`")


def _wants_a_title(request: ModelRequest) -> bool:
    """The official adapter asks for one beside the first turn, at any moment."""
    return "generate a very short title" in request.last_user_text


TITLE = ModelResponse(Text('{"title": "A title"}'), when=_wants_a_title, repeat=True)


@pytest.fixture
def home() -> Iterator[tuple[ScriptedModel, CodexHome]]:
    script = [
        TITLE,
        ModelResponse(Text("Nothing ", "at all.")),
        ModelResponse(exec_command("echo made > made.txt", justification="to make it")),
        ModelResponse(Text("Done.")),
        ModelResponse(Text("I start."), Gate("never")),
        ModelResponse(Text("Still here.")),
    ]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as codex_home:
        yield model, codex_home


def official(home: CodexHome, version: Literal[1, 2]) -> AgentSpec:
    env = {**home.env, "CODEX_PATH": find_codex().path}
    script = package("official") / "dist" / "index.js"
    command = [node(), str(script)]
    return AgentSpec(command, "official", env=env, inherit_env=False, version=version)


@pytest.mark.parametrize("version", [1, 2])
async def test_the_official_adapter_prompts_cancels_lists_and_loads(
    home: tuple[ScriptedModel, CodexHome], version: Literal[1, 2]
) -> None:
    _, codex_home = home
    spec, workspace = official(codex_home, version), codex_home.workspace
    policy = allow_kinds("execute", "edit", "other")
    with anyio.fail_after(WAIT):
        async with AgentRuntime(permissions=policy) as runtime:
            async with runtime.open(spec, cwd=workspace) as session:
                await session.options.mode.set("read-only")  # else the model is asked, too
                assert (await session.run("What is here?")).text == "Nothing at all."
                assert (await session.run("Make it.")).stop_reason == "end_turn"
                assert (workspace / "made.txt").read_text() == "made\n"
                async with session.prompt("Go.") as prompt:
                    async for update in prompt:
                        if kind_of(update) == "agent_message_chunk":
                            break
                assert prompt.stop_reason == "cancelled"
                assert (await session.run("Still there?")).text == "Still here."
                session_id = session.session_id
            listed = await runtime.sessions(spec)
            assert session_id in [entry.session_id for entry in listed]
            async with runtime.open(spec, cwd=workspace, session_id=session_id) as session:
                assert session.opened.how == "load"
                kinds = [kind_of(update) for update in session.history]
                assert {"user_message_chunk", "agent_message_chunk"} <= set(kinds)
            await runtime.delete(spec, session_id)


@pytest.mark.parametrize("version", [1, 2])
async def test_the_official_adapters_options_are_found_and_set(
    home: tuple[ScriptedModel, CodexHome], version: Literal[1, 2]
) -> None:
    _, codex_home = home
    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime() as runtime,
            runtime.open(official(codex_home, version), cwd=codex_home.workspace) as session,
        ):
            options = session.options
            assert options.model.current == "gpt-5.5"
            await options.thought_level.set("low")
            assert options.thought_level.current == "low"
            await options.mode.set("read-only")
            assert options.mode.current == "read-only"
            fast = options.get("fast-mode")
            assert fast is not None
            assert fast.current_value is False


@pytest.mark.parametrize("version", [1, 2])
async def test_the_official_adapter_asks_before_a_command(version: Literal[1, 2]) -> None:
    script = [
        TITLE,
        ModelResponse(exec_command("echo made > made.txt", justification="to make it")),
        ModelResponse(Text("Done.")),
    ]
    asked: list[Permission] = []

    def policy(permission: Permission) -> PermissionOption | None:
        asked.append(permission)
        return permission.option("allow_once")

    with ScriptedModel(script) as model, CodexHome(model.base_url) as home, anyio.fail_after(WAIT):
        spec = official(home, version)
        async with (
            AgentRuntime(permissions=policy) as runtime,
            runtime.open(spec, cwd=home.workspace) as session,
        ):
            await session.options.mode.set("read-only")
            result = await session.run("Make it.")
        assert (Path(home.workspace) / "made.txt").read_text() == "made\n"
    assert (result.text, result.stop_reason) == ("Done.", "end_turn")
    assert [call.status for call in result.tool_calls] == ["completed"]
    (permission,) = asked
    assert permission.tool_call.title == "echo made > made.txt"
    assert permission.kind == "execute"


async def test_claude_gets_as_far_as_it_can_without_an_account(tmp_path: Path) -> None:
    script = package("claude") / "dist" / "index.js"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    spec = AgentSpec([node(), str(script)], "claude", env=env, inherit_env=False)
    with anyio.fail_after(WAIT):
        async with AgentRuntime() as runtime:
            description = await runtime.describe(spec)
            assert description.info is not None
            assert "claude" in description.info.name
            with pytest.raises(ErrorReply):
                async with runtime.open(spec, cwd=tmp_path) as session:
                    await session.run("Hello?")


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_example_agent_of_the_typescript_sdk(tmp_path: Path, allowed: bool) -> None:
    script = package("sdk") / "dist" / "examples" / "agent.js"
    asked: list[Permission] = []

    def policy(permission: Permission) -> str | None:
        asked.append(permission)
        return "allow" if allowed else None

    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(permissions=policy) as runtime,
            runtime.open(AgentSpec([node(), str(script)]), cwd=tmp_path) as session,
        ):
            result = await session.run("Hello!")
    (permission,) = asked
    assert permission.kind == "edit"
    assert permission.tool_call.title == "Modifying critical configuration file"
    assert result.stop_reason == "end_turn"
    assert [call.kind for call in result.tool_calls] == ["read", "edit"]
    said = "successfully updated" if allowed else "skip the configuration update"
    assert said in result.messages[-1]


async def test_the_typescript_example_stops_when_it_is_left(tmp_path: Path) -> None:
    script = package("sdk") / "dist" / "examples" / "agent.js"
    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime() as runtime,
            runtime.open(AgentSpec([node(), str(script)]), cwd=tmp_path) as session,
        ):
            async with session.prompt("Hello!") as prompt:
                async for _ in prompt:
                    break
            assert prompt.stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("name", "text"), [("agent.py", "Client sent:Hello!"), ("echo_agent.py", "Hello!")]
)
async def test_the_example_agents_of_the_python_sdk(tmp_path: Path, name: str, text: str) -> None:
    spec = AgentSpec([sys.executable, str(example(name))], name)
    with anyio.fail_after(WAIT):
        async with AgentRuntime() as runtime, runtime.open(spec, cwd=tmp_path) as session:
            result = await session.run("Hello!")
    assert (result.text, result.stop_reason) == (text, "end_turn")
