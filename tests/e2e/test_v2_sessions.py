"""A session as a client of ACP v2 has it: the real adapter, the real Codex, a scripted model."""

from __future__ import annotations

import pytest

from codex_acp.testing import CodexHome, Fail, Gate, Text, add_file, exec_command
from tests.e2e.raw_adapter import RawAdapter
from tests.e2e.v2_bench import INFO, Json, V2Bench

pytestmark = pytest.mark.e2e


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
        bench.choose(request, "allow_once")
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
        bench.choose(request, "reject_once")
        assert bench.idle()


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "allow_everything"},
        {"outcome": "selected", "optionId": "made-up"},
        {"outcome": "_ours", "optionId": "allow"},
    ],
)
def test_3_3_an_outcome_that_is_not_known_is_no_consent(outcome: dict[str, str]) -> None:
    run = exec_command("echo made > made", justification="Why not?")
    with V2Bench([[run], [Text("Well.")]]) as bench:
        bench.prompt()
        request = bench.asked("session/request_permission")
        bench.answer(request, {"outcome": outcome})
        assert bench.idle()["stopReason"] == "end_turn"
        assert not (bench.home.workspace / "made").exists()
        assert bench.call(bench.calls()[0])["status"] == "failed"
        assert bench.text() == "Well."


def test_saying_no_declines_the_one_edit_and_the_turn_goes_on() -> None:
    patch = add_file("new.txt", "one\n")
    with V2Bench([[patch], [Text("Then not.")]]) as bench:
        bench.prompt()
        request = bench.asked("session/request_permission")
        subject = request["params"]["subject"]
        assert subject["type"] == "tool_call"
        call_id = subject["toolCall"]["toolCallId"]
        (diff,) = bench.call(call_id)["content"]
        path = str(bench.home.workspace / "new.txt")
        assert diff["changes"] == [{"operation": "add", "path": path}]
        assert diff["patch"]["format"] == "git_patch"
        assert "+one\n" in diff["patch"]["text"]
        bench.choose(request, "reject_once")
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.call(call_id)["status"] == "failed"
        assert bench.text() == "Then not."


def test_3_5_a_cancel_ends_what_runs_and_says_so() -> None:
    run = exec_command("echo made > made", justification="Why not?")
    with V2Bench([[run]]) as bench:
        bench.prompt()
        bench.asked("session/request_permission")
        bench.adapter.send({"method": "session/cancel", "params": {"sessionId": bench.session}})
        assert bench.idle()["stopReason"] == "cancelled"
        assert bench.until("tool_call_update", status="cancelled")


def test_3_5_a_cancel_that_comes_with_its_prompt_is_not_lost() -> None:
    with V2Bench([[Text("Here.")]]) as bench:
        prompt = {"sessionId": bench.session, "prompt": [{"type": "text", "text": "Never."}]}
        bench.adapter.send(
            {"id": "both", "method": "session/prompt", "params": prompt},
            {"method": "session/cancel", "params": {"sessionId": bench.session}},
        )
        assert bench.adapter.answer("both")["error"]["code"] == -32800
        bench.prompt()
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.text() == "Here."


def test_a_second_prompt_is_taken_at_once_and_steered_into_the_running_turn() -> None:
    with V2Bench([[Text("One"), Gate("more"), Text(" two")], [Text("Three")]]) as bench:
        first = bench.prompt("first")
        bench.until("agent_message_chunk")
        second = bench.prompt("second")
        assert bench.states() == ["running"]
        bench.model.open("more")
        assert bench.idle()["stopReason"] == "end_turn"
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
        bench.adapter.end_input()
        bench.adapter.wait()
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
        error = bench.refused("session/resume", {**bare, "replayFrom": {"type": "_middle"}})
        assert error["code"] == -32602


def test_one_command_can_be_ended_without_its_turn() -> None:
    run = exec_command("echo begun; sleep 600", yield_time_ms=60_000)
    with V2Bench([[run], [Text("It was ended.")]]) as bench:
        bench.prompt()
        terminal = bench.until("terminal_update")
        assert terminal["capabilities"] == {"cancel": {}}
        where = {"sessionId": bench.session}
        unknown = bench.refused("terminal/cancel", {**where, "terminalId": "made-up"})
        assert unknown["code"] == -32602
        terminal_id = terminal["terminalId"]
        assert bench.call(terminal_id)["capabilities"] == {"cancel": {}}
        bench.ask("terminal/cancel", {**where, "terminalId": terminal_id})
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.text() == "It was ended."
        ended = bench.terminal(terminal_id)
        assert ended["exitStatus"] is not None
        assert ended["capabilities"] is None
        again = bench.refused("tool_call/cancel", {**where, "toolCallId": terminal_id})
        assert again["code"] == -32602


@pytest.mark.parametrize(
    ("protocol", "asked", "answered"),
    [("auto", 2, 2), ("auto", 99, 2), ("auto", 1, 1), ("v1", 2, 1), ("v2", 2, 2), ("v2", 3, 2)],
)
def test_the_highest_version_that_both_have_is_spoken(
    protocol: str, asked: int, answered: int
) -> None:
    with CodexHome() as home, RawAdapter(home.env, "--protocol", protocol) as adapter:
        params = {"protocolVersion": asked, "info": INFO, "clientInfo": INFO}
        assert adapter.ask("initialize", params)["result"]["protocolVersion"] == answered


@pytest.mark.parametrize(
    ("protocol", "version", "code"),
    [
        ("v2", 1, -32022),
        ("v2", 0, -32022),
        ("auto", 0, -32022),
        ("auto", "2", -32602),
        ("auto", None, -32602),
    ],
)
def test_a_version_that_is_none_of_ours_or_none_at_all_is_refused(
    protocol: str, version: object, code: int
) -> None:
    with CodexHome() as home, RawAdapter(home.env, "--protocol", protocol) as adapter:
        params = {"protocolVersion": version, "info": INFO}
        error = adapter.ask("initialize", params)["error"]
        assert error["code"] == code
        if code == -32022:
            assert error["data"]["requested"] == version


def test_what_v2_does_not_have_or_know_is_refused_and_the_session_goes_on() -> None:
    with V2Bench([[Text("Still here.")]]) as bench:
        where = {"sessionId": bench.session}
        of_v1: dict[str, Json] = {
            "session/load": {**where, "cwd": "/", "mcpServers": []},
            "session/set_mode": {**where, "modeId": "x"},
            "authenticate": {"methodId": "api-key"},
            "logout": {},
        }
        for method, params in of_v1.items():
            assert bench.refused(method, params)["code"] == -32601, method
        strange = {"type": "_hologram", "beam": 1}
        unknown: dict[str, Json] = {
            "session/prompt": {**where, "prompt": [strange]},
            "session/new": {"cwd": "/", "mcpServers": [{"type": "sse", "name": "x", "url": "u"}]},
            "session/set_config_option": {**where, "configId": "mode", "type": "id", "value": 3},
            "tool_call/cancel": {**where, "toolCallId": "made-up"},
        }
        for method, params in unknown.items():
            assert bench.refused(method, params)["code"] == -32602, method
        for wrong in ({"type": "boolean", "value": True}, {"type": "_x", "value": "y"}):
            params = {**where, "configId": "mode", **wrong}
            assert bench.refused("session/set_config_option", params)["code"] == -32602
        foreign = bench.refused("terminal/cancel", {"sessionId": "nobody", "terminalId": "t"})
        assert foreign["code"] == -32002
        assert foreign["data"]["sessionId"] == "nobody"
        assert bench.refused("initialize", {"protocolVersion": 1})["code"] == -32600
        bench.prompt()
        assert bench.idle()["stopReason"] == "end_turn"
        assert bench.text() == "Still here."


def test_methods_of_v2_are_unknown_on_a_connection_that_speaks_v1() -> None:
    with CodexHome() as home, RawAdapter(home.env) as adapter:
        adapter.initialize()
        session = adapter.new_session(home.workspace)
        for method in ("terminal/cancel", "tool_call/cancel", "auth/login", "auth/logout"):
            answer = adapter.ask(method, {"sessionId": session})
            assert answer["error"]["code"] == -32601, method


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


def test_a_cancel_in_one_read_with_its_prompt_is_for_that_prompt() -> None:
    with V2Bench([[Text("Never said.")]]) as bench:
        where = {"sessionId": bench.session}
        prompt = {**where, "prompt": [{"type": "text", "text": "Go."}]}
        bench.adapter.send(
            {"id": "p", "method": "session/prompt", "params": prompt},
            {"method": "session/cancel", "params": where},
        )
        assert bench.adapter.answer("p")["error"]["code"] == -32800
        assert bench.ask("session/close", where) == {}
        assert bench.states() == []
        assert not bench.model.requests


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
        bench.ask("terminal/cancel", {"sessionId": bench.session, "terminalId": call_id})
        state = bench.adapter.wait_for(
            lambda m: m.get("params", {}).get("update", {}).get("background") == []
        )
        assert state["params"]["update"]["state"] == "idle"
        assert bench.terminal(call_id)["exitStatus"] is not None
        assert bench.terminal(call_id)["capabilities"] is None
