"""A cancel at every moment of a prompt: it ends ``cancelled``, and no turn runs on unwatched."""

from __future__ import annotations

import asyncio
import json

import pytest

from codex_acp.testing import (
    AskClient,
    Expect,
    RawLine,
    agent_message,
    command_approval,
    file_change_approval,
    form_elicitation,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import THREAD, MemoryBench, hurry, turn_note
from tests.support.stream_rules_v2 import SessionRules

TOO_EARLY = {"code": -32600, "message": "no active turn to interrupt"}


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, cancel=0.05)


async def test_4_3_a_command_that_is_cancelled_at_any_moment_ends() -> None:
    async with MemoryBench() as bench:
        for moments in range(12):
            bench.start_prompt(f"p{moments}", "/status")
            for _ in range(moments):
                await asyncio.sleep(0)
            bench.cancel()
            assert await bench.end_of(f"p{moments}") in ("cancelled", "end_turn")


async def test_a_command_says_nothing_once_its_session_is_idle_after_a_cancel() -> None:
    rules = SessionRules()
    async with MemoryBench(version=2) as bench:
        for moments in range(30):
            bench.start_prompt(f"p{moments}", "/status")
            for _ in range(moments):
                await asyncio.sleep(0)
            bench.cancel()
            await bench.client.reply(f"p{moments}")
            await bench.client.settle()
        for update in bench.updates:
            rules.update(update)
    assert rules.problems == []


async def test_a_cancel_while_the_turn_runs_interrupts_it() -> None:
    turn = [Expect("turn/start"), *turn_started(), *agent_message("Begin.")]
    interrupted = [Expect("turn/interrupt"), *turn_completed("interrupted")]
    async with MemoryBench(*turn, *interrupted) as bench:
        bench.start_prompt()
        await bench.client.sent("session/update")
        bench.cancel()

        assert await bench.end_of() == "cancelled"
        (params,) = await bench.asked_codex("turn/interrupt")
        assert params == {"threadId": THREAD, "turnId": "turn-1"}


async def test_3_5_codex_hears_of_the_cancel_before_its_questions_are_answered() -> None:
    asked = [*command_approval(item_id="a"), *file_change_approval(item_id="b")]
    turn = [Expect("turn/start"), *turn_started(), *asked]
    interrupted = [Expect("turn/interrupt"), *turn_completed("interrupted")]
    async with MemoryBench(*turn, *interrupted) as bench:
        bench.start_prompt()
        await bench.client.until(
            lambda: sum("request_permission" in str(m) for m in bench.client.messages) == 2
        )
        bench.cancel()
        assert await bench.end_of() == "cancelled"
        received = bench.server.player.received
        said = [m.get("method", m.get("result")) for m in received]
    replies = [{"decision": "cancel"}] * 2
    # Answered first, Codex would go on with the turn, and might ask the model once more.
    assert [s for s in said if s in ("turn/interrupt", *replies)] == ["turn/interrupt", *replies]


async def test_a_cancel_in_one_read_with_its_prompt_is_for_that_prompt() -> None:
    turn = [Expect("turn/start"), *turn_started()]
    interrupted = [Expect("turn/interrupt"), *turn_completed("interrupted")]
    async with MemoryBench(*turn, *interrupted) as bench:
        prompt = [{"type": "text", "text": "hi"}]
        bench.client.send(
            {
                "id": "p1",
                "method": "session/prompt",
                "params": {"sessionId": THREAD, "prompt": prompt},
            },
            {"method": "session/cancel", "params": {"sessionId": THREAD}},
        )

        assert await bench.end_of() == "cancelled"


@pytest.mark.parametrize("began_first", [True, False])
async def test_a_cancel_before_turn_start_is_answered_interrupts_the_turn_then(
    began_first: bool,
) -> None:
    began = turn_note("turn/started", "mine")
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()
        await bench.client.settle()
        if began_first:
            await bench.answer_turn_start("mine", began)
        else:
            await bench.answer_turn_start("mine")
            bench.server.play(began)
        done = turn_note("turn/completed", "mine", "interrupted")
        bench.server.play(Expect("turn/interrupt"), done)

        assert await bench.end_of() == "cancelled"
        assert {"threadId": THREAD, "turnId": "mine"} in await bench.asked_codex("turn/interrupt")


async def test_an_interrupt_refused_before_the_turn_started_is_repeated_after() -> None:
    async with MemoryBench(
        Expect("turn/start"),
        Expect("turn/interrupt", error=TOO_EARLY),
        *turn_started(),
        Expect("turn/interrupt"),
        *turn_completed("interrupted"),
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()

        assert await bench.end_of() == "cancelled"
        assert len(await bench.asked_codex("turn/interrupt")) == 2


async def test_3_5_an_interrupt_refused_because_the_turn_has_just_ended_is_a_success() -> None:
    async with MemoryBench(
        Expect("turn/start"),
        *turn_started(),
        Expect("turn/interrupt", error=TOO_EARLY),
        *turn_completed(),
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()

        assert await bench.end_of() == "cancelled"


async def test_a_cancel_after_the_end_does_nothing() -> None:
    turn = [Expect("turn/start"), *turn_completed()]
    async with MemoryBench(*turn, *turn) as bench:
        await bench.prompt("p1")
        bench.cancel()

        assert await bench.prompt("p2") == "end_turn"
        methods = [message.get("method") for message in bench.server.player.received]
        assert "turn/interrupt" not in methods


async def test_a_second_cancel_sends_no_second_interrupt() -> None:
    async with MemoryBench(
        Expect("turn/start"), *turn_started(), Expect("turn/interrupt", silent=True)
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()
        await bench.asked_codex("turn/interrupt")
        bench.cancel()
        await bench.client.settle()
        bench.server.play(*turn_completed("interrupted"))

        assert await bench.end_of() == "cancelled"
        assert len(await bench.asked_codex("turn/interrupt")) == 1


async def test_a_turn_that_fails_after_a_cancel_is_cancelled() -> None:
    async with MemoryBench(
        Expect("turn/start"),
        *turn_started(),
        Expect("turn/interrupt"),
        *turn_completed("failed", error="aborted"),
    ) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()

        assert await bench.end_of() == "cancelled"


async def test_a_turn_start_refused_after_a_cancel_is_cancelled() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.start_prompt()
        request = await bench.server.wait_for_message("turn/start")
        bench.cancel()
        await bench.client.settle()
        bench.server.play(RawLine(json.dumps({"id": request["id"], "error": TOO_EARLY})))

        assert await bench.end_of() == "cancelled"


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("answered", [True, False])
async def test_4_3_a_codex_that_ignores_the_interrupt_does_not_hold_the_prompt(
    answered: bool,
) -> None:
    async with MemoryBench(
        Expect("turn/start"), *turn_started(), Expect("turn/interrupt", silent=not answered)
    ) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.cancel()
        assert await bench.end_of("p1") == "cancelled"

        late = turn_note("turn/completed", "turn-1", "completed")
        bench.server.play(Expect("turn/start"), late, *agent_message("Second."), *turn_completed())
        assert await bench.prompt("p2") == "end_turn"
        assert bench.said() == "Second."


@pytest.mark.usefixtures("short_patience")
async def test_a_turn_that_starts_after_its_prompt_was_given_up_is_interrupted() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.start_prompt()
        await bench.asked_codex("turn/start")
        bench.cancel()
        assert await bench.end_of() == "cancelled"

        await bench.answer_turn_start("late")
        began = turn_note("turn/started", "late")
        bench.server.play(Expect("turn/interrupt", error=TOO_EARLY), began)
        interrupts = await bench.asked_codex("turn/interrupt", 2)
        assert interrupts == [{"threadId": THREAD, "turnId": "late"}] * 2


async def test_a_prompt_whose_request_is_cancelled_is_answered_when_its_turn_has_ended() -> None:
    async with MemoryBench(Expect("turn/start"), *turn_started()) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p1"}})
        await bench.asked_codex("turn/interrupt")
        assert bench.client.replies("p1") == []
        bench.server.play(*agent_message("Last words."), *turn_completed("interrupted"))
        error = await bench.end_of("p1")

        assert error["code"] == -32800
        assert bench.said() == "Last words."
        assert bench.updates_behind("p1") == []
        bench.server.play(Expect("turn/start"), *turn_completed())
        assert await bench.prompt("p2") == "end_turn"


async def test_a_request_cancelled_before_turn_start_is_answered_leaves_no_turn_behind() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p1"}})
        await bench.client.settle()
        await bench.answer_turn_start("mine", turn_note("turn/started", "mine"))
        assert (await bench.asked_codex("turn/interrupt"))[0]["turnId"] == "mine"
        bench.server.play(turn_note("turn/completed", "mine", "interrupted"))

        assert (await bench.end_of("p1"))["code"] == -32800


@pytest.mark.attack("client")
@pytest.mark.parametrize("end", ["session/cancel", "session/close"])
async def test_2_5_a_form_answered_behind_a_cancel_in_one_write_is_not_passed_on(end: str) -> None:
    form = form_elicitation("Who?", {"name": {"type": "string"}})
    params = {"threadId": THREAD, "turnId": "turn-1", "serverName": "notes", "_meta": None, **form}
    asks = AskClient("mcpServer/elicitation/request", params)
    script = [Expect("turn/start"), *turn_started(), asks, Expect("turn/interrupt")]
    able: dict[str, object] = {"elicitation": {"form": {}}}
    async with MemoryBench(*script, capabilities=able) as bench:
        bench.start_prompt()
        asked = await bench.client.sent("elicitation/create")
        answer = {"id": asked["id"], "result": {"action": "accept", "content": {"name": "me"}}}
        ends = {"method": end, "params": {"sessionId": THREAD}}
        bench.client.send(ends if end == "session/cancel" else {"id": "c", **ends}, answer)
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        (replied,) = bench.server.player.answers
        bench.server.play(*turn_completed("interrupted"))

        assert replied.result == {"action": "cancel", "content": None, "_meta": None}
        assert await bench.end_of() == "cancelled"
