"""A turn whose prompt was given up: nothing of it is shown or asked, and the next prompt runs."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.testing import (
    Entry,
    Expect,
    Notify,
    agent_message,
    command_approval,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import THREAD, MemoryBench, hurry, turn_note

IGNORED: list[Entry] = [
    Expect("turn/start"),
    *turn_started(),
    Expect("turn/interrupt", silent=True),
]
"""A turn that Codex does not end, whatever it is asked."""


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, cancel=0.05)
    hurry(monkeypatch, free=0.05)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is to end in good time: the first one to list commands loads their models."""
    hurry(monkeypatch, cancel=5.0)


async def give_up(bench: MemoryBench) -> None:
    """Run a prompt that is cancelled, and answered without the end of its turn."""
    bench.start_prompt("p1")
    await bench.asked_codex("turn/start")
    bench.cancel()
    assert await bench.end_of("p1") == "cancelled"


async def test_4_3_what_a_given_up_turn_still_says_is_not_shown() -> None:
    async with MemoryBench(*IGNORED) as bench:
        await give_up(bench)
        late = [*agent_message("Too late."), *turn_completed()]
        second = [Expect("turn/start"), *turn_started(), *agent_message("Second.")]
        bench.server.play(*late, *second, *turn_completed())

        assert await bench.prompt("p2") == "end_turn"
        assert bench.said() == "Second."


async def test_1_6_what_a_given_up_turn_asks_is_declined_without_asking() -> None:
    async with MemoryBench(*IGNORED) as bench:
        await give_up(bench)
        bench.server.play(*command_approval("rm -rf x", name="late"))
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        await bench.client.settle()

        (answer,) = bench.server.player.answers
        assert answer.result == {"decision": "cancel"}
        asked = [m.get("method") for m in bench.client.messages]
        assert "session/request_permission" not in asked
        assert "Declined without asking" in bench.said()


async def test_4_5_a_given_up_turn_leaves_no_tool_call_open() -> None:
    running = command_approval("make")[0]  # the item without the question
    begun = [Expect("turn/start"), *turn_started(), running]
    async with MemoryBench(*begun, Expect("turn/interrupt", silent=True)) as bench:
        bench.start_prompt("p1")
        await bench.client.sent("session/update")
        bench.cancel()
        assert await bench.end_of("p1") == "cancelled"

        updates = [m["params"]["update"] for m in bench.client.messages if "params" in m]
        statuses = [u.get("status") for u in updates if u.get("toolCallId") == "call-1"]
        assert statuses[-1] == "failed"


async def test_the_next_prompt_asks_once_more_to_end_the_given_up_turn() -> None:
    async with MemoryBench(*IGNORED) as bench:
        await give_up(bench)
        bench.start_prompt("p2")
        assert len(await bench.asked_codex("turn/interrupt", 2)) == 2
        bench.server.play(turn_note("turn/completed", "turn-1", "interrupted"))
        await bench.asked_codex("turn/start", 2)
        bench.server.play(*turn_started(), *turn_completed())

        assert await bench.end_of("p2") == "end_turn"


async def test_a_prompt_that_codex_adds_to_the_given_up_turn_is_shown_again() -> None:
    async with MemoryBench(*IGNORED, Expect("turn/interrupt", silent=True)) as bench:
        await give_up(bench)
        bench.server.play(Expect("turn/start", silent=True))
        bench.start_prompt("p2")
        await bench.asked_codex("turn/start", 2)
        await bench.answer_turn_start("turn-1")
        await bench.client.settle()
        said = {"threadId": THREAD, "turnId": "turn-1", "itemId": "m", "delta": "Still here."}
        bench.server.play(
            Notify("item/agentMessage/delta", said),
            turn_note("turn/completed", "turn-1", "completed"),
        )

        assert await bench.end_of("p2") == "end_turn"
        assert bench.said() == "Still here."


@pytest.mark.usefixtures("patience")
async def test_an_interrupted_command_is_ended_before_the_prompt_is_answered() -> None:
    running = command_approval("make")[0]
    listed = {"itemId": "call-1", "processId": "77", "command": "make", "cwd": "/w"}
    other = {"itemId": "of an earlier turn", "processId": "5", "command": "serve", "cwd": "/w"}
    ended = {
        "type": "commandExecution", "id": "call-1", "command": "make", "cwd": "/w",
        "status": "failed", "commandActions": [], "aggregatedOutput": "half", "exitCode": -1,
    }  # fmt: skip
    done = {"threadId": THREAD, "turnId": "${turn:id}", "item": ended, "completedAtMs": 1}
    async with MemoryBench(
        Expect("turn/start"),
        *turn_started(),
        running,
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
        Expect("thread/backgroundTerminals/list", result={"data": [other, listed]}),
        Expect("thread/backgroundTerminals/terminate", result={"terminated": True}),
    ) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        await bench.client.sent("session/update")
        bench.cancel()
        (asked,) = await bench.asked_codex("thread/backgroundTerminals/terminate")
        await bench.client.settle()
        assert bench.client.replies("p1") == []
        bench.server.play(Notify("item/completed", done))

        assert await bench.end_of("p1") == "cancelled"
        assert asked == {"threadId": THREAD, "processId": "77"}
        assert bench.updates_behind("p1") == []


@pytest.mark.usefixtures("patience")
async def test_a_command_that_cannot_be_ended_is_told() -> None:
    running = command_approval("make")[0]
    listed = {"itemId": "call-1", "processId": "77", "command": "make", "cwd": "/w"}
    async with MemoryBench(
        Expect("turn/start"),
        *turn_started(),
        running,
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
        Expect("thread/backgroundTerminals/list", result={"data": [listed]}),
        Expect("thread/backgroundTerminals/terminate", result={"terminated": False}),
    ) as bench:
        bench.start_prompt("p1")
        await bench.client.sent("session/update")
        bench.cancel()

        assert await bench.end_of("p1") == "cancelled"
        assert "Still running in the background: make" in bench.said()


async def test_a_codex_that_cannot_end_commands_does_not_hold_the_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, cancel=5.0)
    hurry(monkeypatch, clean_up=0.05)
    running = command_approval("make")[0]
    async with MemoryBench(
        Expect("turn/start"),
        *turn_started(),
        running,
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
        Expect("thread/backgroundTerminals/list", silent=True),
    ) as bench:
        bench.start_prompt("p1")
        await bench.client.sent("session/update")
        bench.cancel()
        with anyio.fail_after(60):
            assert await bench.end_of("p1") == "cancelled"
