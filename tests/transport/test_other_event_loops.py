"""Below an event loop that is not asyncio's: one error that says so, wherever a program enters."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from anyio import to_thread

from codex_acp.acp import connect_agent, run_agent, spawn
from codex_acp.codex import CodexClient
from codex_acp.errors import MisuseError
from codex_acp.fleet import Fleet, Task
from codex_acp.runtime import AgentRuntime, AgentSpec
from codex_acp.testing import ScriptedAgent, ScriptedAppServer, ScriptedClient
from codex_acp.transport.link import memory_pair

CAT = [sys.executable, "-c", "import sys; sys.stdin.read()"]

Entry: TypeAlias = Callable[[], Coroutine[Any, Any, object]]


async def codex_client() -> None:
    async with CodexClient(spawn(CAT)):
        pass


async def connect() -> None:
    await CodexClient(memory_pair()[0]).connect()


async def agent_in_a_process() -> None:
    async with connect_agent(CAT, name="me"):
        pass


async def own_agent() -> None:
    async def answer(_turn: object) -> None:
        pass

    await run_agent(answer, name="me", link=memory_pair()[0])


async def runtime() -> None:
    async with AgentRuntime():
        pass


async def session() -> None:
    await AgentRuntime({"cat": AgentSpec(name="cat", command=CAT)}).open("cat")


async def description() -> None:
    await AgentRuntime({"cat": AgentSpec(name="cat", command=CAT)}).describe("cat")


async def closed_runtime() -> None:
    await AgentRuntime().aclose()


async def fleet() -> None:
    async with Fleet().map([Task(prompt="x", id="a", cwd=".")]):
        pass


async def scripted_agent() -> None:
    ScriptedAgent().link()


async def scripted_app_server() -> None:
    async with ScriptedAppServer():
        pass


async def scripted_client() -> None:
    async with ScriptedClient(CAT):
        pass


def step(entry: Entry) -> object:
    """Run it as another library's loop does: asyncio has none."""
    return entry().send(None)


@pytest.mark.parametrize("entry", [
    codex_client, connect, agent_in_a_process, own_agent, runtime, session, description,
    closed_runtime, fleet, scripted_agent, scripted_app_server, scripted_client,
])  # fmt: skip
def test_one_error_says_that_asyncio_is_needed(
    entry: Entry, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(MisuseError, match=r"needs asyncio: .* asyncio\.run"):
        step(entry)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_a_process_that_was_started_already_is_ended() -> None:
    link = spawn(CAT)

    async def enter() -> None:
        async with connect_agent(link, name="me"):
            pass

    with pytest.raises(MisuseError, match="asyncio"):
        step(enter)
    assert not Path(f"/proc/{link.pid}").exists() or sys.platform != "linux"


async def test_a_call_from_another_event_loop_is_refused_and_waits_for_nothing() -> None:
    async with ScriptedAppServer() as server, CodexClient(server.link) as codex:
        with pytest.raises(MisuseError, match="the event loop that it was started in"):
            await to_thread.run_sync(asyncio.run, codex.model_list())
