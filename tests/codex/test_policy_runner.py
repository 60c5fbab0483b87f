"""A policy at work: one reply each, whatever happens while it decides (contract 1.4, 3.2, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from codex_acp.codex import (
    CodexClient,
    Once,
    RememberPrefix,
    Session,
    ask,
    deny_all,
    trust_mcp_servers,
)
from codex_acp.codex.approvals.grants import Grant
from codex_acp.codex.approvals.policies import Policy
from codex_acp.codex.types import CommandExecutionRequestApprovalResponse
from codex_acp.errors import MisuseError
from codex_acp.testing import (
    AskClient,
    Entry,
    Expect,
    Notify,
    ScriptedAppServer,
    file_change_approval,
)
from codex_acp.wire.codec import encode
from tests.codex.policy_bench import (
    ASKED,
    DECLINED,
    ELICITATION,
    NO_INPUT,
    PERMISSIONS,
    QUESTION,
    TURN,
    Asked,
    PolicyBench,
    ask_command,
    ask_tool,
    call_runs,
    elicit,
    warnings_of,
)
from tests.codex.server_request_samples import SAMPLES

NOTES = trust_mcp_servers({"notes"})
CALL: Sequence[Entry] = [call_runs(), ask_tool()]
ACCEPTED = {"action": "accept", "content": None, "_meta": None}


# --- what is asked, and what is granted --------------------------------------------------------


async def test_6_2_a_callback_gets_the_whole_question_and_its_grant_is_the_reply() -> None:
    asked = Asked()
    asked.release.set()
    async with PolicyBench(ask(asked), ask_command("touch made")) as bench:
        assert await bench.answer() == {"decision": "accept"}
        assert bench.refused == []
    (question,) = asked.questions
    assert question.arguments["command"] == "touch made"
    assert question.offered == (Once(), RememberPrefix(("touch", "made")))
    assert (question.thread_id, question.root_thread_id) == ("t", "t")
    assert (question.turn_id, question.item_id) == ("turn-1", "i")


@pytest.mark.attack("model")
async def test_3_9_a_thread_that_another_ones_model_names_is_asked_for_as_its_own() -> None:
    asked = Asked()
    asked.release.set()
    named = {"type": "collabAgentToolCall", "id": "n", "tool": "sendInput", "status": "inProgress"}
    item = {**named, "senderThreadId": "evil", "receiverThreadIds": ["t"], "agentsStates": {}}
    said = {"threadId": "evil", "turnId": "e", "startedAtMs": 1, "item": item}
    opening = Expect("thread/resume", result={"thread": {"id": "t"}})
    async with PolicyBench(ask(asked), opening, Notify("item/started", said)) as bench:
        await bench.client.call_raw("thread/resume", {"threadId": "t"})
        bench.server.play(ask_command("touch made"))
        await bench.answer()
    (question,) = asked.questions
    assert (question.thread_id, question.root_thread_id) == ("t", "t")


@pytest.mark.attack("model")
@pytest.mark.parametrize("how", ["the answer", "a report"])
async def test_6_2_a_resumed_thread_is_known_with_its_other_machines(how: str) -> None:
    asked = Asked()
    asked.release.set()
    both = {"environments": [{"environmentId": name} for name in ("local", "production")]}
    listed = both if how == "the answer" else {}
    opening = Expect("thread/resume", result={"thread": {"id": "t", **listed}})
    async with PolicyBench(ask(asked), opening) as bench:
        await bench.client.call_raw("thread/resume", {"threadId": "t"})
        if how == "a report":
            report = {"threadId": "t", "threadSettings": both}
            bench.server.play(Notify("thread/settings/updated", report))
        bench.server.play(*file_change_approval())
        await bench.answer()
    (question,) = asked.questions
    assert question.elsewhere == ("local", "production")
    assert question.offered == (Once(),)


@pytest.mark.parametrize(
    ("grant", "decision"),
    [
        (
            RememberPrefix(("touch", "made")),
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "made"]}},
        ),
        (RememberPrefix(("touch",)), "decline"),
        (Session(), "decline"),
    ],
)
async def test_2_6_only_a_grant_that_was_offered_is_given(grant: Grant, decision: object) -> None:
    async with PolicyBench(ask(lambda _q: grant), ask_command("touch made")) as bench:
        assert await bench.answer() == {"decision": decision}


async def test_6_2_files_and_permissions_are_asked_about_too() -> None:
    permissions = {**ASKED, "cwd": "/w", "permissions": {"network": {"enabled": True}}}
    entries: list[Entry] = [*file_change_approval(), AskClient(PERMISSIONS, permissions)]
    async with PolicyBench(ask(lambda _q: Session()), *entries) as bench:
        assert await bench.answers(2) == [
            {"decision": "acceptForSession"},
            {"permissions": {"network": {"enabled": True}}, "scope": "session"},
        ]


async def test_6_2_a_trusted_servers_tool_runs_unattended() -> None:
    async with PolicyBench(NOTES, *CALL) as bench:
        assert await bench.answer() == ACCEPTED


async def test_6_2_trust_for_the_session_is_asked_for_where_it_is_offered() -> None:
    policy = trust_mcp_servers({"notes"}, persist=True)
    async with PolicyBench(policy, *CALL) as bench:
        assert await bench.answer() == {**ACCEPTED, "_meta": {"persist": "session"}}


async def test_6_2_a_tool_call_asked_as_a_question_is_trusted_too() -> None:
    question = {
        "id": "mcp_tool_call_approval_1",
        "header": "H",
        "question": "Allow?",
        "options": [{"label": "Allow", "description": ""}, {"label": "Cancel", "description": ""}],
    }
    params = {**TURN, "itemId": "call", "isBlocking": True, "questions": [question]}
    async with PolicyBench(NOTES, call_runs(), AskClient(QUESTION, params)) as bench:
        assert await bench.answer() == {
            "answers": {"mcp_tool_call_approval_1": {"answers": ["Allow"]}}
        }


# --- what is not -------------------------------------------------------------------------------


OTHERS: dict[str, list[Entry]] = {
    "another server": [call_runs(server="other"), ask_tool("other")],
    "no call": [ask_tool()],
    "another server's call": [call_runs(server="other"), ask_tool()],
    "other arguments": [call_runs(), ask_tool(arguments={"x": 1})],
    "a form": [
        call_runs(),
        ask_tool(requestedSchema={"type": "object", "properties": {"x": {"type": "string"}}}),
    ],
    "a page": [call_runs(), ask_tool(mode="url", url="https://127.0.0.1/", elicitationId="e")],
    "another kind": [call_runs(), elicit(meta={"codex_approval_kind": "tool_suggestion"})],
    "no turn": [call_runs(), ask_tool(turnId=None)],
    "an honest form": [call_runs(), elicit()],
}


@pytest.mark.parametrize("entries", OTHERS.values(), ids=OTHERS)
async def test_6_2_trust_never_covers_anything_else(
    entries: list[Entry], caplog: pytest.LogCaptureFixture
) -> None:
    async with PolicyBench(NOTES, *entries) as bench:
        assert await bench.answer() == NO_INPUT
        (told,) = bench.refused
        assert (told.id, told.method) == (0, ELICITATION)
    (warning,) = warnings_of(caplog)
    assert ELICITATION in warning


async def test_2_7_a_second_request_cannot_ride_on_a_call_that_was_asked_about() -> None:
    async with PolicyBench(NOTES, *CALL, ask_tool()) as bench:
        assert await bench.answers(2) == [ACCEPTED, NO_INPUT]


async def test_2_7_nor_on_one_that_was_denied() -> None:
    async with PolicyBench(trust_mcp_servers({"x"}), *CALL) as bench:
        assert await bench.answer() == NO_INPUT
        bench.client.use_policy(NOTES)
        bench.server.play(ask_tool())
        assert await bench.answers(2) == [NO_INPUT, NO_INPUT]


@pytest.mark.parametrize("policy", [None, deny_all], ids=["none", "deny_all"])
@pytest.mark.parametrize("method", sorted(SAMPLES))
async def test_6_1_without_a_grant_every_request_gets_its_refusal_with_one_warning(
    policy: Policy | None, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with PolicyBench(policy, AskClient(method, SAMPLES[method])) as bench:
        await bench.answers()
        (answer,) = bench.server.player.answers
        (told,) = bench.refused
        assert told.method == method
        if "error" in answer.message:
            error: Any = answer.message["error"]
            assert error["code"] == -32601
        else:
            assert "accept" not in encode(answer.message).decode()
    (warning,) = warnings_of(caplog)
    assert method in warning


async def test_6_2_elicitations_go_to_no_callback() -> None:
    asked = Asked()
    asked.release.set()
    question = {"id": "q", "header": "H", "question": "Which?"}
    params = {**TURN, "itemId": "i", "isBlocking": True, "questions": [question]}
    entries: list[Entry] = [call_runs(), elicit(), AskClient(QUESTION, params)]
    async with PolicyBench(ask(asked), *entries) as bench:
        assert await bench.answers(2) == [NO_INPUT, {"answers": {}}]
    assert asked.questions == []


async def test_6_2_a_handler_of_the_method_wins() -> None:
    async def mine(_request: object) -> CommandExecutionRequestApprovalResponse:
        return CommandExecutionRequestApprovalResponse(decision="accept")

    bench = PolicyBench(deny_all, ask_command())
    bench.client.handle({"item/commandExecution/requestApproval": mine})
    async with bench:
        assert await bench.answer() == {"decision": "accept"}
        assert bench.refused == []


async def test_6_2_a_callbacks_no_is_no_warning_and_a_policys_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with PolicyBench(ask(lambda _q: None), ask_command()) as bench:
        assert await bench.answer() == DECLINED
        assert bench.refused == []
        assert warnings_of(caplog) == []


# --- installing --------------------------------------------------------------------------------


async def test_a_policy_can_be_replaced() -> None:
    async with PolicyBench(deny_all, ask_command()) as bench:
        assert await bench.answer() == DECLINED
        bench.client.use_policy(ask(lambda _q: Once()))
        bench.server.play(ask_command())
        assert await bench.answers(2) == [DECLINED, {"decision": "accept"}]


async def test_a_policy_decides_on_the_turns_that_this_client_has_begun_before_it_came() -> None:
    async with PolicyBench(None) as bench:
        bench.client.use_policy(ask(lambda _q: Once()))
        bench.server.play(ask_command())
        assert await bench.answer() == {"decision": "accept"}


async def test_a_policy_and_a_handler_of_all_others_exclude_each_other() -> None:
    async def others(_request: object) -> CommandExecutionRequestApprovalResponse:
        raise AssertionError("it must not be called")

    async with ScriptedAppServer() as server:
        client = CodexClient(server.link)
        client.handle_others(others)
        with pytest.raises(MisuseError, match="handle_others"):
            client.use_policy(deny_all)
        client.handle_others(None)
        client.use_policy(deny_all)
        with pytest.raises(MisuseError, match="policy"):
            client.handle_others(others)
        await client.aclose()
