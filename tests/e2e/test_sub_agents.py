"""Sub-agents on the real Codex: as sessions of their own, and as lines of a tool call."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

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
from tests.e2e.sub_agents_bench import CONFIG, OLD, SubAgentBench, spawn, spawn_old, wait
from tests.e2e_contract.contract_bench import Scenes
from tests.support.codex_version import codex_under_test

SCENES = Scenes()

COMMAND: list[Step] = [Text("Working."), exec_command("echo in-child", call_id="c1")]
TASK = SCENES.add("task", COMMAND, [Text("Child is done.")])
GO = SCENES.add("go", [spawn(TASK, "helper")], [wait("w1")], [Text("Root is done.")])

LONG_TASK = SCENES.add("long task", [Text("Long."), Gate("long"), Text("Never.")])
LONG = SCENES.add("long", [spawn(LONG_TASK, "long")], [Text("Goes on."), Gate("go on")])

OLD_CONFIG = {"features": {"multi_agent": True}, "agents": {"max_depth": 3}}
BELOW = SCENES.add("below", [Text("Grandchild is done."), Gate("below")])
MIDDLE = SCENES.add("middle", [spawn_old(BELOW, "s2")], [Text("Done."), Gate("middle")])
TOP = SCENES.add("top", [spawn_old(MIDDLE, "s1")], [Text("Top is done.")])

VICTIM = "THE-ID-OF-ANOTHER-SESSION"
INTRUDE = SCENES.add(
    "intrude",
    [ToolCall("send_input", {"target": VICTIM, "message": "Hi."}, OLD, call_id="i1")],
    [Text("I know it."), Gate("intruder")],
)
WORK = SCENES.add("work", [Text("Own work."), Gate("intruded")], [Text("Told."), Gate("never")])
"""Codex gives the model what another agent says at once; 0.147 behind a response."""

CHILD = "THE-ID-OF-THE-SUB-AGENT"
WRITE = SCENES.add("write", [exec_command("touch made", call_id="c2")], [Text("Tried.")])
READY = SCENES.add("ready", [Text("Ready.")])
STARTS = {
    tools: SCENES.add(f"start {tools}", [Text("I do."), Gate(tools), spawned], [Text("Started.")])
    for tools, spawned in (("old", spawn_old(READY, "s3")), ("new", spawn(READY, "writer")))
}
OLD_INPUT = ToolCall("send_input", {"target": CHILD, "message": WRITE}, OLD, call_id="i2")
NEW_INPUT = ToolCall(
    "followup_task", {"target": "writer", "message": WRITE}, "collaboration", call_id="i3"
)
WAITS = SCENES.add("waits", [Text("I wait."), Gate("mode")])
GIVES_WORK = {
    "old": SCENES.add("work by old", [OLD_INPUT], [Text("Given.")]),
    "new": SCENES.add("work by new", [NEW_INPUT], [Text("Given.")]),
}
RESUME = ToolCall("resume_agent", {"id": CHILD}, OLD, call_id="r1")
GIVES_WORK_AGAIN = SCENES.add("work again", [RESUME], [OLD_INPUT], [Text("Given.")])

ASKS = SCENES.add(
    "asks",
    [exec_command("touch child-made", justification="May I?", call_id="c2")],
    [Text("Child has made it.")],
)
LEFT = SCENES.add("left", [spawn(ASKS, "asker")], [Text("Root is done.")], [Text("Told.")])
"""The root is done while its sub-agent asks."""

FORM = SCENES.add("form", [mcp_call("paints", "paint", {}, call_id="k4")], [Text("It is red.")])
ROOT: list[list[Step]] = [[Text("Root is done.")], [Text("Told.")]]
LEFT_FORM = SCENES.add("left form", [spawn(FORM, "painter")], *ROOT)

NATIVE: list[Any] = [pytest.param(1, {"subagents": {}}, id="v1"), pytest.param(2, {}, id="v2")]


def load(bench: SubAgentBench) -> int:
    """Load the session with its history; where what is new begins."""
    mark = len(bench.adapter.messages)
    again = {**bench.place, "sessionId": bench.session}
    if bench.version == 1:
        bench.ask("session/load", again)
    else:
        bench.ask("session/resume", {**again, "replayFrom": {"type": "start"}})
    return mark


@pytest.mark.parametrize(("version", "capabilities"), NATIVE)
def test_a_sub_agent_is_a_session_of_its_own_live_and_loaded(
    version: int, capabilities: dict[str, Any]
) -> None:
    with SubAgentBench(SCENES, version, capabilities) as bench:
        bench.prompt(GO)

        ((child, about),) = bench.children().items()
        assert about["title"] == "helper"
        assert about["state"] == {"state": "idle", "stopReason": "end_turn"}
        assert about["capabilities"] == {}
        assert bench.text(child) == "Working.Child is done."
        assert bench.text(bench.session) == "Root is done."
        kinds = {u["sessionUpdate"] for u in bench.updates(child)}
        assert "tool_call_update" in kinds
        if version == 2:
            states = [u for u in bench.updates(child) if u["sessionUpdate"] == "state_update"]
            assert [state["state"] for state in states] == ["running", "idle"]

        mark = load(bench)
        assert list(bench.children(since=mark)) == [child]
        assert bench.text(child, mark) == "Working.Child is done."


@pytest.mark.parametrize("capabilities", [{}, {"subagents": {}}], ids=["lines", "sessions"])
def test_3_9_a_sub_agents_question_stays_open_and_shown_when_its_session_is_loaded(
    capabilities: dict[str, Any],
) -> None:
    with SubAgentBench(SCENES, 1, capabilities) as bench:
        bench.prompt(LEFT)
        asked = bench.asked("session/request_permission")
        card = asked["params"]["toolCall"]["toolCallId"]
        mark = load(bench)
        bench.adapter.choose(asked, "allow_once")
        is_end = {"toolCallId": card, "status": "completed"}.items()
        bench.wait(bench.session, lambda u: is_end <= u.items(), mark)
        for child in bench.children():  # its own call, announced before the load, ends behind it
            bench.wait(child, lambda u: "Child has made it." in json.dumps(u), mark)

        of_card = [u for u in bench.updates(since=mark) if u.get("toolCallId") == card]
        assert [u["status"] for u in of_card] == ["pending", "in_progress", "completed"]
        assert "touch child-made" in of_card[0]["title"]


def test_3_9_a_sub_agents_form_stays_open_when_its_session_is_loaded(tmp_path: Path) -> None:
    form = form_elicitation("Which color?", {"color": {"type": "string"}})
    tools = [McpTool("paint", read_only=True, elicitations=[form])]
    server = ScriptedMcpServer(tmp_path, tools, name="paints")
    config = {**CONFIG, "mcp_servers": {"paints": server.config}}
    capabilities: dict[str, Any] = {"subagents": {}, "elicitation": {"form": {}}}
    with SubAgentBench(SCENES, 1, capabilities, config) as bench:
        bench.prompt(LEFT_FORM)
        asked = bench.asked("elicitation/create")
        (child,) = bench.children()
        mark = load(bench)
        waits = {"state": {"state": "requires_action"}}.items()
        bench.wait(bench.session, lambda u: waits <= u.items(), mark)
        answer = {"action": "accept", "content": {"color": "red"}}
        bench.adapter.send({"id": asked["id"], "result": answer})
        bench.wait(child, lambda u: "It is red." in json.dumps(u), mark)

        assert asked["params"]["sessionId"] == bench.session
        assert [a["result"] for a in server.answers()] == [answer]
        again = [m.get("method") for m in bench.adapter.messages[mark:]]
        assert "elicitation/create" not in again


def test_a_sub_agent_that_asks_is_in_the_background_of_its_idle_session() -> None:
    with SubAgentBench(SCENES, 2) as bench:
        bench.prompt(LEFT)
        asked = bench.asked("session/request_permission")
        ((child, about),) = bench.children().items()
        assert about["state"] == {"state": "requires_action"}
        background = [{"type": "subagent", "sessionId": child}]
        is_idle = {"state": "idle", "background": background}.items()
        bench.wait(bench.session, lambda u: is_idle <= u.items())
        mark = load(bench)
        states = [u for u in bench.updates(since=mark) if u["sessionUpdate"] == "state_update"]
        assert all(is_idle <= state.items() for state in states)
        assert states
        bench.adapter.choose(asked, "allow_once")
        bench.wait(bench.session, lambda u: u.get("background") == [], mark)
        assert bench.children(since=mark)[child]["state"]["state"] == "idle"


def test_what_is_a_sub_agents_cannot_be_used_as_a_session() -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}) as bench:
        bench.prompt(GO)
        (child,) = bench.children()
        block = {"type": "text", "text": "Hello."}
        attacks: list[tuple[str, dict[str, Any]]] = [
            ("session/prompt", {"prompt": [block]}),
            ("session/load", bench.place),
            ("session/resume", bench.place),
            ("session/fork", bench.place),
            ("session/close", {}),
            ("session/delete", {}),
            ("session/archive", {}),
            ("session/unarchive", {}),
            ("_session/steering", {"prompt": [block]}),
            ("session/set_title", {"title": "Mine"}),
            ("session/set_mode", {"modeId": "full-access"}),
            ("session/set_config_option", {"configId": "mode", "value": "full-access"}),
        ]
        for method, params in attacks:
            for name in (child, child.upper()):
                error = bench.refused(method, {**params, "sessionId": name})
                assert error["code"] in (-32602, -32002), (method, error)
            error = bench.refused(method, {**params, "sessionId": child})
            assert error["code"] == -32602, method
            assert "can only be cancelled" in error["message"]
        bench.adapter.send({"method": "session/cancel", "params": {"sessionId": child}})

        load(bench)  # it is still there
        assert bench.ask("session/status", {"sessionId": child})["status"] == "open"

        bench.ask("session/close", {"sessionId": bench.session})
        assert bench.ask("session/status", {"sessionId": child})["status"] == "saved"
        own = {**bench.place, "sessionId": child}
        refused = bench.refused("session/load", own)  # it is free, and Codex opens none by itself
        assert "sub-agent" in refused["message"]
        mark = load(bench)
        assert [*bench.children(since=mark)] == [child]


@pytest.mark.parametrize(("version", "capabilities"), NATIVE)
def test_a_sub_agent_can_be_cancelled_alone(version: int, capabilities: dict[str, Any]) -> None:
    with SubAgentBench(SCENES, version, capabilities) as bench:
        bench.begin(LONG)
        update = bench.wait(bench.session, lambda u: u.get("capabilities") == {"cancel": {}})
        child = update["sessionId"]
        bench.wait(child, lambda u: u["sessionUpdate"] == "agent_message_chunk")
        bench.adapter.send({"method": "session/cancel", "params": {"sessionId": child}})

        stopped = {"state": "idle", "stopReason": "cancelled"}
        bench.wait(bench.session, lambda u: u.get("state") == stopped)
        bench.model.open("go on")  # the agent above it does
        assert bench.end() == "end_turn"
        assert bench.children()[child]["capabilities"] == {}


@pytest.mark.attack("model")
def test_3_9c_without_hooks_a_turn_ends_whose_model_reaches_for_another_session() -> None:
    config = {**OLD_CONFIG, "features": {"multi_agent": True, "hooks": False}}
    with SubAgentBench(SCENES, 1, {"subagents": {}}, config) as bench:
        victim = bench.ask("session/new", bench.place)["sessionId"]
        bench.model.put(VICTIM, victim)
        block = {"type": "text", "text": WORK}
        work = bench.adapter.start("session/prompt", {"sessionId": victim, "prompt": [block]})
        bench.wait(victim, lambda u: u["sessionUpdate"] == "agent_message_chunk")
        bench.begin(INTRUDE)
        assert bench.end() == "cancelled"
        bench.model.open("intruded")
        if bench.adapter.answer(work)["result"]["stopReason"] == "cancelled":
            ended = "it got a message of another session's model"
            bench.wait(victim, lambda u: ended in json.dumps(u))
        else:  # the call was interrupted before Codex sent the message
            assert bench.text(victim) == "Own work."
        assert bench.children() == {}
        assert "its model reached for another session" in json.dumps(bench.updates())
        assert "has reached for this one" in json.dumps(bench.updates(victim))


def set_mode(bench: SubAgentBench, mode: str) -> None:
    choice = {"sessionId": bench.session, "configId": "mode", "value": mode}
    bench.ask("session/set_config_option", choice)


@pytest.mark.attack("model")
@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "while the turn runs"])
@pytest.mark.parametrize("tools", ["old", "new"])
def test_3_9c_a_sub_agent_has_no_rights_that_the_person_has_taken_from_the_session(
    tools: str, *, meanwhile: bool
) -> None:
    config = OLD_CONFIG if tools == "old" else CONFIG
    with SubAgentBench(SCENES, 1, {"subagents": {}}, config) as bench:
        set_mode(bench, "full-access")
        bench.begin(STARTS[tools])
        bench.model.wait_for_gate(tools)
        if meanwhile:
            set_mode(bench, "read-only")
        bench.model.open(tools)
        assert bench.end() == "end_turn"
        # The first turn of the sub-agent may end by an interrupt, if Codex begins it late.
        idle = bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        bench.model.put(CHILD, idle["sessionId"])
        if not meanwhile:
            set_mode(bench, "read-only")
        if tools == "new" and codex_under_test() != "0.147.0":  # that one changes it
            kept = "They keep theirs: never asks, no sandbox, so each turn that they begin is"
            bench.wait(bench.session, lambda u: kept in json.dumps(u))
        mark = len(bench.adapter.messages)
        bench.prompt(GIVES_WORK[tools])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle", mark)

        assert not (bench.home.workspace / "made").exists()


@pytest.mark.attack("model")
@pytest.mark.parametrize("modes", [("read-only", "read-only"), ("read-only", "ask")])
def test_3_9c_a_sub_agent_has_the_rights_with_which_its_turn_began_however_often_they_change(
    modes: tuple[str, str],
) -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}, CONFIG) as bench:
        set_mode(bench, "full-access")
        bench.begin(STARTS["new"])
        bench.model.wait_for_gate("new")
        for mode in modes:
            set_mode(bench, mode)
        bench.model.open("new")
        assert bench.end() == "end_turn"
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        told = json.dumps(bench.updates())
        assert "What runs now goes on with the earlier one: asks when needed" not in told
        if codex_under_test() == "0.147.0":  # that one gives the sub-agent the mode
            return
        kept = "They keep theirs: never asks, no sandbox, so each turn that they begin is"
        bench.wait(bench.session, lambda u: kept in json.dumps(u))
        mark = len(bench.adapter.messages)
        bench.prompt(GIVES_WORK["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle", mark)

        assert not (bench.home.workspace / "made").exists()


def test_3_9c_a_new_codex_knows_no_turn_with_other_rights() -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}, CONFIG) as bench:
        set_mode(bench, "full-access")
        bench.begin(WAITS)
        bench.model.wait_for_gate("mode")
        set_mode(bench, "never-ask")
        os.kill(bench.adapter.codex(), signal.SIGKILL)
        assert "SIGKILL" in bench.answer()["error"]["message"]
        bench.model.open("new")
        bench.prompt(STARTS["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        mark = len(bench.adapter.messages)
        bench.prompt(GIVES_WORK["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle", mark)

        assert (bench.home.workspace / "made").exists()
        assert "They keep theirs" not in json.dumps(bench.updates())


@pytest.mark.attack("model")
@pytest.mark.parametrize("opening", ["session/load", "session/resume"])
def test_3_9c_a_sub_agent_has_no_more_rights_once_the_session_is_opened_again(
    opening: str,
) -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}, CONFIG) as bench:
        set_mode(bench, "full-access")
        bench.model.open("new")
        bench.prompt(STARTS["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        for mode in ("ask", "read-only"):
            mark = len(bench.adapter.messages)
            set_mode(bench, mode)
            if codex_under_test() != "0.147.0":  # that one gives the sub-agent the mode
                kept = "They keep theirs: never asks, no sandbox, so each turn that they begin is"
                bench.wait(bench.session, lambda u, kept=kept: kept in json.dumps(u), mark)
        bench.ask(opening, {"sessionId": bench.session, **bench.place})
        mark = len(bench.adapter.messages)
        bench.prompt(GIVES_WORK["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle", mark)

        assert not (bench.home.workspace / "made").exists()


def test_3_9c_a_sub_agent_that_a_turn_with_the_new_mode_starts_works() -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}, CONFIG) as bench:
        set_mode(bench, "full-access")
        bench.begin(WAITS)
        bench.model.wait_for_gate("mode")
        set_mode(bench, "never-ask")
        bench.model.open("mode")
        assert bench.end() == "end_turn"
        bench.model.open("new")
        bench.prompt(STARTS["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        mark = len(bench.adapter.messages)
        bench.prompt(GIVES_WORK["new"])
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle", mark)

        assert (bench.home.workspace / "made").exists()
        assert "They keep theirs" not in json.dumps(bench.updates())


def test_a_session_that_is_closed_takes_its_sub_agents_with_it() -> None:
    with SubAgentBench(SCENES, 2) as bench:
        bench.begin(LONG)
        update = bench.wait(bench.session, lambda u: u.get("capabilities") == {"cancel": {}})
        child = update["sessionId"]
        bench.wait(child, lambda u: u["sessionUpdate"] == "agent_message_chunk")
        bench.ask("session/close", {"sessionId": bench.session})

        stopped = {"state": "idle", "stopReason": "cancelled"}
        assert bench.children()[child]["state"] == stopped
        cancel = {"method": "session/cancel", "params": {"sessionId": child}}
        bench.adapter.send(cancel)  # nobody's any more: ignored
        assert bench.ask("session/list", {})["sessions"]


def test_a_session_taken_out_of_the_archive_gives_work_to_its_sub_agents() -> None:
    """Codex leaves the sub-agents in the archive."""
    with SubAgentBench(SCENES, 1, {"subagents": {}}, OLD_CONFIG) as bench:
        bench.model.open("old")
        bench.prompt(STARTS["old"])
        (child,) = bench.children()
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "idle")
        bench.ask("session/archive", {"sessionId": bench.session})
        bench.ask("session/unarchive", {"sessionId": bench.session})
        mark = load(bench)
        bench.model.put(CHILD, child)
        bench.prompt(GIVES_WORK_AGAIN)
        bench.wait(bench.session, lambda u: u.get("state", {}).get("state") == "running", mark)
        assert "no sub-agent of this session" not in json.dumps(bench.updates(since=mark))


def test_sub_agents_of_sub_agents_that_outlive_the_prompt_are_below_each_other() -> None:
    with SubAgentBench(SCENES, 1, {"subagents": {}}, OLD_CONFIG) as bench:
        bench.prompt(TOP)
        ((middle, about),) = bench.children().items()
        assert about["description"] == MIDDLE
        bench.wait(bench.session, lambda u: u.get("state") == {"state": "running"})
        bench.wait(middle, lambda u: u["sessionUpdate"] == "subagent_update")
        ((below, of_below),) = bench.children(middle).items()
        assert of_below["description"] == BELOW
        bench.model.open("below")
        bench.model.open("middle")
        ended = {"state": "idle", "stopReason": "end_turn"}
        bench.wait(middle, lambda u: u.get("state") == ended)

        (task,) = [u for u in bench.updates(below) if u["sessionUpdate"] == "session_message"]
        assert task["content"] == [{"type": "text", "text": BELOW}]
        assert (task["senderSessionId"], task["recipientSessionId"]) == (middle, below)
        assert bench.text(below) == "Grandchild is done."


def test_a_client_without_such_sessions_reads_what_a_sub_agent_did_in_the_tool_call() -> None:
    with SubAgentBench(SCENES, 1) as bench:
        bench.prompt(GO)
        live = _shown(bench, 0)
        mark = load(bench)
        loaded = _shown(bench, mark)

        assert bench.children() == {}
        for text in (live, loaded):
            assert "What the sub-agent did:" in text
            assert "- helper: said Working." in text
            assert "- helper: echo in-child" in text
            assert "- helper: said Child is done." in text
        of_children = {m["params"]["sessionId"] for m in _updates(bench)}
        assert of_children == {bench.session}


def _shown(bench: SubAgentBench, since: int) -> str:
    """The content of the tool call that started the sub-agent, as it was told last."""
    calls = [u for u in bench.updates(since=since) if u.get("toolCallId") == "helper"]
    told = [u["content"] for u in calls if u.get("content")]
    return "\n".join(part["content"]["text"] for part in told[-1])


def _updates(bench: SubAgentBench) -> list[dict[str, Any]]:
    return [m for m in bench.adapter.messages if m.get("method") == "session/update"]
