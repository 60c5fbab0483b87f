"""Sub-agents' sessions over the network: their streams, and whose they are. On the real Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from codex_acp.testing import CodexHome, Gate, ScriptedModel, Text, exec_command
from tests.e2e.sub_agents_bench import CONFIG, LateModel, spawn, wait
from tests.e2e.test_other_agents import HELLO, MADE, OTHER, REACH, TOOLS
from tests.e2e.test_other_agents import SCENES as REACHING
from tests.e2e_contract.contract_bench import Scenes
from tests.network.http_client import HttpClient
from tests.network.listening_adapter import WAIT, ListeningAdapter
from tests.network.served import ALICE, BOB, several_tokens

pytestmark = pytest.mark.e2e

SCENES = Scenes()
TASK = SCENES.add("task", [Text("Child is done.")])
GO = SCENES.add("go", [spawn(TASK, "helper")], [wait("w")], [Text("Root is done.")])
LONG_TASK = SCENES.add("long", [exec_command("true")], [Gate("child"), Text("Child is done.")])
GO_ON = SCENES.add("go on", [spawn(LONG_TASK, "helper")], [Gate("root"), Text("Root is done.")])


@pytest.mark.attack("network")
async def test_their_owner_alone_reads_them_in_streams_of_their_own(tmp_path: Path) -> None:
    can: dict[str, Any] = {"subagents": {}}
    with (
        ScriptedModel(SCENES.responses) as model,
        CodexHome(model.base_url, config=CONFIG) as home,
        ListeningAdapter(
            home.env, tmp_path, "--codex-per-connection", tokens=several_tokens(), scheme="http"
        ) as adapter,
    ):
        alice = HttpClient(adapter.url, ALICE, capabilities=can)
        async with alice, HttpClient(adapter.url, BOB, capabilities=can) as bob:
            session = await alice.new_session(home.workspace)
            ended = await alice.outcome(await alice.prompt(session, GO))
            assert ended["result"]["stopReason"] == "end_turn"
            told = [each["update"] for each in alice.updates if each["sessionId"] == session]
            child = next(u["sessionId"] for u in told if u["sessionUpdate"] == "subagent_update")
            # A client that opens no stream for it is told on that of the connection.
            await alice.until(lambda: "Child is done." in alice.text(child))
            await alice.listen(child)
            assert alice.statuses[-1] == 200
            where = {"sessionId": child, "cwd": str(home.workspace), "mcpServers": []}
            assert (await alice.refused("session/load", where))["code"] == -32602
            async with HttpClient(adapter.url, ALICE, capabilities=can) as again:
                for method in ("session/load", "session/fork", "session/delete"):
                    assert (await again.refused(method, where))["code"] == -32602, method
                status = await again.ask("session/status", {"sessionId": child})
                assert status["status"] == "open"

            await bob.post({"jsonrpc": "2.0", "method": "session/cancel", "params": where})
            blind = {"acp-session-id": child, "accept": "text/event-stream"}
            assert (await bob.raw("GET", headers=blind)).status_code == 404
            request = {"jsonrpc": "2.0", "id": 77, "method": "session/load", "params": where}
            await bob.post(request, **{"acp-session-id": child})
            assert (await bob.outcome(77))["error"]["code"] == -32002


@pytest.mark.attack("network")
async def test_3_9c_one_owners_model_reaches_no_thread_of_another_owner(tmp_path: Path) -> None:
    with (
        LateModel(REACHING.responses) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path, tokens=several_tokens()) as adapter,
    ):
        made = home.root / "made"
        model.put(MADE, str(made))
        async with adapter.connect(ALICE) as alice, adapter.connect(BOB) as bob:
            hers = await alice.new_session(home.workspace)
            mode = {"sessionId": hers, "modeId": "full-access"}
            await alice.ask("session/set_mode", mode)
            await alice.outcome(await alice.prompt(hers, HELLO))
            model.put(OTHER, hers)
            heard = len(alice.updates)

            his = await bob.new_session(home.workspace)
            ended = await bob.outcome(await bob.prompt(his, REACH))
            assert ended["result"]["stopReason"] == "end_turn"
            said = model.requests[-1].tool_outputs
            assert all("no sub-agent of this session" in said[tool] for tool in TOOLS), said
            assert not made.exists()
            assert alice.updates[heard:] == []


@pytest.mark.parametrize("root_is_done", [False, True])
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_sub_agent_that_works_is_shown_as_its_new_client_can_show_it(
    tmp_path: Path, method: str, root_is_done: bool
) -> None:
    with (
        ScriptedModel(SCENES.responses) as model,
        CodexHome(model.base_url, config=CONFIG) as home,
        ListeningAdapter(home.env, tmp_path) as adapter,
    ):
        async with (
            adapter.connect(version=2) as one,
            adapter.connect() as other,
            adapter.connect(version=2) as last,
        ):
            session = await one.new_session(home.workspace)
            await one.prompt(session, GO_ON)
            for gate in ("child", "root"):
                await to_thread.run_sync(model.wait_for_gate, gate, WAIT)
            if root_is_done:
                model.open("root")
                await one.until(lambda: "'stopReason': 'end_turn'" in str(one.updates))
            where: dict[str, Any] = {
                "sessionId": session, "cwd": str(home.workspace), "mcpServers": [],
            }  # fmt: skip
            answer = await other.ask(method, where)
            assert answer["_meta"]["codex-acp-sdk"]["running"]
            assert "subagent_update" not in str(other.updates)
            if method == "session/load":
                where["replayFrom"] = {"type": "start"}
            await last.ask("session/resume", where)
            updates = [each["update"] for each in last.updates]
            assert updates[-1]["background"][0]["type"] == "subagent"
            model.open("child")
            await last.until(lambda: "Child is done." in str(last.updates))
            model.open("root")
