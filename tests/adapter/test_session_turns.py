"""A prompt's turn in every order in which Codex may tell of it."""

from __future__ import annotations

import pytest

from codex_acp.testing import (
    Exit,
    Expect,
    Notify,
    agent_message,
    command_approval,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import THREAD, MemoryBench, turn_note


async def test_4_2_a_turn_that_comes_whole_in_one_read_is_sent_before_its_answer() -> None:
    turn = [Expect("turn/start"), *turn_started(), *agent_message("Hel", "lo"), *turn_completed()]
    async with MemoryBench(*turn) as bench:
        assert await bench.prompt() == "end_turn"
        assert bench.said() == "Hello"
        assert bench.updates_behind("p1") == []


async def test_a_turn_that_ends_before_turn_start_is_answered_ends_the_prompt() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.start_prompt()
        await bench.answer_turn_start(
            "mine",
            turn_note("turn/started", "mine"),
            turn_note("turn/completed", "mine", "completed"),
        )

        assert await bench.end_of() == "end_turn"


async def test_another_turns_end_does_not_end_the_prompt() -> None:
    other = turn_note("turn/completed", "another", "failed")
    async with MemoryBench(Expect("turn/start"), other, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"


async def test_4_3_a_turn_whose_end_cannot_be_read_ends_the_prompt_with_an_error() -> None:
    broken = {"threadId": THREAD, "turn": {"id": "${turn:id}", "status": 5, "items": "none"}}
    async with MemoryBench(Expect("turn/start"), Notify("turn/completed", broken)) as bench:
        error = await bench.prompt()

    assert error["code"] == -32603
    assert "could not be read" in error["message"]


@pytest.mark.parametrize("turn", [None, 5, {}, {"id": 7}])
async def test_a_turns_end_that_names_no_turn_is_ignored(turn: object) -> None:
    broken = Notify("turn/completed", {"threadId": THREAD, "turn": turn})
    begun = Notify("turn/started", {"threadId": THREAD, "turn": turn})
    async with MemoryBench(Expect("turn/start"), begun, broken, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"


async def test_a_notification_that_nobody_knows_is_ignored() -> None:
    unknown = Notify("thread/levitated", {"threadId": THREAD, "height": 3})
    unreadable = Notify("item/agentMessage/delta", {"threadId": THREAD, "delta": 5})
    turn = [Expect("turn/start"), unknown, unreadable, *agent_message("Hi"), *turn_completed()]
    async with MemoryBench(*turn) as bench:
        assert await bench.prompt() == "end_turn"
        assert bench.said() == "Hi"


async def test_a_turn_that_codex_refuses_is_an_error_with_its_message() -> None:
    error = {"code": -32600, "message": "no more turns", "data": {"limit": 1}}
    async with MemoryBench(Expect("turn/start", error=error)) as bench:
        refused = await bench.prompt()

        assert refused["code"] == -32603
        assert "no more turns" in refused["message"]
        assert refused["data"]["data"] == {"limit": 1}


async def test_a_turn_start_whose_answer_cannot_be_read_is_an_error() -> None:
    async with MemoryBench(Expect("turn/start", result={"turn": 5})) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603
        assert "turn" in error["message"]


async def test_4_3_a_codex_that_goes_in_mid_turn_ends_the_prompt_with_an_error() -> None:
    turn = [Expect("turn/start"), *turn_started(), *agent_message("Begin."), Exit(1)]
    async with MemoryBench(*turn) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603
        assert bench.said() == "Begin."


async def test_4_5_a_codex_that_goes_leaves_no_tool_call_open() -> None:
    command = command_approval("make")[0]  # the item without the question
    async with MemoryBench(Expect("turn/start"), *turn_started(), command, Exit(1)) as bench:
        await bench.prompt()

        updates = [m["params"]["update"] for m in bench.client.messages if "params" in m]
        statuses = [u["status"] for u in updates if u.get("toolCallId") == "call-1"]
        assert statuses[-1] == "failed"


async def test_a_codex_that_goes_before_turn_start_is_answered_ends_the_prompt() -> None:
    async with MemoryBench(Expect("turn/start", silent=True), Exit(1)) as bench:
        assert (await bench.prompt())["code"] == -32603


async def test_the_client_that_goes_in_mid_turn_ends_the_adapter_and_sends_no_interrupt() -> None:
    async with MemoryBench(Expect("turn/start"), *turn_started()) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")

    methods = [message.get("method") for message in bench.server.player.received]
    assert "turn/interrupt" not in methods


def used(total: int, last: int) -> Notify:
    """``thread/tokenUsage/updated``."""

    def tokens(count: int) -> dict[str, int]:
        return {
            "totalTokens": count, "inputTokens": count, "cachedInputTokens": 0,
            "cacheWriteInputTokens": 0, "outputTokens": 0, "reasoningOutputTokens": 0,
        }  # fmt: skip

    usage = {"total": tokens(total), "last": tokens(last), "modelContextWindow": 1000}
    params = {"threadId": THREAD, "turnId": "${turn:id}", "tokenUsage": usage}
    return Notify("thread/tokenUsage/updated", params)


async def test_an_answer_tells_what_its_turn_has_used_and_not_what_others_have() -> None:
    first = [Expect("turn/start"), used(100, 100), *turn_completed()]
    second = [Expect("turn/start"), used(130, 20), used(150, 20), *turn_completed()]
    third = [Expect("turn/start"), *turn_completed()]
    async with MemoryBench(*first, *second, *third) as bench:
        answers = []
        for prompt in ("p1", "p2", "p3"):
            await bench.prompt(prompt)
            answers.append((await bench.client.reply(prompt))["result"])

    tokens = [a["_meta"]["codex-acp-sdk"]["usage"]["totalTokens"] for a in answers[:2]]
    assert tokens == [100, 50]
    assert "_meta" not in answers[2]
