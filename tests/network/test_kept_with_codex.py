"""Sessions that outlive their connection, with the real Codex."""

from __future__ import annotations

import json
import os
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from codex_acp.adapter.network import connection
from codex_acp.adapter.network.limits import Limits
from codex_acp.adapter.sessions.replay import replay_history
from codex_acp.codex import LaunchOptions
from codex_acp.testing import CodexHome, Gate, ScriptedModel, Step, Text, exec_command
from tests.network.listening_adapter import WAIT, JsonClient, ListeningAdapter
from tests.network.served import served, until

ASK = exec_command("touch made && echo hi", justification="May I?")

LOG = ("--log-level", "INFO")

TURNS: list[list[Step]] = [
    [Text("Hello.")],
    [Text("I ask. "), ASK],
    [Text("Done.")],
    [Text("One"), Gate("two"), Text("two"), Gate("three"), Text("three.")],
]


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ScriptedModel, CodexHome, ListeningAdapter]]:
    with (
        ScriptedModel(TURNS) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path_factory.mktemp("net"), "--keep", "1h", *LOG) as adapter,
    ):
        yield model, home, adapter


def said(client: JsonClient) -> list[str]:
    """What was said by whom, in the order of the first piece of each message."""
    found: dict[tuple[str, str], str] = {}
    for each in client.updates:
        update = each["update"]
        if update["sessionUpdate"] in ("agent_message_chunk", "user_message_chunk"):
            key = (update["sessionUpdate"], str(update.get("messageId")))
            found[key] = found.get(key, "") + update["content"]["text"]
    return list(found.values())


async def test_a_session_goes_on_without_its_connection(
    world: tuple[ScriptedModel, CodexHome, ListeningAdapter],
) -> None:
    model, home, adapter = world
    where: dict[str, Any] = {"cwd": str(home.workspace), "mcpServers": []}
    async with adapter.connect() as client:
        session = where["sessionId"] = await client.new_session(home.workspace)
        await client.outcome(await client.prompt(session, "First."))
        await client.prompt(session, "Second.")
        asked = await client.question()
        await client.break_off()
    assert not (home.workspace / "made").exists()

    # The history, what runs, and the question: on whichever connection comes next.
    async with adapter.connect() as client:
        await client.ask("session/load", where)
        again = await client.question()
        assert again["params"] == asked["params"]
        assert said(client) == ["First.", "Hello.", "Second.", "I ask. "]
        calls = [u["update"] for u in client.updates if u["update"]["sessionUpdate"] == "tool_call"]
        assert [call["toolCallId"] for call in calls] == [asked["params"]["toolCall"]["toolCallId"]]
        await client.choose(again, "allow_once")
        await client.until(lambda: "has ended: end_turn" in str(client.updates[-1]))
        assert said(client)[-1] == "Done."
        assert (home.workspace / "made").exists()

        # It runs while nobody listens, and what it said is told.
        await client.prompt(session, "Third.")
        await client.until(lambda: said(client)[-1] == "One")
        await client.break_off()
    await until(lambda: adapter.text.count("is gone") == 2)
    model.open("two")
    await to_thread.run_sync(model.wait_for_gate, "three", WAIT)
    async with adapter.connect() as client:
        await client.ask("session/resume", where)
        await client.until(lambda: said(client) == ["two"])
        model.open("three")
        await client.until(lambda: "has ended" in str(client.updates[-1]))
        assert said(client) == ["two", "three."]
    async with adapter.connect() as client:
        await client.ask("session/load", where)
        everything = ["First.", "Hello.", "Second.", "I ask. ", "Done.", "Third."]
        assert said(client) == [*everything, "One", "two", "three."]
    shutil.rmtree(home.workspace / "made", ignore_errors=True)


async def test_a_turn_that_runs_while_the_history_is_read_is_shown_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins behind the load of another connection, and has ended before its items are read."""
    script: list[list[Step]] = [[Text("Hello.")], [Gate("sum"), Text("Short.")], [Text("Late.")]]
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        launch = LaunchOptions(env={**os.environ, **home.env})
        async with served(tmp_path, limits=Limits(keep_seconds=600), launch=launch) as server:
            where: dict[str, Any] = {"cwd": str(home.workspace), "mcpServers": []}
            async with server.connect() as one, server.connect() as other:
                session = where["sessionId"] = await one.new_session(home.workspace)
                await one.outcome(await one.prompt(session, "First."))
                compacting = await one.prompt(session, "/compact")
                await to_thread.run_sync(model.wait_for_gate, "sum", WAIT)
                late = await one.prompt(session, "Second.")

                async def behind_it(*given: Any, **named: Any) -> None:
                    model.open("sum")
                    await one.outcome(compacting)
                    await one.outcome(late)
                    await replay_history(*given, **named)

                monkeypatch.setattr(connection, "replay_history", behind_it)
                loaded = await other.ask("session/load", where)
                assert loaded["_meta"]["codex-acp-sdk"]["running"] is False
                assert said(other)[:2] == ["First.", "Hello."]
                assert said(other)[-2:] == ["Second.", "Late."]


async def test_a_resume_that_is_refused_leaves_what_was_kept_for_the_next(tmp_path: Path) -> None:
    script: list[list[Step]] = [[Text("One, "), Gate("go"), Text("two.")]]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path, "--keep", "1h", *LOG) as adapter,
    ):
        where: dict[str, Any] = {"cwd": str(home.workspace), "mcpServers": []}
        async with adapter.connect() as one:
            session = where["sessionId"] = await one.new_session(home.workspace)
            await one.prompt(session)
            await one.until(lambda: said(one) == ["One, "])
            await one.break_off()
        await until(lambda: "is gone" in adapter.text)
        model.open("go")
        async with adapter.connect(version=2) as other:
            status = {"sessionId": session}
            while (await other.ask("session/status", status))["state"]["state"] != "idle":
                pass
            missing = {**where, "cwd": str(tmp_path / "missing")}
            assert (await other.refused("session/resume", missing))["code"] == -32602
        async with adapter.connect() as other:
            await other.ask("session/resume", where)
            assert said(other) == ["two."]


TERMINALS: dict[str, Any] = {"capabilities": {"_meta": {"terminal_output": True}}}
PLAIN: dict[str, Any] = {}
V2: dict[str, Any] = {"version": 2}


@pytest.mark.parametrize("how", ["session/load", "session/resume"])
@pytest.mark.parametrize(
    ("first", "second"), [(TERMINALS, PLAIN), (PLAIN, TERMINALS), (V2, PLAIN), (PLAIN, V2)]
)
async def test_a_running_command_is_shown_as_its_new_client_can_show_it(
    first: dict[str, Any], second: dict[str, Any], how: str, tmp_path: Path
) -> None:
    command = "echo hello; until [ -e go ]; do sleep 0.05; done; echo done"
    script: list[list[Step]] = [[exec_command(command, justification="May I?")], [Text("Done.")]]
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url) as home,
        ListeningAdapter(home.env, tmp_path) as adapter,
    ):
        async with adapter.connect(**first) as one, adapter.connect(**second) as other:
            session = await one.new_session(home.workspace)
            await one.prompt(session, "Go.")
            await one.choose(await one.question(), "allow_once")
            await one.until(lambda: '"in_progress"' in _json(one))
            where: dict[str, Any] = {
                "sessionId": session, "cwd": str(home.workspace), "mcpServers": [],
            }  # fmt: skip
            if second == V2 and how == "session/load":
                where["replayFrom"] = {"type": "start"}
            await other.ask("session/resume" if second == V2 else how, where)
            shown = _json(other)
            (home.workspace / "go").touch()
            await other.until(lambda: "Done." in other.text(session))
        in_terminal = {"v2": '"terminal_update"', "v1": '"terminal_info"'}
        assert (in_terminal["v2"] in shown) == (second == V2)
        assert (in_terminal["v1"] in shown) == (second == TERMINALS)
        assert ('"type": "terminal"' in shown) == (second != PLAIN)
        assert _printed(other)


@pytest.mark.parametrize("replay", [{}, {"replayFrom": {"type": "start"}}])
@pytest.mark.parametrize("first", [PLAIN, V2])
async def test_a_command_in_the_background_is_announced_to_its_new_client(
    first: dict[str, Any], replay: dict[str, Any], tmp_path: Path
) -> None:
    command = "until [ -e go ]; do sleep 0.05; done"
    runs_on: list[Step] = [exec_command(command, yield_time_ms=250)]
    script: list[list[Step]] = [
        runs_on, [Text("It runs on.")], [Gate("late"), Text("Late.")],
    ]  # fmt: skip
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, sandbox_mode="danger-full-access") as home,
        ListeningAdapter(home.env, tmp_path) as adapter,
    ):
        async with adapter.connect(**first) as one, adapter.connect(**V2) as other:
            session = await one.new_session(home.workspace)
            await one.outcome(await one.prompt(session, "First."))
            await one.until(lambda: "It runs on." in one.text(session))
            await one.prompt(session, "Second.")
            await to_thread.run_sync(model.wait_for_gate, "late", WAIT)
            where = {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
            await other.ask("session/resume", {**where, **replay})
            assert command in _json(other)
            (home.workspace / "go").touch()
            await other.until(lambda: '"exitStatus"' in _json(other))
            model.open("late")
            await other.until(lambda: "Late." in other.text(session))


def _json(client: JsonClient) -> str:
    return json.dumps([each["update"] for each in client.updates])


def _printed(client: JsonClient) -> bool:
    """Whether the command's output was shown: in a terminal, in Markdown, or in base64. Codex may
    not stream the first line: all output then follows a note, and is another base64."""
    updates = [each["update"] for each in client.updates]
    data = [
        u.get("data") or u.get("output", {}).get("data", "") for u in updates if "terminalId" in u
    ]
    in_v2 = b"".join(map(b64decode, data))
    return b"hello\n" in in_v2 or any(
        each in _json(client) for each in ('"hello\\n', "\\nhello\\n")
    )
