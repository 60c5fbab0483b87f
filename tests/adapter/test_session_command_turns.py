"""A prompt that is a command: a turn of its own kind, or a text, in the order of the prompts."""

from __future__ import annotations

from codex_acp.testing import Entry, Expect, Notify, agent_message, turn_completed, turn_started
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note

SERVERS = Expect("mcpServerStatus/list", result={"data": [], "nextCursor": None})
BEGUN = [Expect("turn/start"), *turn_started()]


def compacts(turn_id: str) -> Notify:
    """Codex says that a turn compacts the thread."""
    item = {"type": "contextCompaction", "id": f"compaction of {turn_id}"}
    params = {"threadId": THREAD, "turnId": turn_id, "item": item, "startedAtMs": 1}
    return Notify("item/started", params)


COMPACTED: list[Entry] = [
    Expect("thread/compact/start"),
    turn_note("turn/started", "compaction"),
    compacts("compaction"),
    turn_note("turn/completed", "compaction", "completed"),
]


async def test_a_command_whose_call_tells_no_turn_ends_with_the_turn_that_it_began() -> None:
    async with MemoryBench(*COMPACTED) as bench:
        bench.start_prompt(text="/compact")

        assert await bench.end_of() == "end_turn"
        assert await bench.asked_codex("thread/compact/start") == [{"threadId": THREAD}]


async def test_a_compaction_takes_no_turn_that_codex_begins_by_itself_for_its_own() -> None:
    begun = [
        turn_note("turn/started", "another"),
        turn_note("turn/completed", "another", "completed"),
    ]
    async with MemoryBench(Expect("thread/compact/start"), *begun) as bench:
        bench.start_prompt(text="/compact")
        await bench.asked_codex("thread/compact/start")
        await bench.client.settle()
        assert not [m for m in bench.client.messages if m.get("id") == "p1"]
        bench.server.play(
            turn_note("turn/started", "compaction"),
            compacts("compaction"),
            turn_note("turn/completed", "compaction", "completed"),
        )
        assert await bench.end_of() == "end_turn"


async def test_such_a_turn_can_be_cancelled() -> None:
    begun = turn_note("turn/started", "compaction")
    async with MemoryBench(Expect("thread/compact/start"), begun) as bench:
        bench.start_prompt(text="/compact")
        await bench.asked_codex("thread/compact/start")
        await bench.client.settle()
        bench.cancel()
        (asked,) = await bench.asked_codex("turn/interrupt")
        bench.server.play(turn_note("turn/completed", "compaction", "interrupted"))

        assert await bench.end_of() == "cancelled"
        assert asked["turnId"] == "compaction"


async def test_a_turn_of_another_kind_waits_for_the_one_that_runs() -> None:
    async with MemoryBench(*BEGUN) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "/compact")
        await bench.client.settle()
        methods = [m.get("method") for m in bench.server.player.received]
        assert "thread/compact/start" not in methods
        assert "turn/steer" not in methods
        bench.server.play(*turn_completed(), *COMPACTED)

        assert await bench.end_of("p1") == "end_turn"
        assert await bench.end_of("p2") == "end_turn"


async def test_a_text_is_said_while_a_turn_runs_and_ends_at_once() -> None:
    async with MemoryBench(*BEGUN, SERVERS) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "/mcp")
        assert await bench.end_of("p2") == "end_turn"
        assert "MCP" in bench.said()
        assert bench.client.replies("p1") == []
        bench.server.play(*agent_message("Done."), *turn_completed())

        assert await bench.end_of("p1") == "end_turn"


async def test_a_prompt_behind_a_text_that_takes_its_time_does_not_wait_for_it() -> None:
    slow = Expect("mcpServerStatus/list", silent=True)
    async with MemoryBench(slow, Expect("turn/start"), *turn_completed()) as bench:
        bench.start_prompt("p1", "/mcp")
        await bench.asked_codex("mcpServerStatus/list")
        assert await bench.prompt("p2") == "end_turn"
        assert bench.client.replies("p1") == []
        bench.cancel()

        assert await bench.end_of("p1") == "cancelled"


async def test_a_text_that_codex_does_not_give_is_an_error() -> None:
    refused = Expect("mcpServerStatus/list", error={"code": -32600, "message": "not today"})
    async with MemoryBench(refused) as bench:
        bench.start_prompt(text="/mcp")
        error = await bench.end_of()

        assert error["code"] == -32603
        assert "not today" in error["message"]


async def test_a_text_that_is_being_made_can_be_cancelled() -> None:
    async with MemoryBench(Expect("mcpServerStatus/list", silent=True)) as bench:
        bench.start_prompt(text="/mcp")
        await bench.asked_codex("mcpServerStatus/list")
        bench.cancel()

        assert await bench.end_of() == "cancelled"


async def test_a_command_that_codex_refuses_is_an_error_with_its_message() -> None:
    refused = Expect("thread/compact/start", error={"code": -32600, "message": "nothing to do"})
    async with MemoryBench(refused) as bench:
        bench.start_prompt(text="/compact")

        assert "nothing to do" in (await bench.end_of())["message"]
