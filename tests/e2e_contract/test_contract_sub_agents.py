"""Approvals of sub-agents, on the real Codex (contract 3.9)."""

from __future__ import annotations

import pytest

from codex_acp.testing import (
    Gate,
    McpTool,
    ScriptedMcpServer,
    Step,
    Text,
    ToolCall,
    exec_command,
    form_elicitation,
    mcp_call,
)
from tests.e2e_contract.contract_bench import FEATURES, ContractBench, Scenes

SCENES = Scenes()
DONE: list[Step] = [Text("Done.")]


def make_bench(factory: pytest.TempPathFactory, version: int) -> ContractBench:
    features = {**FEATURES, "multi_agent": True, "multi_agent_v2": True}
    form = form_elicitation("Which color?", {"color": {"type": "string"}})
    tools = [McpTool("paint", read_only=True, elicitations=[form])]
    server = ScriptedMcpServer(factory.mktemp("mcp"), tools, name="paints")
    return ContractBench(SCENES, version, config={"features": features}, servers={"paints": server})


def spawn(task: str, call: str) -> ToolCall:
    """Start a sub-agent that does not see its parent's history."""
    arguments = {"task_name": f"helper_{call}", "message": task, "fork_turns": "none"}
    return ToolCall("spawn_agent", arguments, namespace="collaboration", call_id=call)


def wait(call: str) -> ToolCall:
    """Wait for news of a sub-agent."""
    return ToolCall("wait_agent", {"timeout_ms": 30_000}, "collaboration", call_id=call)


def escalated(cmd: str, call: str) -> ToolCall:
    """A command that asks to leave the sandbox."""
    return exec_command(cmd, justification="May I write here?", call_id=call)


TASK_YES = SCENES.add("task yes", [escalated("touch child-yes", "k1")], DONE)
YES = SCENES.add("yes", [spawn(TASK_YES, "s1")], [wait("w1")], DONE)
TASK_NO = SCENES.add("task no", [escalated("touch child-no", "k2")], DONE)
NO = SCENES.add("no", [spawn(TASK_NO, "s2")], [wait("w2")], DONE)
TASK_CANCELLED = SCENES.add("task cancelled", [escalated("touch child-late", "k3")])
CANCELLED = SCENES.add("cancelled", [spawn(TASK_CANCELLED, "s3")], [wait("w3")])


TASK_LONG = SCENES.add("task long", [Text("Working"), Gate("long"), Text(".")])
LONG = SCENES.add("long", [spawn(TASK_LONG, "s5")], [wait("w5")])

TASK_FORM = SCENES.add("task form", [mcp_call("paints", "paint", {}, call_id="k4")], DONE)
FORM = SCENES.add("form", [spawn(TASK_FORM, "s4")], [wait("w4")], DONE)


async def test_3_9_a_form_for_a_sub_agent_names_the_child(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, FORM)
    asked = await bench.asks.next_elicitation()
    child = bench.wire.asked()[-1]["params"]["threadId"]
    assert child != session
    assert asked.session == session
    first, *words = asked.message.split("\n")
    assert first == f"Asked by the sub-agent {child}."
    assert words[:3] == ['The MCP server "paints" says:', "```", "> Which color?"]
    asked.accept({"color": "red"})

    assert await prompt.end() == "end_turn"


@pytest.mark.attack("model")
async def test_3_9_a_sub_agents_approval_is_asked_in_its_root_session_with_the_child_named(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, YES)
    asked = await bench.asks.next_permission()
    assert asked.session == session
    (request,) = bench.wire.asked()[-1:]
    assert request["params"]["threadId"] != session
    assert "sub-agent" in asked.title
    asked.choose("allow_once")

    assert await prompt.end() == "end_turn"
    assert bench.path("child-yes").exists()
    assert bench.statuses(session, asked.call)[-1] == "completed"


async def test_3_9_a_rejected_sub_agent_goes_on_and_so_does_its_root(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, NO)
    asked = await bench.asks.next_permission()
    asked.choose("reject_once")

    assert await prompt.end() == "end_turn"
    assert not bench.path("child-no").exists()
    assert "rejected by user" in bench.outputs(TASK_NO)["k2"]


async def test_3_5_a_cancel_settles_and_interrupts_what_the_sub_agent_asks(
    bench: ContractBench,
) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, CANCELLED)
    asked = await bench.asks.next_permission()
    child = bench.wire.asked()[-1]["params"]["threadId"]
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    assert bench.replies(child) == [{"decision": "cancel"}]
    assert bench.statuses(session, asked.call)[-1] == "failed"
    ended = "turn/completed"
    await bench.wire.wait_until(lambda: bool(bench.wire.heard(ended, child)))
    (end,) = bench.wire.heard(ended, child)
    assert end["turn"]["status"] == "interrupted"


@pytest.mark.attack("model")
async def test_3_5_a_cancel_interrupts_a_sub_agent_that_asks_nothing(bench: ContractBench) -> None:
    session = await bench.new_session()
    prompt = bench.prompt(session, LONG)
    said = "item/agentMessage/delta"
    await bench.wire.wait_until(lambda: bool(_children(bench, said, session)))
    (child,) = _children(bench, said, session)
    bench.cancel(session)

    assert await prompt.end() == "cancelled"
    await bench.wire.wait_until(lambda: bool(bench.wire.heard("turn/completed", child)))
    (end,) = bench.wire.heard("turn/completed", child)
    assert end["turn"]["status"] == "interrupted"


def _children(bench: ContractBench, method: str, session: str) -> set[str]:
    """The threads below a session of which Codex has said something."""
    began = bench.wire.heard("item/completed", session)
    children = {params["item"].get("agentThreadId") for params in began} - {None}
    return {child for child in children if bench.wire.heard(method, child)}
