"""A session as a client of ACP v2 has it: the real adapter, the real Codex, a scripted model."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.testing import Fail, Gate, Step, Text, exec_command
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.session_bench import said_by, tool_calls, updates_of
from tests.e2e.v2_bench import V2Bench


def test_a_prompt_is_answered_when_it_has_its_place_and_ends_with_the_session_idle() -> None:
    with V2Bench([[Text("Hello")], [Text("Again")]]) as bench:
        assert bench.introduction["protocolVersion"] == 2
        assert {o["configId"] for o in bench.opened["configOptions"]} >= {"mode", "model"}
        message_id = bench.prompt("Hi")
        end = bench.idle()
        assert end["stopReason"] == "end_turn"
        assert bench.states() == ["running", "idle"]
        echo = bench.until("user_message", messageId=message_id)
        assert echo["content"] == [{"type": "text", "text": "Hi"}]
        assert bench.text() == "Hello"
        kinds = [u["sessionUpdate"] for u in bench.updates]
        assert kinds.index("user_message") < kinds.index("agent_message_chunk")
        commands = bench.opened.get("availableCommands")
        commands = commands or bench.until("available_commands_update")["availableCommands"]
        assert "review" in {each["name"] for each in commands}


def test_a_command_is_asked_for_as_a_command_and_shown_in_a_terminal() -> None:
    run = exec_command("echo out; echo made > made", justification="Why not?")
    with V2Bench([[run], [Text("Done.")]]) as bench:
        bench.prompt()
        request = bench.asked("session/request_permission")
        params = request["params"]
        assert params["subject"]["type"] == "command"
        assert "echo made" in params["subject"]["command"]
        assert params["subject"]["cwd"] == str(bench.home.workspace)
        assert "Why not?" in params["description"]
        assert bench.states()[-1] == "requires_action"
        call_id = params["subject"]["toolCallId"]
        assert bench.call(call_id)["status"] == "pending"
        bench.adapter.choose(request, "allow_once")
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.states() == ["running", "requires_action", "running", "idle"]
        call, terminal = bench.call(call_id), bench.terminal(call_id)
        assert call["status"] == "completed"
        assert call["content"] == [{"type": "terminal", "terminalId": call_id}]
        assert terminal["output"] == "out\n"
        assert terminal["exitStatus"] == {"exitCode": 0}
        assert terminal["cwd"] == str(bench.home.workspace)
        assert (bench.home.workspace / "made").exists()


@pytest.mark.attack("model")
def test_3_8_a_command_with_hidden_characters_is_asked_for_as_it_is_shown() -> None:
    with V2Bench([[exec_command("touch a # \u202etxt", justification="Why not?")]]) as bench:
        bench.prompt()
        request = bench.asked("session/request_permission")
        call = request["params"]["subject"]["toolCall"]
        del call["rawInput"]
        terminal = bench.terminal(call["toolCallId"])
        for shown in (request["params"]["title"], str(call), terminal["command"]):
            assert "⟦U+202E⟧" in shown
            assert "\u202e" not in shown
        bench.adapter.choose(request, "reject_once")
        assert bench.idle()


def prompt_and_cancel(bench: V2Bench) -> dict[str, Any]:
    """The answer to a prompt that comes in one read with its cancel."""
    prompt = {"sessionId": bench.session, "prompt": [{"type": "text", "text": "Never."}]}
    bench.adapter.send(
        {"id": "both", "method": "session/prompt", "params": prompt},
        {"method": "session/cancel", "params": {"sessionId": bench.session}},
    )
    return bench.adapter.answer("both")


def test_3_5_a_cancel_that_comes_with_its_prompt_is_not_lost() -> None:
    with V2Bench([[Text("Here.")]]) as bench:
        bench.prompt()
        assert bench.idle()["stopReason"] == "end_turn"
        assert prompt_and_cancel(bench)["error"]["code"] == -32800
        assert bench.states() == ["running", "idle"]
        assert len(bench.model.requests) == 1


def test_3_5_a_cancel_that_comes_with_the_first_prompt_ends_what_codex_has_begun() -> None:
    with V2Bench([[Gate("late"), Text("Here.")], [Text("Here.")]]) as bench:
        answer = prompt_and_cancel(bench)
        if "result" in answer:  # Codex had it before the cancel was read
            assert bench.idle()["stopReason"] == "cancelled"
        else:
            assert answer["error"]["code"] == -32800
        assert bench.states() in ([], ["running", "idle"])
        assert bench.text() == ""
        bench.model.open("late")
        bench.prompt()
        bench.until("state_update", stopReason="end_turn")
        assert bench.text() == "Here."


def test_a_second_prompt_is_taken_at_once_and_steered_into_the_running_turn() -> None:
    with V2Bench([[Text("One"), Gate("more"), Text(" two")], [Text("Three")]]) as bench:
        first = bench.prompt("first")
        bench.until("agent_message_chunk")
        second = bench.prompt("second")
        bench.model.open("more")
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.states() == ["running", "idle"]
        ids = [u["messageId"] for u in bench.updates if u["sessionUpdate"] == "user_message"]
        assert ids == [first, second]


def test_a_failed_turn_is_idle_with_the_error_that_says_why() -> None:
    with V2Bench([[Fail(400, "no such thing")]]) as bench:
        bench.prompt()
        end = bench.idle()
        assert end["stopReason"] == "error"
        assert end["error"]["code"] == -32603
        assert end["error"]["message"]


def test_a_resumed_session_replays_its_history_only_when_asked_to() -> None:
    with V2Bench([[exec_command("echo out")], [Text("Done.")]]) as bench:
        message_id = bench.prompt("Run it")
        bench.idle()
        bench.leave()
        session = bench.session
        cwd = str(bench.home.workspace)
        bench.begin()
        bare = {"sessionId": session, "cwd": cwd}
        opened = bench.ask("session/resume", bare)
        assert opened["configOptions"]
        of_turns = {"user_message", "agent_message_chunk", "tool_call_update"}
        assert not [u for u in bench.updates if u["sessionUpdate"] in of_turns]
        bench.ask("session/resume", {**bare, "replayFrom": {"type": "start"}})
        kinds = [u["sessionUpdate"] for u in bench.updates]
        assert "state_update" in kinds[kinds.index("user_message") :], "before the answer"
        assert bench.states()[-1] == "idle"
        assert bench.until("user_message")["messageId"] == message_id
        (call_id,) = bench.calls()
        assert bench.call(call_id)["status"] == "completed"
        assert bench.terminal(call_id)["output"] == "out\n"
        assert bench.text() == "Done."


def test_one_command_can_be_ended_without_its_turn() -> None:
    run = exec_command("echo begun; sleep 600", yield_time_ms=60_000)
    with V2Bench([[run], [Text("It was ended.")]]) as bench:
        bench.prompt()
        terminal = bench.until("terminal_update")
        assert terminal["capabilities"] == {"cancel": {}}
        where = {"sessionId": bench.session}
        terminal_id = terminal["terminalId"]
        begun = bench.until("tool_call_update", toolCallId=terminal_id)
        assert begun["capabilities"] == {"cancel": {}}
        running = {"state": "running", "background": []}
        assert bench.ask("session/status", where) == {"status": "open", "state": running}
        bench.ask("terminal/cancel", {**where, "terminalId": terminal_id})
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.text() == "It was ended."
        assert bench.call(terminal_id)["status"] == "cancelled"
        ended = bench.terminal(terminal_id)
        assert ended["exitStatus"] is not None
        assert ended["capabilities"] is None


def test_an_option_is_set_by_its_tagged_value_and_answered_with_all_of_them() -> None:
    with V2Bench() as bench:
        mode = next(o for o in bench.opened["configOptions"] if o["configId"] == "mode")
        other = next(c["value"] for c in mode["options"] if c["value"] != mode["currentValue"])
        params = {"sessionId": bench.session, "configId": "mode", "type": "id", "value": other}
        options = bench.ask("session/set_config_option", params)["configOptions"]
        assert next(o for o in options if o["configId"] == "mode")["currentValue"] == other
        listed = bench.ask("session/list", {})
        assert listed["sessions"] == [], "it has had no prompt"
        assert bench.ask("session/close", {"sessionId": bench.session}) == {}
        gone = bench.refused(
            "session/prompt",
            {"sessionId": bench.session, "prompt": [{"type": "text", "text": "x"}]},
        )
        assert gone["code"] == -32002


def test_a_command_that_is_left_in_the_background_is_told_of_and_can_be_ended() -> None:
    run = exec_command("echo begun; exec sleep 600", yield_time_ms=250)
    with V2Bench([[run], [Text("It runs on.")]], sandbox_mode="danger-full-access") as bench:
        bench.prompt()
        end = bench.idle()
        (call_id,) = bench.calls()
        assert end["stopReason"] == "end_turn"
        assert end["background"] == [{"type": "terminal", "terminalId": call_id}]
        assert bench.call(call_id)["status"] == "completed"
        assert "exitStatus" not in bench.terminal(call_id)
        status = bench.ask("session/status", {"sessionId": bench.session})
        assert status["state"] == {"state": "idle", "background": end["background"]}
        bench.ask("terminal/cancel", {"sessionId": bench.session, "terminalId": call_id})
        state = bench.adapter.wait_for(
            lambda m: m.get("params", {}).get("update", {}).get("background") == []
        )
        assert state["params"]["update"]["state"] == "idle"
        assert bench.terminal(call_id)["exitStatus"] is not None
        assert bench.terminal(call_id)["capabilities"] is None


def test_a_session_goes_on_in_the_other_version_and_back() -> None:
    said: list[list[Step]] = [[Text("One.")], [Text("Two.")], [Text("Three.")]]
    with V2Bench([[exec_command("echo out")], *said]) as bench:
        first = bench.prompt("first")
        bench.idle()
        bench.leave()
        where = {"sessionId": bench.session, "cwd": str(bench.home.workspace), "mcpServers": []}
        with RawAdapter(bench.home.env) as of_v1:
            of_v1.initialize()
            assert of_v1.ask("session/load", where)["result"]
            history = updates_of(of_v1.messages, bench.session)
            assert [said_by(who, history) for who in ("user", "agent")] == ["first", "One."]
            (call,) = tool_calls(history).values()
            assert call["status"] == "completed"
            assert "out" in str(call["content"])
            second = of_v1.start_prompt(bench.session, "second")
            assert of_v1.answer(second)["result"]["stopReason"] == "end_turn"
        bench.begin()
        del where["mcpServers"]
        bench.ask("session/resume", {**where, "replayFrom": {"type": "start"}})
        told = [u for u in bench.updates if u["sessionUpdate"] == "user_message"]
        assert [u["content"][0]["text"] for u in told] == ["first", "second"]
        assert told[0]["messageId"] == first
        assert bench.text() == "One.Two."
        (call_id,) = bench.calls()
        assert bench.terminal(call_id)["output"] == "out\n"
        bench.session = str(where["sessionId"])
        bench.prompt("third")
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.text() == "One.Two.Three."
        assert "second" in str(bench.model.requests[-1].body["input"])


def test_a_client_that_kept_a_session_has_each_answer_once_when_it_resumes_it() -> None:
    script: list[list[Step]] = [[Text("Let me see."), exec_command("echo seen")], [Text("Done.")]]
    with V2Bench(script) as bench:
        bench.prompt("Look.")
        bench.idle()
        live = bench.conversation()
        replay = {"sessionId": bench.session, "cwd": str(bench.home.workspace)}
        bench.ask("session/resume", {**replay, "replayFrom": {"type": "start"}})
        assert bench.conversation() == live
        shown = {text for _, text in live.values()}
        assert shown == {"Look.", "Let me see.", "seen\n", "Done."}
