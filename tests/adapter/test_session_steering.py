"""A prompt that comes while another one runs: steered into the turn, or next; answered once.

What Codex reads is what it says it reads: the message comes back as an item with the id we gave.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from codex_acp.adapter.session import driver
from codex_acp.testing import (
    Entry,
    Exit,
    Expect,
    Notify,
    RawLine,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import THREAD, MemoryBench, hurry, turn_note

REVIEW = {
    "code": -32600,
    "message": "cannot steer a review turn",
    "data": {"codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": "review"}}},
}


def message_read(call: str, text: str = "hi") -> Notify:
    """Codex takes the newest message of ``turn/start`` or ``turn/steer`` into the newest turn."""
    item = {
        "type": "userMessage",
        "id": f"item-of-{call}",
        "clientId": f"${{{call}:clientUserMessageId}}",
        "content": [{"type": "text", "text": text, "text_elements": []}],
    }
    params = {"threadId": THREAD, "turnId": "${turn:id}", "item": item, "startedAtMs": 1}
    return Notify("item/started", params)


BEGUN: list[Entry] = [Expect("turn/start"), *turn_started(), message_read("turn/start")]
STEERED: list[Entry] = [Expect("turn/steer"), message_read("turn/steer")]


def texts(params: list[Any]) -> list[str]:
    return [asked["input"][0]["text"] for asked in params]


def answered(bench: MemoryBench) -> list[object]:
    """The ids of the prompts that were answered, in order."""
    prompts = ("p1", "p2", "p3")
    return [m["id"] for m in bench.client.messages if m.get("id") in prompts and "method" not in m]


async def test_a_second_prompt_is_steered_and_both_end_with_the_turn() -> None:
    async with MemoryBench(*BEGUN, *STEERED) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        (steered,) = await bench.asked_codex("turn/steer")
        assert answered(bench) == []
        bench.server.play(*agent_message("Both."), *turn_completed())

        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"
        assert steered["expectedTurnId"] == "turn-1"
        assert steered["threadId"] == THREAD
        assert texts([steered]) == ["two"]
        assert len(await bench.asked_codex("turn/start")) == 1
        assert bench.said() == "Both."
        assert sorted(map(str, answered(bench))) == ["p1", "p2"]


async def test_a_steering_message_whose_turn_ends_in_the_same_read_was_injected() -> None:
    ends = [*STEERED, *turn_completed()]
    async with MemoryBench(*BEGUN, *ends) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        prompt = [{"type": "text", "text": "two"}]
        params = {"sessionId": THREAD, "prompt": prompt}
        answer = await bench.client.ask("s1", "_session/steering", params)
        assert answer["result"] == {"outcome": "injected"}
        assert await bench.end_of("p1") == "end_turn"


async def test_prompts_are_steered_in_the_order_in_which_they_came() -> None:
    async with MemoryBench(*BEGUN, *STEERED, *STEERED) as bench:
        bench.start_prompt("p1", "one")
        bench.start_prompt("p2", "two")
        bench.start_prompt("p3", "three")
        steered = await bench.asked_codex("turn/steer", 2)
        bench.server.play(*turn_completed())
        for prompt in ("p1", "p2", "p3"):
            assert await bench.end_of(prompt) == "end_turn"

        assert texts(steered) == ["two", "three"]
        ids = [asked["clientUserMessageId"] for asked in steered]
        assert len({*ids, (await bench.asked_codex("turn/start"))[0]["clientUserMessageId"]}) == 3


async def test_a_prompt_waits_until_the_turn_before_it_has_begun() -> None:
    async with MemoryBench(Expect("turn/start")) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2")
        await bench.client.settle()
        methods = [m.get("method") for m in bench.server.player.received]
        assert "turn/steer" not in methods
        bench.server.play(*turn_started())
        await bench.asked_codex("turn/steer")
        bench.server.play(*turn_completed())

        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"


async def test_a_prompt_that_codex_takes_into_no_review_is_the_next_turn() -> None:
    second = [Expect("turn/start"), *turn_started(), *agent_message("Two."), *turn_completed()]
    async with MemoryBench(*BEGUN, Expect("turn/steer", error=REVIEW)) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        await bench.asked_codex("turn/steer")
        bench.server.play(*agent_message("One."), *turn_completed(), *second)

        assert await bench.end_of("p1") == "end_turn"
        assert await bench.end_of("p2") == "end_turn"
        assert texts(await bench.asked_codex("turn/start")) == ["one", "two"]
        assert len(await bench.asked_codex("turn/steer")) == 1, "asked once, not again and again"
        assert bench.said() == "One.Two."


async def test_a_steered_message_that_the_turn_did_not_read_is_the_next_turn() -> None:
    second = [Expect("turn/start"), *turn_started(), *turn_completed()]
    async with MemoryBench(*BEGUN, Expect("turn/steer"), *turn_completed(), *second) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")

        assert await bench.end_of("p1") == "end_turn"
        assert await bench.end_of("p2") == "end_turn"
        assert texts(await bench.asked_codex("turn/start")) == ["one", "two"]


async def test_what_was_not_read_goes_before_what_came_later() -> None:
    async with MemoryBench(*BEGUN, Expect("turn/steer")) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        await bench.asked_codex("turn/steer")
        bench.server.play(
            *turn_completed(),
            Expect("turn/start"),
            *turn_started(),
            message_read("turn/start"),
            *STEERED,
            *turn_completed(),
        )
        bench.start_prompt("p3", "three")
        for prompt in ("p1", "p2", "p3"):
            assert await bench.end_of(prompt) == "end_turn"

        assert texts(await bench.asked_codex("turn/start")) == ["one", "two"]
        assert texts(await bench.asked_codex("turn/steer"))[-1] == "three"


async def test_a_codex_that_does_not_repeat_our_ids_is_believed_to_have_read_the_message() -> None:
    quiet = [Expect("turn/start"), *turn_started()]
    async with MemoryBench(*quiet, Expect("turn/steer"), *turn_completed()) as bench:
        bench.start_prompt("p1")
        bench.start_prompt("p2")

        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"
        assert len(await bench.asked_codex("turn/start")) == 1


async def test_a_steered_message_without_an_answer_ends_with_the_turn_that_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, steer=0.05)
    silent = [Expect("turn/steer", silent=True), message_read("turn/steer"), *turn_completed()]
    async with MemoryBench(*BEGUN, *silent) as bench:
        bench.start_prompt("p1")
        bench.start_prompt("p2")

        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"
        assert len(await bench.asked_codex("turn/start")) == 1


async def test_a_turn_that_fails_fails_all_of_its_prompts() -> None:
    async with MemoryBench(*BEGUN, *STEERED, *turn_completed("failed", error="no luck")) as bench:
        bench.start_prompt("p1")
        bench.start_prompt("p2")

        assert (await bench.end_of("p1"))["message"] == "no luck"
        assert (await bench.end_of("p2"))["message"] == "no luck"


async def test_a_message_that_a_failed_turn_did_not_read_fails_with_it() -> None:
    failed = turn_completed("failed", error="no luck")
    async with MemoryBench(*BEGUN, Expect("turn/steer"), *failed) as bench:
        bench.start_prompt("p1")
        bench.start_prompt("p2")

        assert (await bench.end_of("p1"))["message"] == "no luck"
        assert (await bench.end_of("p2"))["message"] == "no luck"
        assert len(await bench.asked_codex("turn/start")) == 1


async def test_a_cancel_ends_the_turn_and_takes_back_what_waits() -> None:
    refused = Expect("turn/steer", error=REVIEW)
    async with MemoryBench(*BEGUN, Expect("turn/steer"), refused) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        bench.start_prompt("p3", "three")
        await bench.asked_codex("turn/steer", 2)
        bench.server.play(Expect("turn/interrupt"), *turn_completed("interrupted"))
        bench.cancel()
        for prompt in ("p1", "p2", "p3"):
            assert await bench.end_of(prompt) == "cancelled"
        bench.server.play(Expect("turn/start"), *turn_completed())

        assert await bench.prompt("p4") == "end_turn"
        assert texts(await bench.asked_codex("turn/start", 2)) == ["one", "hi"]
        assert len(await bench.asked_codex("turn/interrupt")) == 1


async def test_a_prompt_sent_behind_a_cancel_is_not_cancelled_by_it() -> None:
    async with MemoryBench(*BEGUN) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.cancel()
        bench.start_prompt("p2", "two")
        await bench.asked_codex("turn/interrupt")
        bench.server.play(*turn_completed("interrupted"), Expect("turn/start"), *turn_completed())

        assert await bench.end_of("p1") == "cancelled"
        assert await bench.end_of("p2") == "end_turn"
        methods = [m.get("method") for m in bench.server.player.received]
        assert "turn/steer" not in methods, "a turn that is being ended takes no message"


async def test_a_steered_prompt_that_is_given_up_leaves_the_turn_to_the_other() -> None:
    async with MemoryBench(*BEGUN, *STEERED) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2")
        await bench.asked_codex("turn/steer")
        await bench.client.settle()
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p2"}})
        assert (await bench.end_of("p2"))["code"] == -32800
        bench.server.play(*turn_completed())

        assert await bench.end_of("p1") == "end_turn"
        methods = [m.get("method") for m in bench.server.player.received]
        assert "turn/interrupt" not in methods


async def test_the_first_prompt_that_is_given_up_leaves_the_turn_to_the_steered_one() -> None:
    async with MemoryBench(*BEGUN, *STEERED) as bench:
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2")
        await bench.asked_codex("turn/steer")
        await bench.client.settle()
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p1"}})
        assert (await bench.end_of("p1"))["code"] == -32800
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p2"}})
        await bench.asked_codex("turn/interrupt")
        bench.server.play(*turn_completed("interrupted"))

        assert (await bench.end_of("p2"))["code"] == -32800


async def test_a_waiting_prompt_that_is_given_up_never_reaches_codex() -> None:
    async with MemoryBench(*BEGUN, Expect("turn/steer", error=REVIEW)) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        await bench.asked_codex("turn/steer")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "p2"}})
        assert (await bench.end_of("p2"))["code"] == -32800
        bench.server.play(*turn_completed())

        assert await bench.end_of("p1") == "end_turn"
        assert texts(await bench.asked_codex("turn/start")) == ["one"]


async def test_more_prompts_than_a_person_sends_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "MAX_PROMPTS", 2)
    async with MemoryBench(*BEGUN, *STEERED) as bench:
        bench.start_prompt("p1")
        bench.start_prompt("p2")
        await bench.asked_codex("turn/steer")
        refused = await bench.prompt("p3")
        bench.server.play(*turn_completed())

        assert refused["code"] == -32600
        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"


async def test_a_prompt_joins_a_turn_that_codex_began_by_itself() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        bench.server.play(turn_note("turn/started", "own"))
        bench.start_prompt("p1")
        await bench.asked_codex("turn/start")
        await bench.answer_turn_start("own")
        bench.start_prompt("p2")
        (steered,) = await bench.asked_codex("turn/steer")
        bench.server.play(turn_note("turn/completed", "own", "completed"))

        assert await bench.end_of("p1") == await bench.end_of("p2") == "end_turn"
        assert steered["expectedTurnId"] == "own"


async def test_a_cancel_also_ends_a_turn_that_codex_began_by_itself() -> None:
    async with MemoryBench(Expect("turn/start"), *turn_completed()) as bench:
        await bench.prompt()
        bench.server.play(turn_note("turn/started", "own"))
        await bench.client.settle()
        bench.cancel()

        assert await bench.asked_codex("turn/interrupt") == [{"threadId": THREAD, "turnId": "own"}]


def steer(bench: MemoryBench, text: str) -> None:
    prompt = [{"type": "text", "text": text}]
    params = {"sessionId": THREAD, "prompt": prompt}
    bench.client.send({"id": "s1", "method": "_session/steering", "params": params})


async def test_a_cancel_in_one_read_with_a_steered_message_takes_it_back() -> None:
    async with MemoryBench(Expect("turn/start", silent=True)) as bench:
        steer(bench, "never")
        bench.cancel()
        assert (await bench.client.reply("s1"))["error"]["code"] == -32800
        assert bench.server.player.received[-1].get("method") != "turn/start"
        bench.start_prompt("p1", "one")
        (begun,) = await bench.asked_codex("turn/start")
        assert begun["input"][0]["text"] == "one"


async def test_a_steered_message_that_its_client_gives_up_is_not_sent_later() -> None:
    async with MemoryBench(*BEGUN, Expect("turn/steer", error=REVIEW)) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        steer(bench, "never")
        await bench.asked_codex("turn/steer")
        bench.client.send({"method": "$/cancel_request", "params": {"requestId": "s1"}})
        assert (await bench.client.reply("s1"))["error"]["code"] == -32800
        bench.server.play(*turn_completed())
        assert await bench.end_of("p1") == "end_turn"
        await bench.client.settle()
        assert texts(await bench.asked_codex("turn/start")) == ["one"]


@pytest.mark.parametrize("end", [turn_completed(), [Exit(3)]], ids=["ends", "dies"])
async def test_what_is_steered_into_a_turn_that_is_over_at_once_leaves_nothing_running(
    end: list[Entry],
) -> None:
    steer_silently = Expect("turn/steer", silent=True)
    async with MemoryBench(*BEGUN, steer_silently, version=2) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        request = await bench.server.wait_for_message("turn/steer")
        answer = {"id": request["id"], "result": {"turnId": "turn-1"}}
        bench.server.play(message_read("turn/steer"), RawLine(json.dumps(answer)), *end)
        assert "result" in await bench.client.reply("p2")
        await bench.client.settle()
        assert [u["state"] for u in bench.updates if "state" in u][-1] == "idle"


async def test_what_codex_reads_has_its_place_before_what_answers_it() -> None:
    async with MemoryBench(*BEGUN, Expect("turn/steer", silent=True), version=2) as bench:
        bench.start_prompt("p1", "one")
        await bench.asked_codex("turn/start")
        bench.start_prompt("p2", "two")
        request = await bench.server.wait_for_message("turn/steer")
        answer = {"id": request["id"], "result": {"turnId": "turn-1"}}
        read: list[Entry] = [RawLine(json.dumps(answer)), message_read("turn/steer")]
        bench.server.play(*read, *agent_message("Both."), *turn_completed())
        second = (await bench.client.reply("p2"))["result"]["messageId"]
        await bench.client.settle()
        assert [u["state"] for u in bench.updates if "state" in u] == ["running", "idle"]
        told = [u["messageId"] for u in bench.updates if "messageId" in u]
        (said,) = {u["messageId"] for u in bench.updates if "chunk" in u["sessionUpdate"]}
        assert told.index(second) < told.index(said)
