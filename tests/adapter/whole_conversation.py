"""A program: a client of a version of ACP that asks all it can of an agent with a scripted Codex.

Prints the answers by method, what it was sent, and the modules that are loaded at the end. The
script of Codex is read from standard input, the version is the first argument.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any, cast

import anyio

from codex_acp.adapter.load_ahead import LoadAhead
from codex_acp.adapter.serve import serve_link
from codex_acp.adapter.server.app_server import AppServer
from codex_acp.codex.connection.launch import LaunchOptions
from codex_acp.testing import AppServerScript, ScriptedAppServer
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer

CWD = "/scripted/workspace"
ELICITATION: dict[str, Any] = {"form": {}, "url": {}}
SESSION: dict[str, Any] = {"notices": {}, "compaction": {}}
UNSTABLE = {"elicitation": ELICITATION, "session": SESSION, "subagents": {}, "plan": {}}
INITIALIZE = {
    1: {"protocolVersion": 1, "clientCapabilities": UNSTABLE},
    2: {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": UNSTABLE},
}
ONLY = {
    1: {
        "session/set_mode": {"modeId": "read-only"},
        "session/load": {"cwd": CWD, "mcpServers": []},
        "session/set_config_option": {"configId": "mode", "value": "read-only"},
        "authenticate": {
            "methodId": "api-key",
            "_meta": {"api-key": {"apiKey": "k"}},
        },
        "logout": {},
    },
    2: {
        "session/set_config_option": {"configId": "mode", "type": "id", "value": "read-only"},
        "tool_call/cancel": {"toolCallId": "none"},
        "terminal/cancel": {"terminalId": "none"},
        "auth/login": {"methodId": "api-key", "_meta": {"api-key": {"apiKey": "k"}}},
        "auth/logout": {},
    },
}
"""What only one version has, or writes so."""

GATEWAY = {"providerId": "openai", "apiType": "openai", "baseUrl": "https://g.example/v1"}
COMMON: dict[str, Any] = {
    "session/list": {"cwd": CWD},
    "session/set_title": {"title": "A title"},
    "session/status": {},
    "session/fork": {"cwd": CWD, "mcpServers": []},
    "auth/status": {},
    "providers/list": {},
    "providers/set": GATEWAY,
    "providers/disable": {"providerId": "openai"},
    "_session/steering": {
        "prompt": [{"type": "text", "text": "And this."}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}},
    },
    "session/close": {},
    "session/resume": {"cwd": CWD, "mcpServers": [], "replayFrom": {"type": "start"}},
    "session/archive": {},
    "session/unarchive": {},
    "session/delete": {},
}


class Answering(RawPeer):
    """A client that says yes to all that it is asked."""

    def data_received(self, data: bytes) -> None:
        known = len(self.messages)
        super().data_received(data)
        for message in self.messages[known:]:
            if "id" in message and "method" in message:
                self.send({"id": message["id"], "result": _yes(message["params"])})


def _yes(params: dict[str, Any]) -> dict[str, Any]:
    if "options" in params:
        return {"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}
    return {"action": "accept", "content": {}} if params["mode"] == "form" else {"action": "accept"}


async def _all_methods(client: RawPeer, version: int) -> dict[str, Any]:
    servers: dict[str, Any] = {"mcpServers": []} if version == 1 else {}
    opening = {"cwd": CWD, **servers}
    answers = {"initialize": await client.ask("i", "initialize", INITIALIZE[version])}
    answers["session/new"] = await client.ask("n", "session/new", opening)
    where = {"sessionId": answers["session/new"]["result"]["sessionId"]}
    prompt = {**where, "prompt": [{"type": "text", "text": "Go."}]}
    answers["session/prompt"] = await client.ask("p", "session/prompt", prompt)
    await client.until(lambda: '"stopReason": "end_turn"' in json.dumps(client.messages))
    asked = {**ONLY[version], **COMMON}
    for method in ("session/set_mode", "session/set_config_option", *asked):
        if method in asked:
            params = {**where, **asked.pop(method)}
            answers[method] = await client.ask(method, method, params)
    client.send({"method": "session/cancel", "params": where})
    await client.settle()
    return answers


async def main(version: int) -> None:
    near, far = memory_pair()
    server = ScriptedAppServer(AppServerScript.from_jsonl(sys.stdin.read()))
    async with server, anyio.create_task_group() as tasks:
        client = Answering(far)
        ahead = LoadAhead(asyncio.get_running_loop())
        app_server = AppServer(LaunchOptions(), cast("Any", server.link))
        tasks.start_soon(partial(serve_link, near, app_server, ahead=ahead))
        answers = await _all_methods(client, version)
        loaded = asyncio.Event()
        ahead.call_when_loaded(loaded.set)
        await loaded.wait()
        modules = [name for name in sys.modules if ".v" in name]
        sys.stdout.write(json.dumps([answers, client.messages, modules]))
        await far.aclose()


asyncio.run(main(int(sys.argv[1])))
