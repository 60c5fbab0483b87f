"""Contract 4: announced first, one status at a time, an end for each, and nothing left open."""

from __future__ import annotations

import json

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.codex._generated.models import SleepThreadItem
from codex_acp.mapping.call import INTERVAL
from codex_acp.mapping.events import ToolCallAnnounced
from codex_acp.mapping.running_calls import (
    announce,
    approval_settled,
    call_completed,
    call_ended,
    close_open_calls,
)
from codex_acp.mapping.state import SessionState
from tests.support.notification_samples import ITEM
from tests.support.tool_call_samples import command, file_change, mcp
from tests.support.tool_calls import ZED, Folded, Json, complete, replayed, start, text_of
from tests.support.updates import NONE, step, wired

DECLINED = "Declined: this was not done."


def asked(call_id: str = "item") -> ToolCallAnnounced:
    raw = {"command": command()["command"]}
    return ToolCallAnnounced(id=call_id, title="Run: make", status="pending", raw_input=raw)


def settle(state: SessionState, *, accepted: bool, call_id: str = "item") -> list[Json]:
    return wired(state, approval_settled(state, call_id, accepted=accepted))


def close(state: SessionState) -> list[Json]:
    return wired(state, close_open_calls(state))


def test_4_1_an_item_is_announced_once_and_its_question_only_sets_it_to_pending() -> None:
    state = SessionState()
    (call,) = start(state, command(status="inProgress"))
    assert (call["sessionUpdate"], call["status"]) == ("tool_call", "in_progress")
    pending = {"sessionUpdate": "tool_call_update", "toolCallId": "item", "status": "pending"}
    assert wired(state, announce(state, asked())) == [pending]
    assert announce(state, asked()) == ()
    settle(state, accepted=True)
    assert wired(state, announce(state, asked())) == [pending]


def test_4_1_a_question_without_an_item_announces_its_tool_call_once() -> None:
    state = SessionState()
    assert wired(state, announce(state, asked("item:sub")))[0]["sessionUpdate"] == "tool_call"
    assert announce(state, asked("item:sub")) == ()


def test_4_1_an_accepted_call_is_in_progress_and_ends_as_its_item_does() -> None:
    state = SessionState()
    start(state, command(status="inProgress"))
    (accepted,) = settle(state, accepted=True)
    assert (accepted["status"], "content" in accepted) == ("in_progress", False)
    assert complete(state, command())[0]["status"] == "completed"


def test_4_1_a_denied_call_has_failed_and_its_item_still_brings_the_whole_of_it() -> None:
    state = SessionState()
    client = Folded(NONE)
    client.take(start(state, command(status="inProgress")))
    client.patch("item", {"title": "Run: make", "content": [], "status": "pending"})
    client.take(settle(state, accepted=False))
    assert client.calls["item"]["status"] == "failed"
    assert settle(state, accepted=False) == []

    declined = command(status="declined", aggregatedOutput=None, exitCode=None)
    client.take(complete(state, declined))
    assert client.announced == ["item"]
    assert (client.calls["item"]["status"], client.calls["item"]["title"]) == ("failed", "make")
    assert text_of(client.calls["item"]) == DECLINED


def test_4_1_nothing_says_in_progress_while_a_question_waits() -> None:
    state = SessionState()
    updates = wired(state, announce(state, asked()))
    updates += start(state, command(status="inProgress"))
    updates += step(state, "item/commandExecution/outputDelta", {**ITEM, "delta": "x\n"})
    assert [update.get("status") for update in updates] == ["pending", None, None]
    assert updates[1]["title"] == "make"


def test_4_1_a_diff_outlives_the_question_about_it() -> None:
    state = SessionState()
    client = Folded(NONE)
    client.take(start(state, file_change(status="inProgress")))
    before = client.calls["item"]["content"]
    client.patch("item", {"title": "Change /w/a.py", "status": "pending"})
    client.take(settle(state, accepted=True))
    assert client.calls["item"]["content"] == before


@pytest.mark.parametrize("features", [NONE, ZED], ids=["none", "zed"])
def test_output_is_shown_again_behind_a_question_that_took_its_place(
    features: ClientFeatures,
) -> None:
    state = SessionState(features)
    client = Folded(features)
    client.take(start(state, command(status="inProgress")))
    client.take(step(state, "item/commandExecution/outputDelta", {**ITEM, "delta": "x\n"}))
    before = client.calls["item"]["content"]
    client.patch("item", {"content": [], "status": "pending"})
    client.take(settle(state, accepted=True))
    assert client.calls["item"]["content"] == before


def test_an_item_that_never_started_is_announced_when_it_completes() -> None:
    state = SessionState()
    (call,) = complete(state, mcp())
    assert (call["sessionUpdate"], call["status"]) == ("tool_call", "completed")
    assert complete(state, mcp())[0]["sessionUpdate"] == "tool_call_update"


def test_an_item_that_completes_after_its_turn_is_still_the_same_tool_call() -> None:
    state = SessionState()
    client = Folded(NONE)
    client.take(start(state, command(status="inProgress")))
    client.take(close(state))
    assert client.calls["item"]["status"] == "failed"
    client.take(complete(state, command()))
    assert client.calls["item"]["status"] == "completed"
    assert client.announced == ["item"]


def test_4_5_the_end_of_a_turn_leaves_no_call_open_and_says_why() -> None:
    state = SessionState()
    client = Folded(NONE)
    client.take(start(state, mcp("inProgress")))
    client.take(start(state, file_change(status="inProgress") | {"id": "change"}))
    client.take(start(state, {"type": "webSearch", "id": "search", "query": "acp"}))
    client.take(wired(state, announce(state, asked("child:item"))))
    diffs = client.calls["change"]["content"]
    client.take(close(state))

    assert {call["status"] for call in client.calls.values()} == {"failed"}
    for call_id in ("item", "change", "search"):
        assert text_of(client.calls[call_id]).endswith("The turn ended before this did.")
    assert client.calls["change"]["content"][:-1] == diffs
    assert close(state) == []


@pytest.mark.parametrize("features", [NONE, ZED], ids=["none", "zed"])
def test_4_5_an_interrupted_command_shows_its_output_and_that_its_process_may_live_on(
    features: ClientFeatures,
) -> None:
    state = SessionState(features)
    client = Folded(features)
    client.take(start(state, command(status="inProgress")))
    for delta in ("serving\n", "on 8080\n"):
        client.take(step(state, "item/commandExecution/outputDelta", {**ITEM, "delta": delta}))
    updates = close(state)
    client.take(updates)

    text = text_of(client.calls["item"])
    assert "may still run as a background terminal (process 42)." in text
    if features is NONE:
        assert text.startswith("```\nserving\non 8080\n```")
    else:
        assert client.terminals == {"item": "serving\non 8080\n"}
        exited = {"terminal_id": "item", "exit_code": None, "signal": None}
        assert updates[0]["_meta"] == {"terminal_exit": exited}


def test_a_call_that_is_no_item_ends_when_it_is_told_to_and_once() -> None:
    state = SessionState()
    announce(state, asked("item:sub"))
    ended = wired(state, call_ended(state, "item:sub", ended_well=True))
    assert [update["status"] for update in ended] == ["completed"]
    assert call_ended(state, "item:sub", ended_well=True) == ()


def test_an_item_of_history_is_final_in_one_announcement() -> None:
    (call,) = replayed(SessionState(), command())
    assert (call["sessionUpdate"], call["status"]) == ("tool_call", "completed")


def test_an_item_in_progress_of_a_turn_that_does_not_run_has_failed() -> None:
    state = SessionState()
    (call,) = replayed(state, command(status="inProgress"))
    assert call["status"] == "failed"
    assert "The turn ended before this did." in text_of(call)
    assert close(state) == []


def test_an_item_in_progress_of_a_turn_that_runs_goes_on_live() -> None:
    state = SessionState()
    client = Folded(NONE)
    client.take(replayed(state, command(status="inProgress"), turn_running=True))
    assert client.calls["item"]["status"] == "in_progress"
    state.now = INTERVAL
    client.take(step(state, "item/commandExecution/outputDelta", {**ITEM, "delta": "x\n"}))
    assert "x" in text_of(client.calls["item"])
    client.take(complete(state, command()))
    assert (client.calls["item"]["status"], client.announced) == ("completed", ["item"])


def test_a_result_that_an_item_begins_with_and_does_not_keep_is_not_left_behind() -> None:
    item = {"type": "collabAgentToolCall", "id": "item", "tool": "wait", "senderThreadId": "root"}
    waiting = {**item, "receiverThreadIds": ["a"], "status": "inProgress"}
    state = SessionState()
    client = Folded(NONE)
    client.take(start(state, {**waiting, "agentsStates": {"a": {"status": "running"}}}))
    client.take(complete(state, {**waiting, "agentsStates": {}, "status": "completed"}))
    assert "rawOutput" not in client.calls["item"]


def test_diffs_are_sent_once_unless_an_approval_may_have_shown_others() -> None:
    new = {"path": "/w/new", "kind": {"type": "add"}, "diff": "a new line\n" * 10_000}
    running, done = (file_change(new, status=status) for status in ("inProgress", "completed"))
    for in_question in (False, True):
        state = SessionState()
        sent = start(state, running)
        if in_question:
            question = ToolCallAnnounced(id="item", title="Create new", status="pending")
            sent += wired(state, announce(state, question))
        (last,) = complete(state, done)
        assert ("content" in last) == in_question
        times = json.dumps([*sent, last]).count(json.dumps(new["diff"]))
        assert times == (2 if in_question else 1)


def test_diffs_that_grew_since_they_were_sent_are_sent_again() -> None:
    state = SessionState()
    first = {"path": "/w/new", "kind": {"type": "add"}, "diff": "one\n"}
    start(state, file_change(first, status="inProgress"))
    (last,) = complete(state, file_change({**first, "diff": "one\ntwo\n"}))
    assert last["content"][0]["newText"] == "one\ntwo\n"


def test_what_is_remembered_of_ended_calls_is_bounded() -> None:
    state = SessionState()
    for number in range(10_050):
        call_completed(state, SleepThreadItem(id=str(number), duration_ms=1))
    assert len(state.announced) == 10_000
    assert state.open_calls == {}


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "other",
    [
        command(command="ls -la", status="inProgress"),
        file_change(status="inProgress"),
        {"type": "sleep", "id": "item", "durationMs": 1},
    ],
    ids=["command", "files", "sleep"],
)
@pytest.mark.parametrize("by_item", [True, False])
def test_3_9b_another_item_of_the_id_of_an_open_question_is_not_shown(
    other: Json, by_item: bool
) -> None:
    state = SessionState()
    if by_item:
        start(state, command(status="inProgress"))
    wired(state, announce(state, asked()))
    assert start(state, other) == []
    assert step(state, "item/commandExecution/outputDelta", {**ITEM, "delta": "x\n"}) == []
    assert complete(state, {**other, "status": "completed"}) == []
    (failed,) = settle(state, accepted=False)
    assert failed["status"] == "failed"
    assert complete(state, {**other, "status": "completed"}) == []
    close(state)
    assert start(state, other) != []  # in a turn of its own
