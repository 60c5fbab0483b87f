"""The runtime with our own adapter as the agent, the real Codex behind it and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import pytest

from codex_acp.runtime import (
    AgentRuntime,
    AgentSpec,
    Permission,
    Session,
    SessionBusy,
    SessionStore,
    allow_kinds,
    kind_of,
)
from codex_acp.testing import CodexHome, Gate, ModelResponse, ScriptedModel, Text, exec_command

WAIT = 60.0

ASKING = [
    ModelResponse(exec_command("echo made > made.txt", justification="to make it", call_id="c")),
    ModelResponse(Text("That is ", "done.")),
]


Version: TypeAlias = Literal[1, 2]

both_versions = pytest.mark.parametrize("version", [1, 2])


def spec(home: CodexHome, version: Version | None = None) -> AgentSpec:
    """Our adapter, spoken with in its highest version unless one is named."""
    return replace(AgentSpec.codex(env=home.env, inherit_env=False), version=version)


@asynccontextmanager
async def opened(
    script: Iterable[Any], version: Version | None = None, **options: Any
) -> AsyncIterator[tuple[Session, Path]]:
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        with anyio.fail_after(WAIT):
            async with (
                AgentRuntime(**options) as runtime,
                runtime.open(spec(home, version), cwd=home.workspace) as session,
            ):
                yield session, home.workspace


async def test_a_prompt_streams_and_ends() -> None:
    async with opened([[Text("Nothing ", "at all.")]]) as (session, _):
        async with session.prompt("What is here?") as prompt:
            kinds = [kind_of(update) async for update in prompt]
        assert prompt.stop_reason == "end_turn"
        assert prompt.messages == ("Nothing at all.",)
        assert kinds.count("agent_message_chunk") >= 1
        assert session.agent_info is not None


@both_versions
async def test_a_command_that_nobody_permits_is_not_run(version: Version) -> None:
    async with opened(ASKING, version) as (session, workspace):
        result = await session.run("Make it.")
        assert not (workspace / "made.txt").exists()
        assert result.stop_reason in ("end_turn", "cancelled")


@both_versions
async def test_a_command_that_the_policy_permits_is_run(version: Version) -> None:
    asked: list[Permission] = []

    def note(permission: Permission) -> None:
        asked.append(permission)

    async with opened(ASKING, version, permissions=allow_kinds("execute", otherwise=note)) as (
        session,
        workspace,
    ):
        result = await session.run("Make it.")
        assert (workspace / "made.txt").read_text() == "made\n"
        assert result.text.endswith("That is done.")
        assert result.stop_reason == "end_turn"
        assert [call.kind for call in result.tool_calls] == ["execute"]
    assert asked == []


@both_versions
async def test_leaving_a_prompt_cancels_the_turn_and_the_next_one_works(version: Version) -> None:
    script = [ModelResponse(Text("I start."), Gate("never")), ModelResponse(Text("Here again."))]
    async with opened(script, version) as (session, _):
        async with session.prompt("Go.") as prompt:
            async for update in prompt:
                if kind_of(update) == "agent_message_chunk":
                    break
        assert prompt.stop_reason == "cancelled"
        assert (await session.run("Still there?")).text == "Here again."


async def test_a_session_that_another_process_works_in_is_an_error_or_forked() -> None:
    script = [
        ModelResponse(Text("First.")),
        ModelResponse(Text("I work."), Gate("never")),
        ModelResponse(Text("Copied.")),
    ]
    async with (
        AgentRuntime(busy_seconds=0) as runtime,
        opened(script) as (session, workspace),
    ):
        assert (await session.run("Begin.")).text == "First."
        known, wanted = session._process.spec, session.session_id
        async with session.prompt("Work.") as prompt:
            async for update in prompt:
                if kind_of(update) == "agent_message_chunk":
                    break
            with pytest.raises(SessionBusy, match="something runs in the session"):
                await runtime.open(known, cwd=workspace, session_id=wanted)
            async with runtime.open(
                known, cwd=workspace, session_id=wanted, fork_if_busy=True
            ) as copy:
                assert copy.opened.how == "fork"
                assert copy.session_id != session.session_id
                assert (await copy.run("Go on.")).text == "Copied."


async def test_two_sessions_of_a_shared_agent_do_not_mix() -> None:
    script = [ModelResponse(Text("First.")), ModelResponse(Text("Second."))]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        shared = AgentSpec.codex(env=home.env, inherit_env=False, shared=True)
        with anyio.fail_after(WAIT):
            async with (
                AgentRuntime() as runtime,
                runtime.open(shared, cwd=home.workspace) as one,
                runtime.open(shared, cwd=home.workspace) as two,
            ):
                assert one._process is two._process
                assert (await one.run("1")).text == "First."
                assert (await two.run("2")).text == "Second."


async def test_an_adapter_that_dies_in_a_prompt_is_a_typed_error() -> None:
    async with opened([ModelResponse(Text("I start."), Gate("never"))]) as (session, _):
        prompt = session.prompt("Go.")
        async for update in prompt:
            if kind_of(update) == "agent_message_chunk":
                break
        session._process.kill()
        with pytest.raises(Exception, match="codex"):
            await prompt.result()


@both_versions
async def test_a_stored_session_is_loaded_with_its_history(
    tmp_path: Path, version: Version
) -> None:
    script = [ModelResponse(Text("Noted.")), ModelResponse(Text("You said seven."))]
    store = SessionStore(tmp_path / "sessions.json")
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        with anyio.fail_after(WAIT):
            agent = spec(home, version)
            async with AgentRuntime(store=store) as runtime:
                async with runtime.open(agent, cwd=home.workspace, key="k") as session:
                    assert session.opened.how == "new"
                    await session.run("Seven.")
                    first = session.session_id
                listed = await runtime.sessions(agent, cwd=home.workspace)
                assert first in [entry.session_id for entry in listed]
                async with runtime.open(agent, cwd=home.workspace, key="k") as session:
                    assert (session.opened.how, session.opened.reason) == ("load", None)
                    assert session.session_id == first
                    kinds = [kind_of(update) for update in session.history]
                    assert {"user_message_chunk", "agent_message_chunk"} <= set(kinds)
                    assert (await session.run("What?")).text == "You said seven."
                await runtime.delete(agent, first)
                assert store.all() == []
        assert "Seven." in str(model.requests[-1].body)


async def test_a_session_that_codex_does_not_know_gives_a_new_one_and_the_reason() -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    with ScriptedModel([]) as model, CodexHome(model.base_url) as home:
        with anyio.fail_after(WAIT):
            async with (
                AgentRuntime() as runtime,
                runtime.open(spec(home), cwd=home.workspace, session_id=unknown) as session,
            ):
                assert session.opened.how == "new"
                assert session.opened.reason is not None
                assert session.session_id != unknown


async def test_options_are_found_and_set_also_while_a_prompt_runs() -> None:
    async with opened([ModelResponse(Text("I start."), Gate("never"))]) as (session, _):
        options = session.options
        assert options.model.current == "gpt-5.5"
        await options.mode.set("read-only")
        assert options.mode.current == "read-only"
        async with session.prompt("Go.") as prompt:
            async for update in prompt:
                if kind_of(update) == "agent_message_chunk":
                    break
            await options.thought_level.set("low")
            assert options.thought_level.current == "low"
            async with options.watch() as lists:
                assert await anext(lists) == options.all
