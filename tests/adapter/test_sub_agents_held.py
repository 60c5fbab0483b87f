"""What a sub-agent does while its session is not shown yet, or not any more."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.adapter.sessions import methods
from codex_acp.testing import Expect, Notify
from codex_acp.testing.app_server_script import turn_object
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note
from tests.adapter.test_early_turn import SlowLoad
from tests.adapter.test_sessions_reopening import STORED, resumed

CHILD = "thread-child"
TURN = "turn-1"

KNOWS: dict[str, Any] = {"subagents": {}}


def about(thread: str, method: str, item: dict[str, Any]) -> Notify:
    times = {"startedAtMs": 1, "completedAtMs": 2}
    return Notify(method, {"threadId": thread, "turnId": TURN, "item": item, **times})


def starts(parent: str = THREAD) -> Notify:
    """``parent`` starts the sub-agent."""
    item = {"type": "subAgentActivity", "id": "call", "kind": "started"}
    path = {"agentThreadId": CHILD, "agentPath": "/root/helper"}
    return about(parent, "item/completed", {**item, **path})


def child_turn(method: str, status: str = "inProgress") -> Notify:
    return Notify(method, {"threadId": CHILD, "turn": turn_object("child-turn", status)})


def child_says(text: str, item_id: str = "m1") -> Notify:
    return about(CHILD, "item/completed", {"type": "agentMessage", "id": item_id, "text": text})


WORK = [
    child_turn("turn/started"),
    child_says("Found it."),
    child_turn("turn/completed", "completed"),
]


def told_of_child(bench: MemoryBench) -> list[Any]:
    """The updates in the sub-agent's session."""
    sent = (m["params"] for m in bench.client.messages if m.get("method") == "session/update")
    return [each["update"] for each in sent if each["sessionId"] == CHILD]


@pytest.mark.parametrize("version", [1, 2], ids=["v1", "v2"])
async def test_a_sub_agent_of_the_first_turn_is_shown_though_nothing_is_loaded(
    version: int,
) -> None:
    ahead = SlowLoad()
    async with MemoryBench(
        Expect("turn/start", silent=True), ahead=ahead, version=version, capabilities=KNOWS
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        await bench.answer_turn_start(TURN, turn_note("turn/started", TURN))
        bench.server.play(starts(), *WORK)
        await bench.client.settle()
        assert ahead.loading
        ahead.finish()
        bench.server.play(turn_note("turn/completed", TURN, "completed"))
        assert await bench.end_of() == "end_turn"
        assert "Found it." in str(told_of_child(bench))
        assert str(told_of_child(bench)).count("Found it.") == 1


async def test_a_sub_agent_that_works_before_it_is_named_is_told_to_run() -> None:
    async with MemoryBench(
        Expect("turn/start", {"turn": turn_object(TURN)}),
        turn_note("turn/started", TURN),
        child_turn("turn/started"),
        child_says("Found it."),
        starts(),
        capabilities=KNOWS,
    ) as bench:
        bench.start_prompt()
        await bench.client.until(lambda: bool(told_of_child(bench)))
        told = [u for u in bench.updates if u["sessionUpdate"] == "subagent_update"]
        assert {"state": "running"} in [each.get("state") for each in told]
        assert str(told_of_child(bench)).count("Found it.") == 1
        bench.server.play(turn_note("turn/completed", TURN, "completed"))
        assert await bench.end_of() == "end_turn"


def history(*items: dict[str, Any]) -> Expect:
    data = [{"turnId": TURN, "item": item} for item in items]
    return Expect("thread/items/list", {"data": data, "nextCursor": None})


STARTS: dict[str, Any] = {
    "type": "subAgentActivity", "id": "call", "kind": "started",
    "agentThreadId": CHILD, "agentPath": "/root/helper",
}  # fmt: skip
READ = {"type": "agentMessage", "id": "m1", "text": "Found it."}


async def test_what_a_sub_agent_does_while_its_session_is_loaded_is_shown_once() -> None:
    async with MemoryBench(
        resumed(),
        history(STARTS),
        *WORK,
        child_says("And this.", "m2"),
        history(READ),
        capabilities=KNOWS,
    ) as bench:
        params = {"sessionId": STORED, "cwd": "/w", "mcpServers": []}
        assert "result" in await bench.client.ask("l", "session/load", params)
        await bench.client.settle()
        told = told_of_child(bench)
        assert str(told).count("Found it.") == 1
        assert str(told).count("And this.") == 1


async def test_a_close_waits_for_no_sub_agent_whose_session_could_not_be_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "STOP_SECONDS", 600.0)
    failed = Expect("thread/resume", error={"code": -32603, "message": "busy"})
    async with MemoryBench(
        Expect("turn/start", {"turn": turn_object(TURN)}),
        turn_note("turn/started", TURN),
        starts(),
        child_turn("turn/started"),
        turn_note("turn/completed", TURN, "completed"),
        failed,
        capabilities=KNOWS,
    ) as bench:
        assert await bench.prompt() == "end_turn"
        params = {"sessionId": THREAD, "cwd": "/w", "mcpServers": []}
        assert "busy" in str(await bench.client.ask("l", "session/load", params))
        closed = await bench.client.ask("c", "session/close", {"sessionId": THREAD})
        assert closed["result"] == {}
