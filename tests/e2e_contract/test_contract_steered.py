"""A message that was steered into a turn which did not read it, by a scripted app-server."""

from __future__ import annotations

from typing import Any

from codex_acp.jsonrpc import JsonValue
from codex_acp.testing import (
    Entry,
    Expect,
    ScriptedAppServer,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.adapter.test_session_steering import message_read
from tests.e2e_contract.contract_bench import ContractBench, Scenes

FIRST: list[Entry] = [
    Expect("initialize"), Expect("thread/start"),
    Expect("turn/start"), *turn_started(), message_read("turn/start"),
]  # fmt: skip
SECOND: list[Entry] = [
    Expect("turn/start"), *turn_started(), message_read("turn/start"),
    *agent_message("Two."), *turn_completed(),
]  # fmt: skip


def asked(bench: ContractBench, method: str) -> list[dict[str, Any]]:
    """What the adapter has sent to Codex with one method."""
    sent = [message for by, message in bench.wire.messages if by == "adapter"]
    return [message["params"] for message in sent if message.get("method") == method]


async def test_4_2_a_steered_message_that_was_not_read_is_the_next_turn_under_the_same_name(
    version: int,
) -> None:
    async with ScriptedAppServer(FIRST) as server:
        bench = ContractBench(Scenes(), version, link=lambda: server.link)
        try:
            await bench.start()
            session = await bench.new_session()
            one = bench.prompt(session, "one")
            await bench.wire.wait_until(lambda: bool(bench.wire.heard("item/started", session)))
            two = bench.prompt(session, "two")
            server.play(Expect("turn/steer"), *agent_message("One."), *turn_completed(), *SECOND)

            assert await one.end() == await two.end() == "end_turn"
            await bench.wait_until(lambda: bench.answer(session) == "One.Two.")
            (steered,) = asked(bench, "turn/steer")
            begun: list[JsonValue] = [
                params["clientUserMessageId"] for params in asked(bench, "turn/start")
            ]
            assert begun[1] == steered["clientUserMessageId"] != begun[0]
            await bench.until_idle(session)
            bench.check()
        finally:
            await bench.stop()
