"""A client that speaks one version of ACP has the other one's models not loaded for its turns.

What v2 does as v1's request does load v1's: opening a stored session, listing, options, forms.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, json, sys
from functools import partial
import anyio
from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.testing import (
    AppServerScript, AwaitAnswer, Expect, ScriptedAppServer, agent_message, command_approval,
    turn_completed, turn_started,
)
from codex_acp.transport.memory import memory_pair
from tests.acp.raw_peer import RawPeer

VERSION = int(sys.argv[1])
TURN = [
    Expect("turn/start"), *turn_started(), *command_approval("touch x", name="asked"),
    AwaitAnswer("asked"), *agent_message("Done."), *turn_completed(),
]
ME = {"name": "c", "version": "1"}
V1 = {"protocolVersion": 1, "clientCapabilities": {"elicitation": {"form": {}}}}
V2 = {"protocolVersion": 2, "info": ME, "capabilities": {"elicitation": {"form": {}}}}

async def main():
    near, far = memory_pair()
    server = ScriptedAppServer(AppServerScript(*TURN, defaults=True))
    async with server, anyio.create_task_group() as tasks:
        client = RawPeer(far)
        ahead = LoadAhead(asyncio.get_running_loop())
        serve = partial(serve_link, near, AppServer(LaunchOptions(), server.link), ahead=ahead)
        tasks.start_soon(serve)
        assert "result" in await client.ask(1, "initialize", V1 if VERSION == 1 else V2)
        servers = {"mcpServers": []} if VERSION == 1 else {}
        opened = await client.ask(2, "session/new", {"cwd": "/scripted/workspace", **servers})
        where = {"sessionId": opened["result"]["sessionId"]}
        prompt = {**where, "prompt": [{"type": "text", "text": "Go."}]}
        client.send({"id": 3, "method": "session/prompt", "params": prompt})
        asked = await client.sent("session/request_permission")
        option = asked["params"]["options"][0]["optionId"]
        outcome = {"outcome": "selected", "optionId": option}
        client.send({"id": asked["id"], "result": {"outcome": outcome}})
        end = '"stopReason": "end_turn"'
        await client.until(lambda: end in json.dumps(client.messages))
        client.send({"method": "session/cancel", "params": where})
        await client.settle()
        loaded = asyncio.Event()
        ahead.then(loaded.set)
        await loaded.wait()
        print(json.dumps([name for name in sys.modules if ".v" in name]))
        await far.aclose()

asyncio.run(main())
"""


def loaded(version: int) -> list[str]:
    """The generated modules that are loaded after a turn with an approval."""
    command = [sys.executable, "-c", SCRIPT, str(version)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


@pytest.mark.parametrize(("version", "other"), [(1, 2), (2, 1)])
def test_a_turn_loads_the_models_of_its_own_version_only(version: int, other: int) -> None:
    modules = loaded(version)
    assert f"codex_acp.acp._generated.v{version}.models.turn" in modules
    parts = ("models.", "schemas")
    foreign = [f"codex_acp.acp._generated.v{other}.{part}" for part in parts]
    foreign.append(f"codex_acp.mapping.v{other}")
    assert [name for name in modules if name.startswith(tuple(foreign))] == []
    if version == 1:
        assert [name for name in modules if "_generated.v2" in name] == []
