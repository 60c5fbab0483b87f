"""Approvals of MCP tool calls, on the real Codex (contract 2.6, 2.7 and 3)."""

from __future__ import annotations

import json
from functools import reduce

import pytest

from codex_acp.testing import McpTool, ScriptedMcpServer, Step, Text, mcp_call
from tests.e2e_contract.contract_bench import ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]
TOOLS = ("once", "for_session", "for_good", "never", "late", "same", "deep")


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    tools = [McpTool(name, "Writes.", read_only=False, destructive=True) for name in TOOLS]
    server = ScriptedMcpServer(factory.mktemp("mcp"), tools)
    parallel = {"mcp_servers": {"notes": {"supports_parallel_tool_calls": True}}}
    return ContractBench(SCENES, version, servers={"notes": server}, config=parallel)


def ran(bench: ContractBench, tool: str) -> list[object]:
    """The arguments of the calls of one tool that reached the server, in order."""
    calls = bench.servers["notes"].received("tools/call")
    params = [call["params"] for call in calls]
    return [p["arguments"] for p in params if isinstance(p, dict) and p["name"] == tool]


ONCE = SCENES.add(
    "once",
    [mcp_call("notes", "once", {"n": 1}, call_id="m1")],
    [mcp_call("notes", "once", {"n": 1}, call_id="m2")],
    DONE,
)
FOR_SESSION = SCENES.add(
    "for session",
    [mcp_call("notes", "for_session", {"n": 1}, call_id="m3")],
    [mcp_call("notes", "for_session", {"n": 2}, call_id="m4")],
    DONE,
)
OTHER_SESSION = SCENES.add(
    "other session", [mcp_call("notes", "for_session", {"n": 3}, call_id="m5")], DONE
)
FOR_GOOD = SCENES.add(
    "for good",
    [mcp_call("notes", "for_good", {"n": 1}, call_id="m6")],
    [mcp_call("notes", "for_good", {"n": 2}, call_id="m7")],
    DONE,
)
STILL_GOOD = SCENES.add("still good", [mcp_call("notes", "for_good", {"n": 3}, call_id="m8")], DONE)
NEVER = SCENES.add("never", [mcp_call("notes", "never", {"n": 1}, call_id="m9")], DONE)
LATE = SCENES.add("late", [mcp_call("notes", "late", {"n": 1}, call_id="m10")])
SAME = SCENES.add(
    "same",
    [
        mcp_call("notes", "same", {"n": 1}, call_id="m11"),
        mcp_call("notes", "same", {"n": 1}, call_id="m12"),
        mcp_call("notes", "same", {"n": 2}, call_id="m13"),
    ],
    DONE,
)
NUMBERS: list[object] = [1] * 10_000
DEEP: dict[str, object] = {"a": reduce(lambda inner, _: [inner], range(110), NUMBERS)}
NESTED = SCENES.add("deep", [mcp_call("notes", "deep", DEEP, call_id="m14")], DONE)


@pytest.mark.attack("model")
async def test_3_8_arguments_that_stand_deep_are_shown_whole_and_can_be_allowed(
    bench: ContractBench,
) -> None:
    """Indented, they would have two million characters."""
    session = await bench.new_session()
    prompt = bench.prompt(session, NESTED)
    asked = await bench.asks.next_permission()
    assert any(json.dumps(DEEP) in text for text in asked.texts)
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert ran(bench, "deep") == [DEEP]


async def test_2_7_an_approved_tool_call_runs_once_and_the_next_is_asked_again(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, ONCE)
    asked = await bench.asks.next_permission()
    assert asked.title == "notes: call once"
    assert ran(bench, "once") == []
    asked.choose("allow_once")
    (await bench.asks.next_permission()).choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert ran(bench, "once") == [{"n": 1}]
    assert bench.replies(session)[0] == {"action": "accept", "content": None, "_meta": None}
    assert bench.statuses(session, "m1")[-1] == "completed"
    assert bench.statuses(session, "m2")[-1] == "failed"
    assert set(bench.event_types(session)) == {"approval.requested", "approval.decided"}


async def test_2_6_a_tool_approved_for_the_session_is_asked_again_in_another_session_only(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FOR_SESSION)
    asked = await bench.asks.next_permission()
    asked.choose("allow_always", "every call of `notes/for_session`, any arguments")
    assert await prompt.end() == "end_turn"
    assert ran(bench, "for_session") == [{"n": 1}, {"n": 2}]
    assert len(bench.wire.asked(thread=session)) == 1
    assert bench.replies(session)[0]["_meta"] == {"persist": "session"}

    other = await bench.new_session()
    prompt = bench.prompt(other, OTHER_SESSION)
    (await bench.asks.next_permission()).choose("reject_once")
    assert await prompt.end() == "end_turn"
    assert len(ran(bench, "for_session")) == 2


async def test_2_6_a_tool_approved_for_good_is_not_asked_about_in_a_later_session(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FOR_GOOD)
    (await bench.asks.next_permission()).choose(
        "allow_always", "in every directory and later session"
    )
    assert await prompt.end() == "end_turn"
    assert bench.replies(session)[0]["_meta"] == {"persist": "always"}

    later = await bench.new_session()
    assert await bench.prompt(later, STILL_GOOD).end() == "end_turn"
    assert ran(bench, "for_good") == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert bench.wire.asked(thread=later) == []


async def test_3_4_a_rejected_tool_call_does_not_reach_the_server_and_the_turn_goes_on(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, NEVER)
    (await bench.asks.next_permission()).choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert ran(bench, "never") == []
    assert "rejected" in bench.outputs(NEVER)["m9"]
    assert bench.replies(session)[0]["action"] == "decline"
    assert bench.statuses(session, "m9") == ["in_progress", "pending", "failed"]


async def test_3_5_a_cancel_while_a_tool_call_is_asked_ends_the_prompt(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, LATE)
    await bench.asks.next_permission()
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert ran(bench, "late") == []
    assert bench.replies(session)[0]["action"] == "cancel"


async def test_2_7_parallel_calls_are_told_apart_and_equal_ones_are_interchangeable(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, SAME)
    asked = [await bench.asks.next_permission() for _ in range(3)]
    assert len({permission.call for permission in asked}) == 3
    for permission in reversed(asked):
        wanted = permission.raw_input["arguments"] == {"n": 2}
        permission.choose("allow_once" if wanted else "reject_once")

    assert await prompt.end() == "end_turn"
    assert ran(bench, "same") == [{"n": 2}]
