"""2, 3: what a client answers becomes one reply to Codex, and accepts only what was offered."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from codex_acp.acp.capabilities import ClientFeatures
from codex_acp.acp.types import RequestPermissionResponse, SelectedRequestPermissionOutcome
from codex_acp.bridge import Approval, Bridge, Decline, Elicitation, PromptStop, Told, look_at
from codex_acp.errors import InvalidPayload
from codex_acp.wire.registry import MAX_VALUES
from tests.support.routing_samples import change, file_item

TURN: dict[str, Any] = {"threadId": "root", "turnId": "turn"}
STATUS: dict[str, Any] = {"id": "turn", "items": [], "status": "inProgress"}
STARTED: dict[str, Any] = {"threadId": "root", "turn": STATUS}
ENDED: dict[str, Any] = {"threadId": "root", "turn": {**STATUS, "status": "interrupted"}}
RUN = {**TURN, "itemId": "item", "startedAtMs": 1, "command": "touch made", "cwd": "/w"}
COMMAND = "item/commandExecution/requestApproval"
FORM = {
    **TURN, "serverName": "notes", "mode": "form", "_meta": None, "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"color": {"type": "string"}}},
}  # fmt: skip
ELICITATION = "mcpServer/elicitation/request"
FORMS = ClientFeatures(elicitation_form=True)


def running(**more: Any) -> Bridge:
    bridge = Bridge("root", FORMS, **more)
    bridge.heard("turn/started", STARTED)
    return bridge


def approval(bridge: Bridge, request_id: int | str = 0, **changes: Any) -> Approval:
    asked = bridge.asked(request_id, COMMAND, {**RUN, **changes})
    assert isinstance(asked, Approval)
    return asked


def selected(asked: Approval, kind: str = "allow_once") -> dict[str, Any]:
    chosen = next(o.option_id for o in asked.v1().options if o.kind == kind)
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def decision(told: Told) -> Any:
    (reply,) = told.replies
    return reply.message()["result"]


def test_4_4_the_error_of_a_turn_that_has_not_begun_ends_the_prompt() -> None:
    bridge = Bridge("root")
    failed = {**TURN, "error": {"message": "no git here"}, "willRetry": False}
    assert getattr(bridge.heard("error", failed).end, "message", None) == "no git here"
    assert bridge.heard("turn/started", STARTED).end is None
    assert bridge.heard("error", failed).end is None, "the turn's own end follows"


def test_1_4_an_approval_is_shown_asked_and_answered_once() -> None:
    bridge = running()
    asked = approval(bridge)
    assert [type(u.update).__name__ for u in asked.told.v1()] == ["ToolCallSessionUpdate"]
    assert asked.title == "Run: touch made"
    assert asked.v2().title == asked.title
    answer = RequestPermissionResponse(
        outcome=SelectedRequestPermissionOutcome(option_id=asked.v1().options[0].option_id)
    )
    told = bridge.answered(asked, answer)
    assert decision(told) == {"decision": "accept"}
    assert bridge.answered(asked, answer).replies == ()
    assert bridge.failed(asked, "late").replies == ()
    assert bridge.cancelled().replies == ()


@pytest.mark.attack("client")
@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"outcome": None},
        {"outcome": {"outcome": "selected"}},
        {"outcome": {"outcome": "selected", "optionId": "p2:0"}},
        {"outcome": {"outcome": "allowed", "optionId": "p1:0"}},
        {"outcome": {"outcome": "cancelled"}},
        {"action": "accept", "content": {}},
    ],
)
def test_3_3_any_other_answer_to_an_approval_is_a_no(answer: dict[str, Any]) -> None:
    bridge = running()
    assert decision(bridge.answered(approval(bridge), answer)) == {"decision": "decline"}


def test_3_2_the_answer_to_one_question_accepts_no_other() -> None:
    bridge = running()
    first = approval(bridge)
    second = approval(bridge, 1, itemId="other", command="rm -r /")
    assert decision(bridge.answered(second, selected(first))) == {"decision": "decline"}
    assert decision(bridge.answered(first, selected(first))) == {"decision": "accept"}


def test_3_2_nothing_is_accepted_once_its_turn_is_over() -> None:
    bridge = running()
    asked = approval(bridge)
    told = bridge.heard("turn/completed", ENDED)
    assert decision(told) == {"decision": "decline"}
    assert (told.settled, told.end) == ((0,), PromptStop("cancelled"))
    assert bridge.answered(asked, selected(asked)).replies == ()


def test_3_5_a_cancelled_prompt_settles_all_and_asks_nothing_more() -> None:
    bridge = running()
    approval(bridge)
    asked = bridge.asked("form", ELICITATION, FORM)
    assert isinstance(asked, Elicitation)
    told = bridge.cancelled()
    assert [r.message()["result"] for r in told.replies] == [
        {"decision": "cancel"},
        {"action": "cancel", "content": None, "_meta": None},
    ]
    assert told.settled == (0, "form")
    late = bridge.asked(2, COMMAND, RUN)
    assert isinstance(late, Decline)
    assert decision(late.told) == {"decision": "cancel"}


def test_3_7_a_request_that_is_replayed_is_the_one_that_is_open() -> None:
    bridge = running()
    asked = approval(bridge)
    assert bridge.asked(0, COMMAND, RUN) is asked
    assert decision(bridge.answered(asked, selected(asked))) == {"decision": "accept"}


@pytest.mark.attack("app-server")
def test_3_7_the_same_id_with_another_payload_fails_closed_with_one_reply() -> None:
    bridge = running()
    asked = approval(bridge)
    other = bridge.asked(0, COMMAND, {**RUN, "command": "rm -r /"})
    assert isinstance(other, Decline)
    assert decision(other.told) == {"decision": "decline"}
    assert other.told.settled == (0,)
    assert bridge.answered(asked, selected(asked)).replies == ()


def test_3_7_what_codex_cannot_tell_apart_fails_closed_together() -> None:
    bridge = running()
    approval(bridge)
    other = bridge.asked(1, COMMAND, {**RUN, "command": "rm -r /"})
    assert isinstance(other, Decline)
    assert {r.id: r.message()["result"] for r in other.told.replies} == {
        0: {"decision": "decline"},
        1: {"decision": "decline"},
    }


def test_3_2_codex_settles_its_request_itself() -> None:
    bridge = running()
    asked = bridge.asked("form", ELICITATION, FORM)
    told = bridge.heard("serverRequest/resolved", {"threadId": "root", "requestId": "form"})
    assert told.settled == ("form",)
    assert isinstance(asked, Elicitation)
    assert bridge.answered(asked, {"action": "accept", "content": {"color": "red"}}).replies == ()


def test_2_5_a_form_is_passed_on_only_if_it_fits() -> None:
    for content, action in (({"color": "red"}, "accept"), ({"color": 1}, "decline")):
        bridge = running()
        asked = bridge.asked(0, ELICITATION, FORM)
        assert isinstance(asked, Elicitation)
        assert "Which?" in asked.message
        assert asked.v1() is not None
        assert asked.v2() is not None
        told = bridge.answered(asked, {"action": "accept", "content": content})
        assert decision(told)["action"] == action


def test_2_3_no_permission_outcome_accepts_a_form() -> None:
    bridge = running()
    asked = bridge.asked(0, ELICITATION, FORM)
    assert isinstance(asked, Elicitation)
    outcome = {"outcome": {"outcome": "selected", "optionId": "p1:0"}}
    assert decision(bridge.answered(asked, outcome))["action"] == "decline"


def test_1_3_what_is_unknown_or_does_not_fit_is_declined() -> None:
    bridge = running()
    unknown = bridge.asked(0, "vault/open", {})
    assert isinstance(unknown, Decline)
    (reply,) = unknown.told.replies
    assert reply.message()["error"]["code"] == -32601  # type: ignore[index, call-overload] # JSON
    bad = bridge.asked(1, COMMAND, {"threadId": 1})
    assert isinstance(bad, Decline)
    assert decision(bad.told) == {"decision": "decline"}
    assert bridge.heard("vault/opened", {}).v1() == []
    with pytest.raises(InvalidPayload, match="turn/started"):
        bridge.heard("turn/started", {"threadId": 1})


@pytest.mark.attack("MCP server")
def test_2_5_a_form_of_too_many_values_is_declined_before_it_is_read() -> None:
    fields: Any = {f"f{number}": {"type": "boolean"} for number in range(MAX_VALUES // 2)}
    schema = {"type": "object", "properties": fields}
    asked = running().asked(0, ELICITATION, {**FORM, "requestedSchema": schema})
    assert isinstance(asked, Decline)
    assert f"more than {MAX_VALUES} values" in asked.reason


def test_1_6_a_decline_is_said_to_the_person() -> None:
    asked = Bridge("root").asked(0, COMMAND, RUN)
    assert isinstance(asked, Decline)
    assert "Declined without asking" in str(asked.told.v1()[0].update)


def test_3_8_a_link_is_shown_to_who_looks(tmp_path: Any) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    asked = approval(running(look=look_at), cwd=str(tmp_path / "link"))
    assert f"{tmp_path}/real" in asked.title


def test_3_6_a_host_that_is_rejected_for_good_stays_so_also_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    rule = {"host": "evil.example", "action": "deny"}
    bridge = running(look=look_at)
    asked = approval(
        bridge,
        cwd=str(tmp_path / "link"),
        networkApprovalContext={"host": "evil.example", "protocol": "https"},
        proposedNetworkPolicyAmendments=[rule],
    )
    assert decision(bridge.answered(asked, selected(asked, "reject_always"))) == {
        "decision": {"applyNetworkPolicyAmendment": {"network_policy_amendment": rule}}
    }


@pytest.mark.attack("model")
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_3_8_an_edit_that_each_process_sees_elsewhere_is_declined() -> None:
    bridge = running(look=look_at)
    item = file_item(change("/proc/self/cwd/x"))
    bridge.heard("item/started", {**TURN, "item": item, "startedAtMs": 1})
    params = {**TURN, "itemId": "item", "startedAtMs": 1}
    asked = bridge.asked(0, "item/fileChange/requestApproval", params)
    assert isinstance(asked, Decline)
    assert asked.reason == "/proc/self/cwd/x leads to different files in different processes"


@pytest.mark.attack("repository")
def test_3_8_the_directory_that_was_opened_is_shown_only_if_it_leads_elsewhere(
    tmp_path: Path,
) -> None:
    opened, elsewhere = tmp_path / "opened", tmp_path / "elsewhere"
    (tmp_path / "real").mkdir()
    elsewhere.mkdir()
    opened.symlink_to(tmp_path / "real")
    bridge = running(roots=[str(opened)], look=look_at)
    asked = approval(bridge, cwd=str(opened))
    assert "real" not in asked.title
    opened.unlink()
    opened.symlink_to(elsewhere)
    assert decision(bridge.answered(asked, selected(asked))) == {"decision": "decline"}
    asked = approval(bridge, 1, cwd=str(opened))
    assert str(elsewhere) in asked.title


@pytest.mark.attack("model")
def test_3_9c_a_turn_that_reaches_for_another_session_is_to_be_interrupted() -> None:
    bridge = running(others=["stranger"])
    item: dict[str, Any] = {
        "type": "collabAgentToolCall", "id": "c", "tool": "sendInput", "status": "inProgress",
        "senderThreadId": "root", "receiverThreadIds": ["stranger"], "agentsStates": {},
    }  # fmt: skip
    told = bridge.heard("item/started", {**TURN, "startedAtMs": 1, "item": item})
    assert told.interrupts == (("root", "turn"),)


def test_a_request_belongs_to_the_session_that_asks() -> None:
    bridge = running()
    assert bridge.holds(RUN)
    assert bridge.holds({"conversationId": "root"})
    assert not bridge.holds({"threadId": "stranger"})
    assert not bridge.holds(None)


@pytest.mark.attack("MCP server")
def test_why_a_server_did_not_start_is_told_without_the_secrets_in_it() -> None:
    failed = {"threadId": "root", "name": "notes", "status": "failed"}
    failed["error"] = "token=sk-0123456789abcdefghij was refused"
    told = running().heard("mcpServer/startupStatus/updated", {**failed})
    assert "notes" in str(told.v1())
    assert "sk-0123456789" not in str(told.v1()) + str(told.v2())


@pytest.mark.attack("model")
def test_3_8_a_bridge_looks_at_no_path_of_a_thread_with_another_machine(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    bridge = running(look=look_at, environments=("local", "production"))
    item = file_item(change(str(tmp_path / "a")))
    bridge.heard("item/started", {**TURN, "item": item, "startedAtMs": 1})
    params = {**TURN, "itemId": "item", "startedAtMs": 1}
    asked = bridge.asked(0, "item/fileChange/requestApproval", params)
    assert isinstance(asked, Approval)
    assert asked.title.startswith("On one of local, production (Codex does not say which): Write ")
    assert "realPaths" in asked.v1().tool_call.raw_input
    assert decision(bridge.answered(asked, selected(asked))) == {"decision": "accept"}
