"""The command as a server on a websocket, with the real Codex behind it."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

from codex_acp.adapter.network.access_control import PendingConnections
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.sessions.session import Session
from codex_acp.testing import CodexHome, ScriptedModel, Text, exec_command
from tests.network.listening_adapter import ListeningAdapter
from tests.network.served import served, until

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("options", [(), ("--codex-per-connection",)], ids=["shared", "own"])
async def test_two_connections_have_a_turn_each(tmp_path: Path, options: tuple[str, ...]) -> None:
    ask = exec_command("touch made && echo hi", justification="May I?")
    with (
        ScriptedModel([[Text("Hello.")], [ask], [Text("Done.")]]) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path, *options) as adapter,
    ):
        async with adapter.connect() as one, adapter.connect() as two:
            named = one.socket.response
            assert named is not None
            assert len(named.headers["Acp-Connection-Id"]) == 32
            assert one.initialized["authMethods"] == []
            first, second = (
                await one.new_session(home.workspace),
                await two.new_session(home.workspace),
            )
            ended = await one.outcome(await one.prompt(first))
            assert ended["result"]["stopReason"] == "end_turn"
            assert one.text(first) == "Hello."
            running = await two.prompt(second)
            await two.choose(await two.question(), "allow_once")
            assert (await two.outcome(running))["result"]["stopReason"] == "end_turn"
            assert two.text(second) == "Done."
            assert (home.workspace / "made").exists()
            assert {each["sessionId"] for each in one.updates} == {first}
            assert {each["sessionId"] for each in two.updates} == {second}
            assert one.asked == []


async def test_garbage_is_collected_again_when_all_is_loaded(tmp_path: Path) -> None:
    gc.disable()  # as the command does for its start
    try:
        async with served(tmp_path) as server, server.connect() as client:
            session = await client.new_session(server.cwd)
            await client.outcome(await client.prompt(session, "hello"))
            await until(gc.isenabled)
    finally:
        gc.enable()


@pytest.mark.attack("client")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("method", ["session/prompt", "_session/steering"])
async def test_a_cancel_in_one_write_with_a_prompt_takes_it_back(
    tmp_path: Path, version: int, method: str
) -> None:
    async with served(tmp_path) as server, server.connect(version=version) as client:
        session = await client.new_session(server.cwd)
        text = [{"type": "text", "text": "ask"}]
        begun = await client.start(method, {"sessionId": session, "prompt": text})
        await client.send({"method": "session/cancel", "params": {"sessionId": session}})
        outcome = await client.outcome(begun)
        if version == 1 and method == "session/prompt":
            assert outcome["result"]["stopReason"] == "cancelled"
        else:
            assert outcome["error"]["code"] == -32800
        assert client.asked == []


@pytest.mark.attack("network")
async def test_a_session_whose_closing_is_given_up_counts_among_those_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()

    async def never(_: Session) -> None:
        stopping.set()
        await asyncio.Event().wait()

    async with served(tmp_path, limits=Limits(sessions=1)) as server, server.connect() as client:
        session = await client.new_session(server.cwd)
        with monkeypatch.context() as patched:
            patched.setattr(Session, "stop", never)
            closing = await client.start("session/close", {"sessionId": session})
            await stopping.wait()
            await client.send({"method": "$/cancel_request", "params": {"requestId": closing}})
            assert (await client.outcome(closing))["error"]["code"] == -32800
        error = await client.refused("session/new", {"cwd": str(server.cwd), "mcpServers": []})
        assert "sessions" in error["message"]
        ended = await client.outcome(await client.prompt(session))
        assert ended["result"]["stopReason"] == "end_turn"


class SilentTransport(asyncio.Transport):
    """The connection of a client that sends nothing."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


async def test_a_connection_that_comes_while_the_server_ends_is_cut_off() -> None:
    """Since Python 3.12 a server's end waits for all of its connections."""
    pending, late = PendingConnections(64), SilentTransport()
    pending.abort_all()
    pending.add(late)
    assert late.is_aborted
