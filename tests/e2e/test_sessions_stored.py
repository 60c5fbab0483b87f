"""Sessions that Codex has stored: listed, loaded with their history, resumed, copied, named."""

from __future__ import annotations

import pytest

from codex_acp.testing import Gate, Step, Text, exec_command
from tests.e2e.session_bench import (
    SessionBench,
    said_by,
    shown_history,
    tool_calls,
    until,
    updates_of,
)

NOT_FOUND = -32002
INVALID_PARAMS = -32602
INVALID_REQUEST = -32600

NOBODY = "01a20182-77c4-7a20-923c-364d64039d61"
"""Looks like an id of Codex, and is none."""

COMMAND: list[list[Step]] = [[exec_command("echo from-the-shell")], [Text("It ", "said so.")]]


def test_another_process_shows_the_same_history_and_the_session_goes_on() -> None:
    with SessionBench([*COMMAND, [Text("I remember.")]]) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Run it.")
            live = updates_of(adapter.messages, session)

        with bench.adapter() as adapter:
            listed = adapter.ask("session/list", {})["result"]["sessions"]
            assert [each["sessionId"] for each in listed] == [session]
            assert listed[0]["title"] == "Run it."
            assert listed[0]["cwd"] == str(bench.home.workspace)
            assert listed[0]["updatedAt"].endswith("Z")

            loaded = bench.ask(adapter, "session/load", session)
            replayed = updates_of(adapter.messages, session)
            assert loaded["result"]["modes"]["currentModeId"]
            assert shown_history(replayed) == [
                ("user", "Run it."), ("tool", tool_calls(live)["call_0_0"]["title"]),
                ("agent", "It said so."),
            ]  # fmt: skip
            assert tool_calls(replayed)["call_0_0"]["status"] == "completed"
            assert "from-the-shell" in str(tool_calls(replayed)["call_0_0"]["content"])
            assert {"sessionUpdate": "session_info_update", "title": "Run it."} in replayed

            assert bench.run(adapter, session, "And now?") == "I remember."
        heard = str(bench.model.requests[-1].body["input"])
        assert "Run it." in heard
        assert "from-the-shell" in heard


def test_a_replayed_tool_call_is_in_the_end_what_it_was_live() -> None:
    with SessionBench(COMMAND) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Run it.")
            live = tool_calls(updates_of(adapter.messages, session))
        with bench.adapter() as adapter:
            bench.ask(adapter, "session/load", session)
            assert tool_calls(updates_of(adapter.messages, session)) == live


def test_a_resumed_session_goes_on_and_nothing_of_it_is_sent_again() -> None:
    with SessionBench([*COMMAND, [Text("I remember.")]]) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Run it.")

        with bench.adapter() as adapter:
            answer = bench.ask(adapter, "session/resume", session)
            assert answer["result"]["configOptions"]
            assert bench.run(adapter, session, "And now?") == "I remember."
            assert shown_history(updates_of(adapter.messages, session)) == [
                ("agent", "I remember.")
            ]
        assert "from-the-shell" in str(bench.model.requests[-1].body["input"])


def test_a_copy_knows_what_the_session_knows_and_both_go_on_by_themselves() -> None:
    script: list[list[Step]] = [[Text("One.")], [Text("In the copy.")], [Text("In the first.")]]
    with SessionBench(script) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Begin.")
            copy = bench.ask(adapter, "session/fork", session)["result"]["sessionId"]
            assert copy != session
            assert bench.run(adapter, copy, "For the copy.") == "In the copy."
            assert bench.run(adapter, session, "For the first.") == "In the first."
            assert said_by("agent", updates_of(adapter.messages, session)) == "One.In the first."

        in_copy, in_first = (str(request.body["input"]) for request in bench.model.requests[1:])
        assert "Begin." in in_copy
        assert "For the copy." not in in_first

        with bench.adapter() as adapter:
            bench.ask(adapter, "session/load", copy)
            assert shown_history(updates_of(adapter.messages, copy)) == [
                ("user", "Begin."), ("agent", "One."),
                ("user", "For the copy."), ("agent", "In the copy."),
            ]  # fmt: skip


def test_a_title_is_seen_in_the_list_and_told_to_an_open_session() -> None:
    with SessionBench([[Text("One.")]]) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Begin.")
            named = adapter.ask("session/set_title", {"sessionId": session, "title": " My  work "})
            assert named["result"] == {"title": "My work"}
            told = {"sessionUpdate": "session_info_update", "title": "My work"}
            until(adapter, lambda messages: told in updates_of(messages, session))

        with bench.adapter() as adapter:  # not open there
            name = {"sessionId": session, "title": "Another"}
            assert adapter.ask("session/set_title", name)["result"] == {"title": "Another"}
            (listed,) = adapter.ask("session/list", {})["result"]["sessions"]
            assert listed["title"] == "Another"
            nothing = {"sessionId": session, "title": " \n"}
            assert adapter.ask("session/set_title", nothing)["error"]["code"] == INVALID_PARAMS


def test_a_deleted_session_is_gone_and_can_be_deleted_again() -> None:
    with SessionBench([[Text("One.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        bench.run(adapter, session, "Begin.")
        for _ in range(2):
            assert adapter.ask("session/delete", {"sessionId": session})["result"] == {}
        assert adapter.ask("session/delete", {"sessionId": "what?"})["result"] == {}

        assert adapter.ask("session/list", {})["result"]["sessions"] == []
        assert bench.ask(adapter, "session/load", session)["error"]["code"] == NOT_FOUND
        prompt = adapter.answer(adapter.start_prompt(session))
        assert prompt["error"]["code"] == NOT_FOUND


def test_a_closed_session_has_ended_its_prompt_and_can_be_loaded_again() -> None:
    script: list[list[Step]] = [[Text("Begin. "), Gate("never")], [Text("Again.")]]
    with SessionBench(script) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        prompt = adapter.start_prompt(session, "Begin.")
        adapter.wait_for(lambda m: "Begin. " in str(m))
        close = adapter.start("session/close", {"sessionId": session})
        assert adapter.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert adapter.answer(close)["result"] == {}

        assert adapter.answer(adapter.start_prompt(session))["error"]["code"] == NOT_FOUND
        again = adapter.ask("session/close", {"sessionId": session})
        assert again["error"]["code"] == NOT_FOUND
        assert "result" in bench.ask(adapter, "session/load", session)
        assert bench.run(adapter, session, "Again.") == "Again."


def test_an_open_session_is_loaded_anew_but_not_while_a_prompt_runs() -> None:
    script: list[list[Step]] = [
        [Text("One.")],
        [Text("Two. "), Gate("go"), Text("Three.")],
        [Text("Four.")],
    ]
    with SessionBench(script) as bench, bench.adapter() as adapter:
        session = bench.new(adapter)
        bench.run(adapter, session, "Begin.")
        before = len(adapter.messages)
        elsewhere = bench.home.root
        assert "result" in bench.ask(adapter, "session/load", session, cwd=str(elsewhere))
        assert shown_history(updates_of(adapter.messages[before:], session)) == [
            ("user", "Begin."), ("agent", "One."),
        ]  # fmt: skip

        prompt = adapter.start_prompt(session, "Go on.")
        adapter.wait_for(lambda m: "Two. " in str(m))
        refused = bench.ask(adapter, "session/load", session)["error"]
        assert refused["code"] == INVALID_REQUEST
        assert "a prompt runs" in refused["message"]
        bench.model.open("go")
        assert adapter.answer(prompt)["result"]["stopReason"] == "end_turn"
        assert str(elsewhere) in str(bench.model.requests[-1].body["input"])
        assert bench.run(adapter, session, "And?") == "Four."


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
def test_a_session_that_is_not_there_is_told_so(method: str) -> None:
    with SessionBench() as bench, bench.adapter() as adapter:
        for unknown in (NOBODY, "nothing like an id"):
            error = bench.ask(adapter, method, unknown)["error"]
            assert error["code"] == NOT_FOUND
            assert error["data"]["sessionId"] == unknown
        relative = bench.ask(adapter, method, NOBODY, cwd="some/where")["error"]
        assert relative["code"] == INVALID_PARAMS
        assert "cwd" in relative["message"]
        relative = bench.ask(adapter, method, NOBODY, additionalDirectories=["/ok", "x"])["error"]
        assert relative["code"] == INVALID_PARAMS
        assert "additionalDirectories.1" in relative["message"]


def test_the_list_has_pages_a_filter_and_no_patience_with_wrong_cursors() -> None:
    with SessionBench([[Text("1")], [Text("2")]]) as bench, bench.adapter() as adapter:
        here, there = bench.home.workspace, bench.home.home
        first, second = bench.new(adapter), bench.new(adapter, cwd=str(there))
        bench.run(adapter, first, "Here.")
        bench.run(adapter, second, "There.")

        def listed(**params: object) -> list[str]:
            sessions = adapter.ask("session/list", params)["result"]["sessions"]
            return [each["sessionId"] for each in sessions]

        assert set(listed()) == {first, second}
        assert listed(cwd=str(here)) == [first]
        assert listed(cwd="/nowhere") == []
        for params in ({"cursor": "made up"}, {"cwd": "here"}):
            assert adapter.ask("session/list", params)["error"]["code"] == INVALID_PARAMS


def test_all_of_a_load_is_told_before_its_answer() -> None:
    with SessionBench(COMMAND) as bench:
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Run it.")
        with bench.adapter() as adapter:
            bench.ask(adapter, "session/load", session)
            adapter.until("available_commands_update")
            told = [
                message["params"]["update"]["sessionUpdate"] if "params" in message else "answer"
                for message in adapter.messages[1:]
            ]
            assert told.index("available_commands_update") < told.index("answer")
            adapter.result("session/list", {})  # by now whatever else there is has been told
            assert adapter.updates() == adapter.updates()[: len(told) - 1]
