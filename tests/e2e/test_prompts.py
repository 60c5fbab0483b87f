"""A prompt through the real adapter, the real Codex and a scripted model, and back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio

from codex_acp.acp.types import EnvVariable, StdioMcpServer
from codex_acp.testing import (
    AppServerScript,
    Expect,
    Gate,
    McpTool,
    ModelResponse,
    Notify,
    ScriptedCodex,
    ScriptedMcpServer,
    Text,
    When,
    agent_message,
    exec_command,
    mcp_call,
    turn_completed,
    turn_started,
    words,
)
from tests.e2e.adapter_bench import AdapterBench


async def test_a_message_is_streamed_while_the_models_response_goes_on() -> None:
    script = words(100)
    async with AdapterBench([[script, Gate("end")]]) as bench:
        session = await bench.new_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.prompt, session)
            await bench.wait_for_text(session, "".join(script.deltas))
            bench.model.open("end")

        assert bench.text(session) == "".join(script.deltas)


async def test_any_unicode_arrives_unchanged() -> None:
    deltas = (
        "naïve ",
        "\u200f\u05e9\u05dc\u05d5\u05dd ",
        "👩\u200d🚀 ",
        "e\u0301\u2028",
        '"\\\n\t\x7f',
        "\U0010ffff.",
    )
    async with AdapterBench([[Text(*deltas)]]) as bench:
        session = await bench.new_session()
        await bench.prompt(session, "Schöne Grüße, 世界 👋")

        assert bench.text(session) == "".join(deltas)
        assert bench.model.requests[-1].last_user_text == "Schöne Grüße, 世界 👋"


async def test_two_messages_of_one_turn_have_two_ids() -> None:
    async with AdapterBench(
        [[Text("First ", "message."), exec_command("true")], [Text("Second ", "message.")]]
    ) as bench:
        session = await bench.new_session()
        await bench.prompt(session)

        assert list(bench.messages(session).values()) == ["First message.", "Second message."]


async def test_4_2_every_chunk_is_sent_before_the_answer_to_the_prompt() -> None:
    async with AdapterBench([[words(200)], [words(200)]]) as bench:
        session = await bench.new_session()
        for _ in range(2):
            await bench.prompt(session)
        sent = bench.tap.sent_by("agent")
        answers = [i for i, m in enumerate(sent) if "stopReason" in m.get("result", {})]
        updates = [i for i, m in enumerate(sent) if m.get("method") == "session/update"]

        assert len(answers) == 2
        assert max(updates) < answers[1]
        assert any(answers[0] < i for i in updates)


async def test_two_sessions_run_at_once_and_hear_only_their_own() -> None:
    script = [
        ModelResponse(Text("A begins. "), Gate("a"), Text("A ends."), when=When(user_text="for A")),
        ModelResponse(Text("B begins. "), Gate("b"), Text("B ends."), when=When(user_text="for B")),
    ]
    async with AdapterBench(script) as bench:
        a, b = await bench.new_session(), await bench.new_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.prompt, a, "for A")
            tasks.start_soon(bench.prompt, b, "for B")
            await bench.wait_for_text(a, "A begins. ")
            await bench.wait_for_text(b, "B begins. ")
            bench.model.open("b")
            await bench.wait_for_text(b, "B ends.")
            assert bench.text(a) == "A begins. "
            bench.model.open("a")

        assert a != b
        assert bench.text(a) == "A begins. A ends."
        assert bench.text(b) == "B begins. B ends."


async def test_an_approval_that_the_client_cannot_give_is_refused_and_the_turn_goes_on() -> None:
    ask = exec_command("touch made", justification="May I?", call_id="ask")
    async with AdapterBench([[ask], [Text("Then not.")]]) as bench:
        session = await bench.new_session()
        response = await bench.prompt(session)

        assert response.stop_reason == "end_turn"
        assert bench.text(session).endswith("Then not.")
        assert not (bench.home.workspace / "made").exists()
        assert "rejected" in str(bench.model.requests[-1].tool_outputs["ask"])


async def test_an_mcp_server_that_the_client_gives_is_really_used(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, [McpTool("read_note", read_only=True, text="the note")])
    command, *arguments = server.argv
    given = StdioMcpServer(
        name="notes",
        command=command,
        args=arguments,
        env=[EnvVariable(name="PYTHONPATH", value=os.pathsep.join(sys.path))],
    )
    # A turn does not wait for the server, and a call before it is ready finds no tool: again.
    script = [
        ModelResponse(Text("I have read it."), when=lambda r: "the note" in str(r.tool_outputs)),
        ModelResponse(mcp_call("notes", "read_note", {"name": "n1"}), repeat=True),
    ]
    async with AdapterBench(script) as bench:
        session = await bench.new_session([given])
        response = await bench.prompt(session)

        assert response.stop_reason == "end_turn"
        assert bench.text(session) == "I have read it."
    call = server.received("tools/call")[-1]
    assert '"arguments": {"name": "n1"}' in json.dumps(call)


async def test_text_that_comes_only_with_the_completed_item_is_shown_once(tmp_path: Path) -> None:
    parts = agent_message("All at once.")
    without_deltas = [
        part for part in parts if not isinstance(part, Notify) or "delta" not in part.notify
    ]
    script = [Expect("turn/start"), *turn_started(), *without_deltas, *turn_completed()]
    codex = ScriptedCodex(tmp_path, AppServerScript(*script, defaults=True))
    async with AdapterBench(env={"CODEX_PATH": str(codex.path)}) as bench:
        session = await bench.new_session()
        await bench.prompt(session)

        chunks = [n for n in bench.updates if n.update.session_update == "agent_message_chunk"]
        assert bench.text(session) == "All at once."
        assert len(chunks) == 1
