"""The scripted agent and the scripted client: an agent or a client is tested in ten lines."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from codex_acp.acp.types import PlanSessionUpdate
from codex_acp.runtime import AgentRuntime, AgentSpec, allow_kinds
from codex_acp.testing import (
    AskPermission,
    CodexHome,
    ScriptedAgent,
    ScriptedClient,
    ScriptedModel,
    Text,
    UntilCancelled,
)

WAIT = 60


async def test_a_client_is_tested_against_a_scripted_agent() -> None:
    agent = ScriptedAgent([[AskPermission("Run ls", then="a b"), "Two ", "files."], ["Bye."]])
    spec = AgentSpec(name="scripted", link=agent.link)

    async with (
        AgentRuntime(permissions=allow_kinds("execute")) as runtime,
        runtime.open(spec, cwd="/") as session,
    ):
        first, second = await session.run("What is here?"), await session.run("Thanks.")

    assert (first.text, second.text) == ("Two files.", "Bye.")
    assert [call.status for call in first.tool_calls] == ["completed"]
    assert agent.allowed == [True]
    assert len(agent.prompts) == 2


async def test_an_agent_is_tested_by_a_scripted_client() -> None:
    agent = ScriptedAgent([[AskPermission("Delete"), PlanSessionUpdate(entries=[]), "Done."]])

    async with ScriptedClient(agent.link(), permissions=[None]) as client:
        turn = await client.prompt("Go.")
        assert (turn.text, turn.stop_reason) == ("Done.", "end_turn")
        assert client.asked[0].tool_call.title == "Delete"
        assert agent.allowed == [False]
        assert (await client.prompt("More.")).updates == []


async def test_what_is_not_scripted_is_rejected() -> None:
    agent = ScriptedAgent([[AskPermission("Delete")]])
    async with ScriptedClient(agent.link()) as client:
        await client.prompt("Go.")
    assert agent.allowed == [False]


async def test_a_prompt_is_cancelled() -> None:
    agent = ScriptedAgent([["Wait.", UntilCancelled()]])
    async with ScriptedClient(agent.link()) as client, anyio.create_task_group() as tasks:
        reasons: list[str] = []
        ended = anyio.Event()

        async def prompt() -> None:
            reasons.append((await client.prompt("Go.")).stop_reason)
            ended.set()

        tasks.start_soon(prompt)
        with anyio.fail_after(WAIT):
            await agent.waiting.wait()
            client.cancel()
            await ended.wait()
    assert reasons == ["cancelled"]
    assert agent.cancelled == 1


async def test_two_sessions_hear_their_own_only() -> None:
    agent = ScriptedAgent([["First."], ["Second."]])
    async with ScriptedClient(agent.link()) as client:
        other = await client.new_session()
        assert (await client.prompt("a")).text == "First."
        assert (await client.prompt("b", other)).text == "Second."


def test_the_fixtures_make_a_model_and_a_home_for_it(
    scripted_model: Callable[..., ScriptedModel], codex_acp_home: Callable[..., CodexHome]
) -> None:
    model = scripted_model([[Text("Hello.")]])
    home = codex_acp_home(model)
    assert model.base_url in (home.codex_home / "config.toml").read_text()
