"""A client that speaks ACP v2 over a websocket, and one of v1 beside it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from codex_acp.adapter.network.limits import Limits
from codex_acp.codex import LaunchOptions
from codex_acp.testing import CodexHome, Gate, ScriptedModel, Step, Text
from tests.network.listening_adapter import WAIT, JsonClient
from tests.network.served import ALICE, BOB, Served, served, several_tokens

Json = dict[str, Any]


def states(client: JsonClient) -> list[str]:
    updates = [each["update"] for each in client.updates]
    return [each["state"] for each in updates if each["sessionUpdate"] == "state_update"]


async def test_what_is_not_offered_is_not_spoken(tmp_path: Path) -> None:
    async with served(tmp_path, versions=(1,)) as server, server.connect(version=2) as client:
        assert client.initialized["protocolVersion"] == 1


async def test_a_question_moves_from_a_client_of_v1_to_one_of_v2(tmp_path: Path) -> None:
    limits = Limits(keep_seconds=600)
    async with served(tmp_path, tokens=several_tokens(), limits=limits) as server:
        async with server.connect(ALICE) as client:
            session = await client.new_session(server.cwd)
            await client.prompt(session, "ask")
            asked = await client.question()
            await client.break_off()
        where: Json = {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}
        async with server.connect(BOB, version=2) as bob:
            assert (await bob.refused("session/resume", where))["code"] == -32002
            await bob.ask("session/close", {"sessionId": session})  # of what is not there, for him
            assert (await bob.refused("auth/login", {"methodId": "x"}))["code"] == -32601
        async with server.connect(ALICE, version=2) as client:
            assert client.initialized["protocolVersion"] == 2
            resumed = await client.ask("session/resume", where)
            assert resumed["_meta"]["codex-acp-sdk"] == {"running": True, "questions": 1}
            again = await client.question()
            assert again["method"] == "session/request_permission"
            options = [each["optionId"] for each in asked["params"]["options"]]
            assert [each["optionId"] for each in again["params"]["options"]] == options
            await client.choose(again, "allow_once")
            await client.until(lambda: states(client)[-1:] == ["idle"])
            answer = await client.outcome(await client.prompt(session, "hello"))
            assert answer["result"]["messageId"]
        assert len([line for line in server.decisions() if '"accept"' in line]) == 1


async def test_a_question_and_a_running_turn_move_from_v2_to_v1_and_back(tmp_path: Path) -> None:
    async with served(tmp_path, limits=Limits(keep_seconds=600)) as server:
        async with server.connect(version=2) as client:
            session = await client.new_session(server.cwd)
            await client.prompt(session, "ask")
            asked = await client.question()
            assert asked["params"]["subject"]["command"]
            await client.break_off()
        where: Json = {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}
        async with server.connect(version=1) as client:
            await client.ask("session/load", where)
            of_v1 = await client.question()
            assert of_v1["params"]["toolCall"]["rawInput"]
            assert of_v1["params"]["options"] == asked["params"]["options"]
            assert {"state_update", "user_message"}.isdisjoint(
                each["update"]["sessionUpdate"] for each in client.updates
            )
            await client.break_off()
        async with server.connect(version=2) as client:
            await client.ask("session/resume", {**where, "replayFrom": {"type": "start"}})
            assert states(client)[-1] == "requires_action"
            await client.choose(await client.question(), "reject_once")
            await client.until(lambda: states(client)[-1:] == ["idle"])
        assert len([line for line in server.decisions() if '"decline"' in line]) == 1


@pytest.mark.parametrize("begun", ["session/prompt", "_session/steering"])
@pytest.mark.parametrize("versions", [(1, 1), (1, 2), (2, 1), (2, 2)])
async def test_whoever_takes_a_turn_over_is_told_its_end_in_the_words_of_its_version(
    versions: tuple[int, int], begun: str, tmp_path: Path
) -> None:
    first, second = versions
    limits = Limits(keep_seconds=600)
    async with (
        served(tmp_path, limits=limits) as server,
        server.connect(version=first) as one,
        server.connect(version=second) as other,
    ):
        session = await one.new_session(server.cwd)
        prompt = [{"type": "text", "text": "ask"}]
        await one.start(begun, {"sessionId": session, "prompt": prompt})
        await one.question()
        where: Json = {"sessionId": session, "cwd": str(server.cwd), "mcpServers": []}
        await other.ask("session/resume", where)
        await other.choose(await other.question(), "allow_once")
        told = "The prompt of an earlier connection has ended: end_turn"
        if second == 1:
            await other.until(lambda: told in str(other.updates))
        else:
            await other.until(lambda: states(other)[-1:] == ["idle"])
            answer = await other.outcome(await other.prompt(session, "hello"))
            assert answer["result"]["messageId"]
            assert told not in str(other.updates)


@asynccontextmanager
async def compacting(
    folder: Path,
) -> AsyncIterator[tuple[ScriptedModel, Served, JsonClient, int, Json]]:
    """A model that holds the gate ``sum`` of a compaction, a server with the real Codex, a client
    with a prompt behind the compaction, the request of that prompt, and the params of a resume."""
    script: list[list[Step]] = [[Text("Hello.")], [Gate("sum"), Text("Short.")], [Text("Late.")]]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        launch = LaunchOptions(env={**os.environ, **home.env})
        limits = Limits(keep_seconds=600)
        async with (
            served(folder, launch=launch, limits=limits) as server,
            server.connect(version=2) as client,
        ):
            session = await client.new_session(home.workspace)
            await client.outcome(await client.prompt(session, "First."))
            await client.until(lambda: states(client)[-1:] == ["idle"])
            await client.outcome(await client.prompt(session, "/compact"))
            await to_thread.run_sync(model.wait_for_gate, "sum", WAIT)
            queued = await client.prompt(session, "Second.")
            await client.ask("session/list", {})  # behind which the server has the prompt
            where = {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
            yield model, server, client, queued, where


async def test_who_lost_the_session_hears_of_the_end_of_each_of_its_prompts(tmp_path: Path) -> None:
    async with (
        compacting(tmp_path) as (model, server, one, queued, where),
        server.connect(version=2) as other,
    ):
        await other.ask("session/resume", where)
        one.rules.displaced(where["sessionId"])
        before = len(states(one))
        model.open("sum")
        assert (await one.outcome(queued))["result"]["messageId"]
        await one.until(lambda: states(one)[before:] == ["idle", "running", "idle"])


async def test_a_prompt_that_waits_behind_another_outlives_its_connection(tmp_path: Path) -> None:
    async with compacting(tmp_path) as (model, server, one, _, where):
        await one.break_off()
        model.open("sum")
        async with server.connect(version=2) as other:
            await other.ask("session/resume", where)
            await other.until(lambda: "Late." in other.text(where["sessionId"]))
