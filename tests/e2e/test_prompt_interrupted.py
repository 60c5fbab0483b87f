"""What a cancel leaves behind: nothing, with the real adapter and the real Codex."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
import pytest

from codex_acp.acp.types import ToolCallSessionUpdate, ToolCallUpdateSessionUpdate
from codex_acp.testing import (
    AppServerScript,
    Expect,
    Gate,
    Notify,
    ScriptedCodex,
    Step,
    Text,
    agent_message,
    exec_command,
    turn_started,
)
from codex_acp.testing.app_server_script import turn_object
from tests.e2e.adapter_bench import WAIT, AdapterBench
from tests.e2e.either_version import EitherVersion
from tests.support.processes import lives


async def ended(*pids: int) -> None:
    """Wait until none lives: what is killed on a busy machine dies when it is next to run."""
    with anyio.fail_after(WAIT):
        while any(map(lives, pids)):  # noqa: ASYNC110 - of processes, which tell nobody
            await anyio.sleep(0.01)


async def test_a_cancelled_command_is_ended_with_all_that_it_started() -> None:
    command = "echo $$ > shell; (sleep 300 & echo $! > child; echo it runs; echo up > up; wait)"
    script: list[list[Step]] = [[exec_command(command, yield_time_ms=60_000)], [Text("Next.")]]
    async with AdapterBench(script, sandbox_mode="danger-full-access") as bench:
        os.mkfifo(bench.home.workspace / "up")
        session = await bench.new_session()
        reasons: list[str] = []

        async def prompt() -> None:
            reasons.append((await bench.prompt(session)).stop_reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt)
            await bench.wait_for_file(bench.home.workspace / "up")
            await bench.wait_for_update(lambda n: isinstance(n.update, ToolCallSessionUpdate))
            shell, child = (
                int((bench.home.workspace / name).read_text()) for name in ("shell", "child")
            )
            assert lives(shell)
            assert lives(child)
            bench.cancel(session)

        assert reasons == ["cancelled"]
        await ended(shell, child)
        last = [n.update for n in bench.updates if n.update.session_update == "tool_call_update"][
            -1
        ]
        assert isinstance(last, ToolCallUpdateSessionUpdate)
        assert last.status == "failed"
        assert "it runs" in str(last.content), "what it wrote until then"
        assert (await bench.prompt(session, "next")).stop_reason == "end_turn"


async def test_a_command_of_an_earlier_turn_lives_on_when_a_later_one_is_cancelled() -> None:
    serve = exec_command("echo $$ > server; echo serving; sleep 300", yield_time_ms=250)
    script: list[list[Step]] = [[serve], [Text("It serves.")], [Text("Begin. "), Gate("never")]]
    async with AdapterBench(script, sandbox_mode="danger-full-access") as bench:
        session = await bench.new_session()
        assert (await bench.prompt(session)).stop_reason == "end_turn"
        server = int((bench.home.workspace / "server").read_text())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.prompt, session, "second")
            await bench.wait_for_text(session, "Begin. ")
            bench.cancel(session)

        assert lives(server)


async def test_4_3_a_lost_end_of_a_turn_does_not_hold_its_prompt(tmp_path: Path) -> None:
    idle = {"threadId": "${turn:threadId}", "status": {"type": "idle"}}
    known = {"data": [turn_object("turn-1", "completed")], "nextCursor": None}
    script = AppServerScript(
        Expect("turn/start"),
        *turn_started(),
        *agent_message("All said."),
        Notify("thread/status/changed", idle),
        Expect("thread/turns/list", result=known),
        defaults=True,
    )
    codex = ScriptedCodex(tmp_path, script)
    async with AdapterBench(env={"CODEX_PATH": str(codex.path)}) as bench:
        session = await bench.new_session()

        assert (await bench.prompt(session)).stop_reason == "end_turn"
        assert bench.text(session) == "All said."


@pytest.mark.parametrize("version", [1, 2])
def test_4_1_an_automatic_review_that_a_cancel_aborts_is_announced_once(version: int) -> None:
    ask = exec_command("touch made", justification="May I?")
    script: list[list[Step]] = [[ask], [Gate("never"), Text("{}")]]
    config = {"approvals_reviewer": "auto_review"}
    with EitherVersion(version, script, config=config) as it:
        session = it.new()
        prompt = it.adapter.start_prompt(session)
        kind = "tool_call" if version == 1 else "tool_call_update"
        begun = it.adapter.wait_for(lambda m: '"kind": "think"' in json.dumps(m))
        review = begun["params"]["update"]["toolCallId"]
        it.adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
        if version == 1:
            assert it.adapter.answer(prompt)["result"]["stopReason"] == "cancelled"
        else:
            it.adapter.until("state_update", session, state="idle")
        told = [u for u in it.adapter.updates(None, session) if u.get("toolCallId") == review]
        assert [u["status"] for u in told[:2]] == ["in_progress", "failed"]
        assert [u["sessionUpdate"] for u in told] == [kind, *["tool_call_update"] * len(told[1:])]
        assert not any("title" in u for u in told[1:])
