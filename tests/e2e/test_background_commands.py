"""Commands that outlive their turn with the real Codex: how they read, and how one is ended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codex_acp.testing import Gate, Text, ToolCall, exec_command, write_stdin
from tests.e2e.either_version import EitherVersion
from tests.e2e.session_bench import tool_calls, updates_of
from tests.e2e.sub_agents_bench import SubAgentBench
from tests.e2e_contract.contract_bench import Scenes

INVALID_PARAMS = -32602

EVERY_VERSION = pytest.mark.parametrize("version", [1, 2])


def left_running(version: int, *commands: str) -> EitherVersion:
    runs = [[exec_command(command, yield_time_ms=250)] for command in commands]
    script: list[list[Any]] = [*runs, [Text("They run on.")]]
    return EitherVersion(version, script, sandbox_mode="danger-full-access")


def processes(listed: str) -> dict[str, str]:
    """Process → command, from what ``/ps`` says."""
    return {m[1]: m[2] for m in re.finditer(r"process (\d+)\*\*: (.*) in ", listed)}


@EVERY_VERSION
def test_one_of_two_is_ended_and_the_other_runs_on(version: int) -> None:
    with left_running(version, "sleep 601", "sleep 602") as it:
        session = it.new()
        assert it.prompt(session, "/ps") == "Nothing runs in the background."
        assert it.prompt(session, "/stop") == "Nothing runs in the background."
        it.prompt(session, "Begin both.")
        running = processes(it.prompt(session, "/ps"))
        assert len(running) == 2
        (first,) = [process for process, command in running.items() if "601" in command]
        for wrong in ("1", "sleep 601", f"{first} {first}", "--all"):
            error = it.refused(session, f"/stop {wrong}")
            assert error["code"] == INVALID_PARAMS
            assert "/ps" in error["message"]
        assert it.prompt(session, f"/stop {first}") == "1 background command ended."
        assert first not in processes(it.prompt(session, "/ps"))
        assert it.prompt(session, "/stop") == "1 background command ended."
        assert it.prompt(session, "/ps") == "Nothing runs in the background."
        if version == 2:
            it.until(session, "state_update", background=[])
        assert len(it.model.requests) == 3


def test_a_client_of_v1_reads_that_it_runs_on_and_hears_when_it_has_ended() -> None:
    with left_running(1, "echo begun; sleep 603; exit 0") as it:
        session = it.new()
        it.prompt(session, "Begin.")
        (call,) = tool_calls(updates_of(it.adapter.messages, session)).values()
        assert call["status"] == "completed", "it was not cut off"
        shown = str(call["content"])
        assert "Runs on in the background." in shown
        (process,) = processes(it.prompt(session, "/ps"))
        assert f"`/stop {process}`" in shown
        before = len(it.adapter.messages)
        it.prompt(session, f"/stop {process}")
        ended = "A command in the background has ended"
        while ended not in str(it.adapter.messages[before:]):
            it.adapter.wait_for(lambda m: m.get("method") == "session/update")
        assert "sleep 603" in str(it.adapter.messages[before:])
        later = tool_calls(updates_of(it.adapter.messages[before:], session))
        assert later == {}, "its prompt was answered"


def test_an_interrupted_command_is_no_background_work() -> None:
    with left_running(1, "sleep 604") as it:
        session = it.new()
        prompt = it.adapter.start_prompt(session)
        it.until(session, "tool_call", status="in_progress")
        it.adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert it.adapter.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert it.prompt(session, "/ps") == "Nothing runs in the background."
        assert "Runs on in the background" not in str(it.adapter.messages)


@EVERY_VERSION
def test_what_runs_on_is_told_again_when_its_session_is_opened_anew(version: int) -> None:
    with left_running(version, "sleep 605") as it:
        session = it.new()
        it.prompt(session, "Begin.")
        where = {"sessionId": session, "cwd": str(it.home.workspace), "mcpServers": []}
        method = "session/load" if version == 1 else "session/resume"
        before = len(it.adapter.messages)
        assert "result" in it.adapter.ask(method, where)
        again = updates_of(it.adapter.messages[before:], session)
        if version == 1:
            (call,) = tool_calls(again).values()
            assert call["status"] == "completed"
            assert "Runs on in the background." in str(call["content"])
            return
        kinds = [update["sessionUpdate"] for update in again]
        (terminal,) = (u for u in again if u["sessionUpdate"] == "terminal_update")
        state = again[kinds.index("state_update")]
        assert kinds.index("terminal_update") < kinds.index("state_update")
        assert state["background"] == [{"type": "terminal", "terminalId": terminal["terminalId"]}]
        stop = {"sessionId": session, "terminalId": terminal["terminalId"]}
        assert it.adapter.ask("terminal/cancel", stop)["result"] == {}
        it.until(session, "state_update", background=[])
        assert it.prompt(session, "/ps") == "Nothing runs in the background."


def terminal(name: str) -> ToolCall:
    """Start a command outside of the sandbox that repeats its input."""
    return exec_command(
        f"echo {name}; cat", justification="May I?", tty=True, yield_time_ms=250, call_id=name
    )


INPUTS = Scenes()
IN_PRODUCTION = INPUTS.add(
    "writes to one of two",
    [terminal("STAGING")],
    [terminal("PRODUCTION")],
    [Gate("started"), exec_command("true", call_id="n")],
    [write_stdin(424242, "drop table users;\n", yield_time_ms=250, call_id="w")],
    [Text("Done.")],
)
LATER = INPUTS.add(
    "writes once more",
    [write_stdin(424242, "commit;\n", yield_time_ms=250, call_id="w2")],
    [Text("Done.")],
)


@pytest.mark.attack("model")
@EVERY_VERSION
def test_3_8_an_input_names_the_command_that_gets_it_and_its_card_ends_well(version: int) -> None:
    with SubAgentBench(INPUTS, version) as bench:

        def allow() -> dict[str, Any]:
            asked = bench.adapter.wait_for(
                lambda m: m.get("method") == "session/request_permission"
            )
            bench.adapter.choose(asked, "allow_once")
            call = asked["params"].get("toolCall") or asked["params"]["subject"].get("toolCall")
            return dict(call or {})

        bench.begin(IN_PRODUCTION)
        allow()
        allow()
        bench.model.wait_for_gate("started")
        (output,) = (r.tool_outputs["PRODUCTION"] for r in bench.model.requests[-1:])
        found = re.search(r"session ID (\d+)", output)
        assert found is not None
        bench.model.put("424242", found[1])
        bench.model.open("started")
        call = allow()
        assert bench.end() == "end_turn"

        assert "PRODUCTION" in call["title"]
        assert "PRODUCTION" in call["rawInput"]["runningCommand"]
        assert "drop table users;" in call["title"]
        told = [u for u in bench.updates() if u.get("toolCallId") == call["toolCallId"]]
        assert [u["status"] for u in told] == ["pending", "in_progress", "completed"]
        bench.begin(LATER)
        assert "PRODUCTION" in allow()["title"], "it runs since the turn before"
        assert bench.end() == "end_turn"
