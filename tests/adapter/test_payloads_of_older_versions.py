"""An approval of a Codex that is older than can be read: refused, and both sides are told."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from codex_acp.testing import AskClient, AwaitAnswer, Expect, Notify, turn_completed, turn_started
from tests.adapter.memory_bench import MemoryBench

WHERE: dict[str, Any] = {"threadId": "${turn:threadId}", "turnId": "${turn:id}", "itemId": "c"}
RUN: dict[str, Any] = {**WHERE, "command": "rm -r made", "cwd": "/w"}
ITEM: dict[str, Any] = {
    "type": "commandExecution", "id": "c", "command": "rm -r made", "cwd": "/w",
    "status": "inProgress",
}  # fmt: skip


async def test_1_3_an_approval_without_started_at_ms_is_declined_and_the_person_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ask = AskClient("item/commandExecution/requestApproval", RUN, name="old")
    turn = [Expect("turn/start"), *turn_started(), ask, AwaitAnswer("old")]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"
        (answer,) = bench.server.player.answers
        assert answer.result == {"decision": "decline"}
        methods = [message.get("method") for message in bench.client.messages]
        assert "session/request_permission" not in methods
        assert "startedAtMs" in bench.said(), bench.updates
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert any("startedAtMs: Field required" in warning for warning in warnings), warnings


async def test_1_3_an_item_without_command_actions_bears_nothing_out_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = Notify("item/started", {**WHERE, "startedAtMs": 1, "item": ITEM})
    turn = [Expect("turn/start"), *turn_started(), started]
    async with MemoryBench(*turn, *turn_completed()) as bench:
        assert await bench.prompt() == "end_turn"
        assert not [u for u in bench.updates if u["sessionUpdate"] == "tool_call"]
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert any("commandActions: Field required" in warning for warning in warnings), warnings
