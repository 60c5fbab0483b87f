"""What Codex says of a turn behind its end, or says wrongly, changes nothing of its prompt."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.testing import (
    AskClient,
    CloseOutput,
    Entry,
    Expect,
    Notify,
    agent_message,
    command_approval,
    turn_completed,
    turn_started,
)
from tests.adapter.memory_bench import THREAD, MemoryBench, hurry, turn_note


def item(method: str, status: str, turn_id: str = "turn-1") -> Notify:
    made = {
        "type": "commandExecution", "id": "call-1", "command": "make", "cwd": "/w",
        "status": status, "commandActions": [], "aggregatedOutput": "out", "exitCode": 0,
    }  # fmt: skip
    where = {"threadId": THREAD, "turnId": turn_id, "startedAtMs": 1, "completedAtMs": 2}
    return Notify(method, {**where, "item": made})


STARTED = item("item/started", "inProgress")
COMPLETED = item("item/completed", "completed")
OUTPUT = Notify(
    "item/commandExecution/outputDelta",
    {"threadId": THREAD, "turnId": "turn-1", "itemId": "call-1", "delta": "more"},
)
ASKS_USER = AskClient(
    "item/tool/requestUserInput",
    {
        "threadId": THREAD, "turnId": "turn-1", "itemId": "ask", "isBlocking": True,
        "questions": [
            {"id": "q", "header": "Which", "question": "Which one?", "isOther": True,
             "isSecret": False, "options": None}
        ],
    },
)  # fmt: skip
QUESTIONS = {"session/request_permission", "elicitation/create"}
TURN: list[Entry] = [Expect("turn/start"), *turn_started()]


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ([], [STARTED]),
        ([], [STARTED, OUTPUT, COMPLETED]),
        ([STARTED], [COMPLETED]),
        ([STARTED], [OUTPUT, COMPLETED]),
        ([STARTED, COMPLETED], [COMPLETED]),
    ],
)
async def test_4_2_an_item_behind_the_end_of_its_turn_is_not_sent(
    before: list[Entry], behind: list[Entry]
) -> None:
    async with MemoryBench(*TURN, *before, *turn_completed(), *behind) as bench:
        assert await bench.prompt("p1") == "end_turn"
        await bench.client.settle()
        assert bench.updates_behind("p1") == []
        second = [Expect("turn/start"), turn_note("turn/started", "turn-2"), *behind]
        bench.server.play(*second, *agent_message("Second."), *turn_completed())
        assert await bench.prompt("p2") == "end_turn"
        assert not [call for call in calls(bench, "p1") if call["toolCallId"] == "call-1"]
        assert bench.said().endswith("Second.")


def calls(bench: MemoryBench, request_id: str) -> list[Any]:
    """The updates of tool calls behind the answer to a prompt."""
    updates = bench.updates_behind(request_id)
    return [update for update in updates if update["sessionUpdate"].startswith("tool_call")]


async def test_4_2_nor_is_one_of_a_turn_that_was_cancelled_while_its_command_ended() -> None:
    """The command is in no list of background terminals: it has ended by itself."""
    listed: dict[str, object] = {"data": [], "nextCursor": None}
    async with MemoryBench(
        *TURN,
        STARTED,
        Expect("turn/interrupt"),
        turn_note("turn/completed", "turn-1", "interrupted"),
        Expect("thread/backgroundTerminals/list", result=listed),
        COMPLETED,
    ) as bench:
        bench.start_prompt("p1")
        await bench.client.sent("session/update")
        bench.cancel()
        assert await bench.end_of("p1") == "cancelled"
        await bench.client.settle()
        assert bench.updates_behind("p1") == []


async def test_4_2_nor_is_one_of_a_turn_that_was_given_up_and_then_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurry(monkeypatch, cancel=0.05)
    async with MemoryBench(*TURN, STARTED, Expect("turn/interrupt", silent=True)) as bench:
        bench.start_prompt("p1")
        await bench.client.sent("session/update")
        bench.cancel()
        assert await bench.end_of("p1") == "cancelled"
        bench.server.play(turn_note("turn/completed", "turn-1", "interrupted"), COMPLETED)
        await bench.client.settle()
        assert bench.updates_behind("p1") == []


async def test_1_6_what_is_asked_for_an_answered_turn_is_declined_without_asking() -> None:
    question = command_approval("rm -rf x", name="late")[-1]
    async with MemoryBench(*TURN, *turn_completed()) as bench:
        assert await bench.prompt("p1") == "end_turn"
        bench.server.play(question)
        await bench.server.wait_for(lambda: bool(bench.server.player.answers))
        await bench.client.settle()
        (answer,) = bench.server.player.answers
        assert answer.result in ({"decision": "cancel"}, {"decision": "decline"})
        assert calls(bench, "p1") == []
        asked = [m.get("method") for m in bench.client.messages]
        assert "session/request_permission" not in asked


async def test_a_turn_that_codex_begins_by_itself_is_shown() -> None:
    async with MemoryBench(*TURN, *turn_completed()) as bench:
        assert await bench.prompt("p1") == "end_turn"
        bench.server.play(
            turn_note("turn/started", "goal"),
            item("item/started", "inProgress", "goal"),
            item("item/completed", "completed", "goal"),
        )
        await bench.client.until(lambda: len(calls(bench, "p1")) == 2)
        assert [call["status"] for call in calls(bench, "p1")] == ["in_progress", "completed"]


async def test_3_10_a_turn_that_begins_behind_its_end_does_not_run() -> None:
    late = turn_note("turn/started", "turn-1")
    async with MemoryBench(*TURN, *turn_completed(), late, version=2) as bench:
        assert await bench.prompt("p1") == "end_turn"
        await bench.client.settle()
        states = [u["state"] for u in bench.updates if u["sessionUpdate"] == "state_update"]
        assert states == ["running", "idle"]


def methods(bench: MemoryBench) -> set[Any]:
    """What the client was asked and told."""
    return {message.get("method") for message in bench.client.messages}


@pytest.mark.parametrize("end", [CloseOutput(), *turn_completed()], ids=["loss", "end"])
@pytest.mark.parametrize("question", [command_approval("make"), [ASKS_USER]])
async def test_3_10_a_question_is_withdrawn_before_the_end_of_its_turn_is_told(
    question: list[Entry], end: Entry
) -> None:
    knows: dict[str, Any] = {"elicitation": {"form": {}}}
    async with MemoryBench(*TURN, *question, version=2, capabilities=knows) as bench:
        bench.start_prompt("p1")
        await bench.client.until(lambda: bool(QUESTIONS & methods(bench)))
        bench.server.play(end)
        await bench.end_of("p1")
        sent = [m.get("params", {}).get("update", m) for m in bench.client.messages]
        told = [each.get("state") or each.get("method") for each in sent]
        assert told.index("$/cancel_request") < told.index("idle")


@pytest.mark.parametrize("kind", [[], {}, None, 1])
async def test_a_status_of_the_wrong_type_is_no_failure(
    kind: object, caplog: pytest.LogCaptureFixture
) -> None:
    status = Notify("thread/status/changed", {"threadId": THREAD, "status": {"type": kind}})
    async with MemoryBench(*TURN, status, *turn_completed()) as bench:
        assert await bench.prompt("p1") == "end_turn"
    assert not [record for record in caplog.records if record.exc_info]
