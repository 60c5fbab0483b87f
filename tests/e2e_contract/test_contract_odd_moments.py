"""Requests at odd moments, on the real Codex: between turns, twice, from a script in code mode."""

from __future__ import annotations

from pathlib import Path

from codex_acp.codex.types import ThreadResumeParams
from codex_acp.testing import (
    CustomToolCall,
    McpScript,
    McpTool,
    ScriptedMcpServer,
    Step,
    Text,
    exec_command,
    form_elicitation,
)
from tests.e2e_contract.contract_bench import ContractBench, Scenes

DONE: list[Step] = [Text("Done.")]
LATER = form_elicitation("Still there?", {"mood": {"type": "string"}}, required=["mood"])


async def test_2_2_a_form_between_two_turns_is_asked_and_its_answer_arrives(
    tmp_path: Path, version: int
) -> None:
    scenes = Scenes()
    quiet = scenes.add("quiet", DONE)
    server = ScriptedMcpServer(tmp_path, McpScript(triggers={"later": LATER}))
    bench = ContractBench(scenes, version, servers={"mood": server})
    await bench.start()
    try:
        session = await bench.new_session()
        assert await bench.prompt(session, quiet).end() == "end_turn"
        server.trigger("later")
        asked = await bench.asks.next_elicitation()
        assert asked.session == session
        asked.accept({"mood": "fine"})
        (answer,) = await bench.mcp_answers("mood", 1)

        assert answer == {"action": "accept", "content": {"mood": "fine"}}
        assert bench.asked(session)[0]["params"]["turnId"] is None
        bench.check()
    finally:
        await bench.stop()


async def test_3_7_a_request_that_codex_sends_again_after_a_resume_is_asked_once(
    tmp_path: Path, version: int
) -> None:
    del tmp_path
    scenes = Scenes()
    scene = scenes.add(
        "resumed", [exec_command("touch resumed", justification="May I?", call_id="c1")], DONE
    )
    bench = ContractBench(scenes, version)
    await bench.start()
    try:
        session = await bench.new_session()
        prompt = bench.prompt(session, scene)
        asked = await bench.asks.next_permission()
        codex = await bench.app_server.connection()
        await codex.thread_resume(ThreadResumeParams(thread_id=session))
        await bench.wire.wait_until(lambda: len(bench.asked(session)) == 2)
        first, again = bench.asked(session)
        assert first["id"] == again["id"]
        asked.choose("allow_once")

        assert await prompt.end() == "end_turn"
        assert bench.path("resumed").exists()
        assert len(bench.wire.replies(first)) == 1
        bench.check()
    finally:
        await bench.stop()


CODE_MODE = "gpt-6-astra"
"""A model to which Codex offers JavaScript instead of function tools."""

SCRIPT = """
const command = await tools.exec_command({
  cmd: "touch by-script", sandbox_permissions: "require_escalated", justification: "May I?",
});
const note = await tools.mcp__notes__write({n: 1});
text(JSON.stringify([command, note]));
"""


async def test_3_8_a_code_mode_models_command_and_tool_call_are_asked_about_one_by_one(
    tmp_path: Path, version: int
) -> None:
    scenes = Scenes()
    scene = scenes.add("code mode", [CustomToolCall("exec", SCRIPT, call_id="x1")], DONE)
    server = ScriptedMcpServer(tmp_path, [McpTool("write", read_only=False, destructive=True)])
    bench = ContractBench(scenes, version, model_name=CODE_MODE, servers={"notes": server})
    await bench.start()
    try:
        session = await bench.new_session()
        prompt = bench.prompt(session, scene)
        command = await bench.asks.next_permission()
        assert "touch by-script" in command.title
        command.choose("allow_once")
        tool = await bench.asks.next_permission()
        assert tool.title == "notes: call write"
        tool.choose("reject_once")

        assert await prompt.end() == "end_turn"
        assert bench.path("by-script").exists()
        assert server.received("tools/call") == []
        assert bench.statuses(session, command.call)[-1] == "completed"
        assert bench.statuses(session, tool.call)[-1] == "failed"
        bench.check()
    finally:
        await bench.stop()
