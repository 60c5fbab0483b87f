"""What comes right behind the request that closes a session, in one read with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.adapter.sessions import methods
from codex_acp.mapping.sub_agents import MAX_SHOWN
from codex_acp.testing import Entry, Expect, Notify, RawLine, turn_completed, turn_started
from tests.adapter.memory_bench import THREAD, MemoryBench
from tests.support.config_samples import PROFILES

pytestmark = pytest.mark.attack("client")

INTERRUPTED: list[Entry] = [
    Expect("turn/start"), *turn_started(), Expect("turn/interrupt"), *turn_completed("interrupted")
]  # fmt: skip


def prompt(request_id: str) -> dict[str, Any]:
    params = {"sessionId": THREAD, "prompt": [{"type": "text", "text": "hi"}]}
    return {"id": request_id, "method": "session/prompt", "params": params}


@pytest.mark.parametrize("method", ["session/close", "session/delete", "session/archive"])
async def test_no_prompt_begins_in_a_session_that_is_being_closed(method: str) -> None:
    async with MemoryBench(*INTERRUPTED) as bench:
        bench.client.send(prompt("p1"))
        await bench.asked_codex("turn/start")
        ending = {"id": "end", "method": method, "params": {"sessionId": THREAD}}
        bench.client.send(ending, prompt("p2"))
        assert (await bench.end_of("p2"))["code"] == -32002
        assert await bench.end_of("p1") == "cancelled"
        await bench.client.reply("end")
        assert len(await bench.asked_codex("turn/start")) == 1


async def test_what_a_client_has_closed_it_is_told_to_open() -> None:
    async with MemoryBench() as bench:
        closing = {"id": "end", "method": "session/close", "params": {"sessionId": THREAD}}
        bench.client.send(closing)
        await bench.client.reply("end")
        for request in (prompt("p"), closing | {"id": "again"}):
            bench.client.send(request)
            error = (await bench.client.reply(request["id"]))["error"]
            assert error["code"] == -32002
            assert "is not open; session/list names those that can be" in error["message"]


async def test_a_closing_that_is_given_up_leaves_a_session_that_works() -> None:
    script = [Expect("turn/start"), *turn_started(), Expect("turn/interrupt", silent=True)]
    async with MemoryBench(*script) as bench:
        bench.client.send(prompt("p1"))
        await bench.asked_codex("turn/start")
        params: dict[str, Any] = {"sessionId": THREAD}
        bench.client.send({"id": "end", "method": "session/close", "params": params})
        await bench.asked_codex("turn/interrupt")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "end"}})
        assert (await bench.client.reply("end"))["error"]["code"] == -32800
        bench.server.play(*turn_completed("interrupted"))
        assert await bench.end_of("p1") == "cancelled"
        bench.server.play(Expect("turn/start"), *turn_started(), *turn_completed())
        assert await bench.prompt("p2") == "end_turn"


async def test_a_mode_that_codex_takes_once_its_session_is_closed_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    changing = "thread/settings/update"
    profiles = Expect("permissionProfile/list", PROFILES)
    async with MemoryBench(profiles, Expect(changing, silent=True)) as bench:
        mode = {"sessionId": THREAD, "modeId": "full-access"}
        closing = {"id": "end", "method": "session/close", "params": {"sessionId": THREAD}}
        bench.client.send({"id": "m", "method": "session/set_mode", "params": mode})
        await bench.asked_codex(changing)
        bench.client.send(closing)
        await bench.client.reply("end")
        request = await bench.server.wait_for_message(changing)
        bench.server.play(RawLine(json.dumps({"id": request["id"], "result": {}})))
        assert "result" in await bench.client.reply("m")
    assert "Traceback" not in caplog.text


async def test_a_session_that_is_opened_behind_its_end_is_heard() -> None:
    cleaning = "thread/backgroundTerminals/clean"
    async with MemoryBench(Expect(cleaning, silent=True)) as bench:
        where = {"sessionId": THREAD, "cwd": "/scripted/workspace", "mcpServers": []}
        closing = {"id": "end", "method": "session/close", "params": {"sessionId": THREAD}}
        bench.client.send(closing, {"id": "r", "method": "session/resume", "params": where})
        await bench.asked_codex(cleaning)
        await bench.client.settle()
        request = await bench.server.wait_for_message(cleaning)
        bench.server.play(RawLine(json.dumps({"id": request["id"], "result": {}})))
        assert "result" in await bench.client.reply("r")
        asked = [m.get("method") for m in bench.server.player.received]
        assert asked.index("thread/unsubscribe") < asked.index("thread/resume")


async def test_what_sub_agents_have_left_running_ends_however_many_there_are() -> None:
    children = [f"child-{n}" for n in range(MAX_SHOWN + 6)]
    named = {"type": "collabAgentToolCall", "id": "n", "tool": "spawnAgent", "status": "completed"}
    item = {**named, "senderThreadId": THREAD, "receiverThreadIds": children, "agentsStates": {}}
    about = {"threadId": THREAD, "turnId": "${turn:id}", "completedAtMs": 1, "item": item}
    script = [Expect("turn/start"), *turn_started(), Notify("item/completed", about)]
    async with MemoryBench(*script, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"
        bench.server.play(
            *[Expect("thread/backgroundTerminals/clean", silent=True)] * (len(children) + 1)
        )
        bench.client.send({"id": "end", "method": "session/close", "params": {"sessionId": THREAD}})
        cleaned = await bench.asked_codex("thread/backgroundTerminals/clean", len(children) + 1)
        assert {each["threadId"] for each in cleaned} == {THREAD, *children}


@pytest.mark.parametrize("ending", ["session/close", "session/delete"])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_session_that_is_closed_while_it_is_loaded_for_long_is_closed(
    ending: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "STOP_SECONDS", 0.05)
    reading = "thread/items/list"
    async with MemoryBench(Expect(reading, silent=True), version=version) as bench:
        where: dict[str, Any] = {"sessionId": THREAD, "cwd": "/scripted/workspace"}
        loading = {"id": "l", "method": "session/load", "params": {**where, "mcpServers": []}}
        if version == 2:
            whole = {"replayFrom": {"type": "start"}, **where, "mcpServers": []}
            loading = {"id": "l", "method": "session/resume", "params": whole}
        bench.client.send(loading)
        request = await bench.server.wait_for_message(reading)
        if ending == "session/delete":
            bench.server.play(Expect("thread/delete", result={}))
        assert "result" in await bench.client.ask("c", ending, {"sessionId": THREAD})
        page: dict[str, Any] = {"data": [], "nextCursor": None}
        bench.server.play(RawLine(json.dumps({"id": request["id"], "result": page})))
        refused = (await bench.client.reply("l"))["error"]
        assert refused["code"] == -32600
        assert "was closed while" in refused["message"]
        bench.client.send(prompt("p"))
        assert (await bench.end_of("p"))["code"] == -32002
