"""A prompt returns although Codex does not say how its turn ended (contract 4.3).

What became of the turn is asked of Codex, and taken from its answer; silence alone ends nothing.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from codex_acp.adapter.sessions.sessions import CLOSED_BY_CODEX
from codex_acp.testing import (
    Entry,
    Expect,
    Notify,
    agent_message,
    command_approval,
    turn_completed,
    turn_started,
)
from codex_acp.testing.app_server_script import default_result, turn_object
from tests.adapter.memory_bench import THREAD, MemoryBench, hurry, turn_note

BEGUN: list[Entry] = [Expect("turn/start"), *turn_started()]
LIST = "thread/turns/list"
NOT_FOUND = {"code": -32601, "message": "there is no such method"}


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch, stopped=0.02)
    hurry(monkeypatch, answer=0.02)


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is silent after no time at all."""
    hurry(monkeypatch, silence=0.02)


def status(kind: str) -> Notify:
    """``thread/status/changed``."""
    return Notify("thread/status/changed", {"threadId": THREAD, "status": {"type": kind}})


def turns(*known: dict[str, Any]) -> Expect:
    """The answer of Codex about the thread's turns, the newest first."""
    return Expect(LIST, result={"data": list(known), "nextCursor": None})


def failed(turn_id: str) -> dict[str, Any]:
    error = {"message": "the model is gone", "codexErrorInfo": None, "additionalDetails": None}
    return {**turn_object(turn_id, "failed"), "error": error}


@pytest.mark.parametrize("kind", ["idle", "systemError", "notLoaded"])
async def test_4_3_a_lost_end_is_found_when_the_thread_has_stopped(kind: str) -> None:
    known = turns(turn_object("turn-1", "completed"))
    async with MemoryBench(*BEGUN, *agent_message("Said."), status(kind), known) as bench:
        assert await bench.prompt() == "end_turn"
        assert bench.said().startswith("Said.")
        assert (CLOSED_BY_CODEX in bench.said()) is (kind == "notLoaded")
        (asked,) = await bench.asked_codex(LIST)
        assert (asked["threadId"], asked["sortDirection"]) == (THREAD, "desc")


async def test_4_4_a_lost_failure_is_an_error_with_codexs_message() -> None:
    async with MemoryBench(*BEGUN, status("idle"), turns(failed("turn-1"))) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603
        assert error["message"] == "the model is gone"


async def test_4_5_a_lost_end_leaves_no_tool_call_open() -> None:
    command = command_approval("make")[0]  # the item without the question
    lost: list[Entry] = [status("idle"), turns(turn_object("turn-1", "completed"))]
    async with MemoryBench(*BEGUN, command, *lost) as bench:
        assert await bench.prompt() == "end_turn"
        updates = [m["params"]["update"] for m in bench.client.messages if "params" in m]
        statuses = [u.get("status") for u in updates if u.get("toolCallId") == "call-1"]
        assert statuses[-1] == "failed"


async def test_4_4_the_error_of_a_turn_that_never_begins_fails_its_prompt_alone() -> None:
    def error(turn: str) -> Notify:
        told = {"threadId": THREAD, "turnId": turn, "willRetry": False}
        return Notify("error", {**told, "error": failed(turn)["error"]})

    def ended(turn: str) -> Notify:
        return Notify("turn/completed", {"threadId": THREAD, "turn": failed(turn)})

    async with MemoryBench(Expect("turn/start"), error("turn-1")) as bench:
        assert (await bench.prompt())["message"] == "the model is gone"
        begun: list[Entry] = [Expect("turn/start"), *turn_started()]
        bench.server.play(*begun, *agent_message("Said."), ended("turn-2"))
        assert await bench.prompt("p2") == "end_turn", "Codex repeats the error of turn 1"
        bench.server.play(*begun, error("turn-3"), *agent_message("More."), ended("turn-3"))
        assert (await bench.prompt("p3"))["message"] == "the model is gone"
        assert bench.said() == "Said.More."


async def test_an_end_that_comes_in_time_is_not_asked_about() -> None:
    async with MemoryBench(*BEGUN, status("idle"), *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"
        bench.server.play(Expect("turn/start"), *turn_completed())
        assert await bench.prompt("p2") == "end_turn"
        methods = [m.get("method") for m in bench.server.player.received]
        assert LIST not in methods


async def test_a_codex_without_the_list_is_asked_for_the_thread() -> None:
    answer = default_result("thread/read", {"threadId": THREAD}, "")
    assert answer is not None
    thread = cast("dict[str, Any]", answer["thread"])
    thread["turns"] = [turn_object("turn-0", "failed"), turn_object("turn-1", "completed")]
    read = Expect("thread/read", result=answer)
    async with MemoryBench(*BEGUN, status("idle"), Expect(LIST, error=NOT_FOUND), read) as bench:
        assert await bench.prompt() == "end_turn"
        assert (await bench.asked_codex("thread/read"))[-1]["includeTurns"] is True


async def test_a_turn_that_codex_does_not_know_any_more_fails_the_prompt() -> None:
    empty = [turns(turn_object("older", "completed"))] * 3
    async with MemoryBench(*BEGUN, status("idle"), *empty) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603
        assert "nothing runs" in error["message"]
        assert len(await bench.asked_codex(LIST)) == 3, "asked again before it is believed"


@pytest.mark.usefixtures("silence")
async def test_a_turn_that_runs_silently_goes_on() -> None:
    running = [turns(turn_object("turn-1"))] * 4
    async with MemoryBench(*BEGUN, *running) as bench:
        bench.start_prompt()
        await bench.asked_codex(LIST, 4)
        bench.server.play(*agent_message("Thought long."), *turn_completed())

        assert await bench.end_of() == "end_turn"
        assert bench.said() == "Thought long."


@pytest.mark.usefixtures("silence")
async def test_4_3_a_turn_that_ended_in_silence_is_settled_as_codex_says() -> None:
    ended = [turns(turn_object("turn-1")), turns(turn_object("turn-1", "interrupted"))]
    async with MemoryBench(*BEGUN, *ended) as bench:
        assert await bench.prompt() == "cancelled"


@pytest.mark.usefixtures("silence")
async def test_4_3_a_codex_that_answers_nothing_any_more_ends_the_prompt_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, look_up=0.05)
    async with MemoryBench(*BEGUN, *[Expect(LIST, silent=True)] * 3) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603
        assert "no answer" in error["message"]


async def test_4_3_a_lost_answer_of_turn_start_does_not_hold_the_prompt() -> None:
    begun: list[Entry] = [Expect("turn/start", silent=True), turn_note("turn/started", "mine")]
    ended = turn_note("turn/completed", "mine", "completed")
    message = {
        "type": "userMessage", "id": "u", "content": [],
        "clientId": "${turn/start:clientUserMessageId}",
    }  # fmt: skip
    known = turns({**turn_object("mine", "completed"), "items": [message]})
    async with MemoryBench(*begun, ended, known) as bench:
        assert await bench.prompt() == "end_turn"


async def test_4_3_a_turn_that_codex_began_by_itself_is_not_taken_for_one_that_was_asked_for() -> (
    None
):
    foreign = [
        turn_note("turn/started", "theirs"),
        turn_note("turn/completed", "theirs", "completed"),
    ]
    said = {"threadId": THREAD, "turnId": "mine", "itemId": "m", "delta": "Mine."}
    theirs = turns({**turn_object("theirs", "completed"), "items": []})
    async with MemoryBench(Expect("turn/start", silent=True), *foreign, theirs) as bench:
        bench.start_prompt()
        await bench.asked_codex(LIST)
        mine = {"threadId": THREAD, "turnId": "mine", "startedAtMs": 1, "item": {
            "type": "userMessage", "id": "u", "content": [],
            "clientId": "${turn/start:clientUserMessageId}",
        }}  # fmt: skip
        bench.server.play(
            turn_note("turn/started", "mine"),
            Notify("item/started", mine),
            Notify("item/agentMessage/delta", said),
            turn_note("turn/completed", "mine", "completed"),
        )
        assert await bench.end_of() == "end_turn"
        assert bench.said() == "Mine."


async def test_4_3_our_own_message_tells_the_turn_whose_answer_is_lost() -> None:
    item = {
        "type": "userMessage", "id": "u", "content": [],
        "clientId": "${turn/start:clientUserMessageId}",
    }  # fmt: skip
    params = {"threadId": THREAD, "turnId": "mine", "item": item, "startedAtMs": 1}
    async with MemoryBench(
        Expect("turn/start", silent=True),
        Notify("item/started", params),
        turn_note("turn/completed", "mine", "completed"),
    ) as bench:
        assert await bench.prompt() == "end_turn"


@pytest.mark.usefixtures("silence")
async def test_4_3_a_turn_start_that_is_not_answered_and_begins_nothing_fails_the_prompt() -> None:
    nothing = [turns(turn_object("older", "completed"))] * 3
    async with MemoryBench(Expect("turn/start", silent=True), *nothing) as bench:
        error = await bench.prompt()

        assert error["code"] == -32603


@pytest.mark.parametrize(
    "listed",
    [[turns(turn_object("turn-1", "completed"))], [turns(turn_object("older", "completed"))] * 3],
    ids=["found", "not found"],
)
async def test_3_10_what_a_turn_asks_whose_end_was_lost_is_withdrawn_before_its_prompt_is_answered(
    listed: list[Entry],
) -> None:
    async with MemoryBench(*BEGUN, *command_approval("make")) as bench:
        bench.start_prompt()
        await bench.client.sent("session/request_permission")
        bench.server.play(status("idle"), *listed)
        await bench.end_of()
        sent = [message.get("method") or message["id"] for message in bench.client.messages]
        assert sent.index("$/cancel_request") < sent.index("p1")
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        (answer,) = bench.server.player.answers
        assert answer.result in ({"decision": "cancel"}, {"decision": "decline"})
