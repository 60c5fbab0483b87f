"""How serving a client ends, and what is done with a Codex that nobody used."""

from __future__ import annotations

import asyncio
from typing import cast

import anyio
import pytest

from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.errors import ConnectionClosed
from codex_acp.testing import (
    AppServerScript,
    Expect,
    ScriptedAppServer,
    Silence,
    agent_message,
    turn_started,
)
from codex_acp.transport.child import ChildProcess
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer


class Unused:
    """A spawned Codex that is only ever closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def app_server(spawned: object) -> AppServer:
    return AppServer(LaunchOptions(), cast("ChildProcess", spawned))


async def test_a_client_that_disconnects_ends_serving_and_a_codex_that_was_never_used() -> None:
    link, far = memory_pair()
    RawPeer(far)
    codex = Unused()
    await far.aclose()
    with anyio.fail_after(60):
        await serve_link(link, app_server(codex))

    assert codex.closed == 1


async def test_a_connection_that_breaks_is_raised_as_what_it_is() -> None:
    link, far = memory_pair()
    RawPeer(far)
    codex = Unused()
    why = ConnectionClosed("the pipe broke")
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            with pytest.raises(ConnectionClosed, match="the pipe broke"):
                await serve_link(link, app_server(codex))

        tasks.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        link.fail(why)

    assert codex.closed == 1


async def test_an_end_in_mid_turn_waits_for_no_codex_and_asks_it_nothing_more() -> None:
    link, far = memory_pair()
    script = AppServerScript(
        Expect("turn/start"), *turn_started(), *agent_message("Hi"), Silence(), defaults=True
    )
    async with ScriptedAppServer(script) as server:
        client = RawPeer(far)
        scope = anyio.CancelScope()

        async def serve() -> None:
            with scope:
                await serve_link(link, app_server(server.link))

        task = asyncio.get_running_loop().create_task(serve())
        await client.ask(1, "initialize", {"protocolVersion": 1})
        answer = await client.ask(2, "session/new", {"cwd": "/work", "mcpServers": []})
        params = {
            "sessionId": answer["result"]["sessionId"],
            "prompt": [{"type": "text", "text": "hi"}],
        }
        client.send({"id": 3, "method": "session/prompt", "params": params})
        await client.sent("session/update")
        scope.cancel()  # as SIGTERM does
        await asyncio.wait({task}, timeout=60)

        assert task.done(), "Codex ends no turn, and holds the adapter up"
        assert (await client.reply(3))["error"]["code"] == -32800
        methods = [message.get("method") for message in server.player.received]
        assert "turn/interrupt" not in methods


async def test_a_line_over_the_limit_is_refused_and_the_next_line_works() -> None:
    link, far = memory_pair()
    async with ScriptedAppServer() as server, anyio.create_task_group() as tasks:
        client = RawPeer(far)

        async def serve() -> None:
            await serve_link(link, app_server(server.link), line_limit=200)

        tasks.start_soon(serve)
        client.send({"id": 1, "method": "initialize", "params": {"x": "y" * 200}})
        refused = await client.reply(1)
        answered = await client.ask(2, "initialize", {"protocolVersion": 1})
        await far.aclose()

    assert refused["error"]["code"] == -32600
    assert "200 bytes" in refused["error"]["message"]
    assert answered["result"]["protocolVersion"] == 1
