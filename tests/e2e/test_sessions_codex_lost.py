"""A Codex that is killed: sessions go on with the next one, and one that keeps ending is let be."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

from codex_acp.testing import Gate, ModelResponse, Step, Text, exec_command
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.session_bench import SessionBench, answer_to, tool_calls, until, updates_of


def kill_codex(adapter: RawAdapter) -> None:
    os.kill(adapter.codex(), signal.SIGKILL)


def kill_codex_and_let_it_be_noticed(adapter: RawAdapter) -> None:
    kill_codex(adapter)
    adapter.ask("session/list", {})  # fails, or starts the next one


def test_a_session_goes_on_after_codex_was_killed_between_its_turns() -> None:
    with SessionBench([[Text("One.")], [Text("Two.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        bench.run(adapter, session, "Begin.")
        kill_codex_and_let_it_be_noticed(adapter)
        assert bench.run(adapter, session, "Go on.") == "Two."
        assert "Begin." in str(bench.model.requests[-1].body["input"])
        assert len(bench.model.requests) == 2


def test_a_killed_codex_ends_the_prompt_and_its_calls_and_the_next_prompt_goes_on() -> None:
    script: list[list[Step]] = [
        [exec_command("sleep 60; true", yield_time_ms=30_000)],
        [Text("Still here.")],
    ]
    with SessionBench(script) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        prompt = adapter.start_prompt(session, "Run it.")
        until(adapter, lambda messages: tool_calls(updates_of(messages, session)))
        kill_codex(adapter)
        error = adapter.answer(prompt)["error"]
        assert error["code"] == -32603
        assert error["data"]["exitCode"] == -9
        assert error["data"]["reason"] == "agentLost"
        (call,) = tool_calls(updates_of(adapter.messages, session)).values()
        assert call["status"] == "failed"

        assert bench.run(adapter, session, "Are you there?") == "Still here."
        assert "Run it." in str(bench.model.requests[-1].body["input"])


def test_two_sessions_and_their_options_survive_the_same_loss() -> None:
    with (
        SessionBench([ModelResponse(Text("Yes."), repeat=True)]) as bench,
        bench.adapter() as adapter,
    ):
        sessions = [bench.new(adapter), bench.new(adapter)]
        for session in sessions:
            bench.run(adapter, session, "Begin.")
        wrong = {"sessionId": sessions[0], "configId": "model", "value": "?"}
        others = adapter.ask("session/set_config_option", wrong)["error"]["data"]["valid"]
        chosen = next(model for model in others if model != "gpt-5.5")
        assert "result" in adapter.ask("session/set_config_option", {**wrong, "value": chosen})
        kill_codex_and_let_it_be_noticed(adapter)
        prompts = [adapter.start_prompt(session, "Go on.") for session in sessions]
        for prompt in prompts:
            assert answer_to(adapter, prompt)["result"]["stopReason"] == "end_turn"
        assert {request.model for request in bench.model.requests[2:]} == {chosen, "gpt-5.5"}


def test_a_session_that_never_ran_a_turn_is_lost_with_its_codex() -> None:
    with SessionBench([[Text("Fresh.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        kill_codex_and_let_it_be_noticed(adapter)
        error = adapter.answer(adapter.start_prompt(session))["error"]
        assert error["code"] == -32002
        assert "first prompt" in error["message"]
        assert error["data"]["reason"] == "agentLost"
        assert bench.run(adapter, bench.new(adapter), "Hello.") == "Fresh."


def test_other_requests_start_codex_again_too() -> None:
    with SessionBench([[Text("One.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        bench.run(adapter, session, "Begin.")
        kill_codex_and_let_it_be_noticed(adapter)
        (listed,) = adapter.ask("session/list", {})["result"]["sessions"]
        assert listed["sessionId"] == session
        assert "result" in bench.ask(adapter, "session/load", session)


def test_a_prompt_can_be_cancelled_while_codex_starts_again(tmp_path: Path) -> None:
    slow = tmp_path / "codex"
    with SessionBench([[Text("One.")], [Gate("never")]]) as bench:
        real = bench.home.env.get("CODEX_PATH") or _binary()
        slow.write_text(f'#!/bin/sh\n[ -e {tmp_path}/hang ] && sleep 60\nexec {real} "$@"\n')
        slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
        with bench.adapter({"CODEX_PATH": str(slow)}) as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Begin.")
            (tmp_path / "hang").touch()
            kill_codex(adapter)
            adapter.start("session/list", {})  # fails, or waits for the next one
            adapter.leaves_open = {"session/list"}
            prompt = adapter.start_prompt(session)
            adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
            assert adapter.answer(prompt)["result"]["stopReason"] == "cancelled"


def test_a_codex_that_keeps_ending_is_not_started_for_ever(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    codex = tmp_path / "codex"
    codex.write_text(f'#!/bin/sh\necho "$1" >> {starts}\necho "no disk space" >&2\nexit 7\n')
    codex.chmod(codex.stat().st_mode | stat.S_IXUSR)
    with SessionBench() as bench, bench.adapter({"CODEX_PATH": str(codex)}) as adapter:
        params = {"cwd": str(bench.home.workspace), "mcpServers": []}
        errors = [adapter.ask("session/new", params)["error"] for _ in range(5)]
    messages = [error["message"] for error in errors]
    assert errors[4]["data"]["reason"] == "agentLost"
    assert all("status 7" in message and "no disk space" in message for message in messages)
    assert "3 times" not in messages[2]
    assert "3 times" in messages[3]
    assert " s at the earliest" in messages[4]
    assert starts.read_text().split().count("app-server") == 6, "each once more"


def _binary() -> str:
    from tests.testing.codex_driver import codex_binary

    return codex_binary()
