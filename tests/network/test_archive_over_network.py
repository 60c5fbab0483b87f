"""The archive for clients of the network, and that nobody logs in or out there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.served import ALICE, served, several_tokens

INVALID_REQUEST = -32600


@pytest.mark.attack("network")
async def test_a_session_is_archived_by_who_shows_it_and_not_by_another_connection(
    tmp_path: Path,
) -> None:
    async with (
        served(tmp_path, tokens=several_tokens()) as server,
        server.connect(ALICE) as shows,
        server.connect(ALICE, version=2) as other,
    ):
        session = {"sessionId": await shows.new_session(server.cwd)}
        idle = {"state": "idle", "background": []}
        assert await other.ask("session/status", session) == {"status": "open", "state": idle}
        assert (await other.refused("session/archive", session))["code"] == INVALID_REQUEST
        prompt = await shows.prompt(session["sessionId"], "ask")
        await shows.question()
        assert await shows.ask("session/archive", session) == {}
        assert (await shows.outcome(prompt))["result"]["stopReason"] == "cancelled"
        assert (await other.ask("session/status", session)) == {"status": "saved"}
        assert await other.ask("session/unarchive", session) == {}


async def test_a_login_is_neither_advertised_nor_told(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        async with server.connect() as client:
            assert client.initialized["authMethods"] == []
            assert "auth" not in client.initialized["agentCapabilities"]
            assert (await client.refused("auth/status", {}))["code"] == -32601
        async with server.connect(version=2) as client:
            assert client.initialized["authMethods"] == []
            assert "auth" not in client.initialized["capabilities"]
            assert (await client.refused("auth/status", {}))["code"] == -32601


@pytest.mark.attack("network")
async def test_no_client_logs_out_the_codex_of_all(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.connect() as client:
        session = await client.new_session(server.cwd)
        for command in ("/logout", "/LOGOUT", "/mcp reconnect"):
            answer = await client.outcome(await client.prompt(session, command))
            assert answer["error"]["code"] == INVALID_REQUEST
            assert "whoever runs this server" in answer["error"]["message"]
        kind = "available_commands_update"
        lists = [u["update"] for u in client.updates if u["update"]["sessionUpdate"] == kind]
        offered = [command["name"] for command in lists[-1]["availableCommands"]]
        assert "logout" not in offered
        assert "mcp" in offered
