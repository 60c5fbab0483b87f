"""What the real Codex cannot be made to do, by a scripted app-server (contract 1.4, 3.2, 3.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from codex_acp.testing import (
    AskClient,
    AwaitAnswer,
    Expect,
    Notify,
    ScriptedAppServer,
    command_approval,
    file_change_approval,
    request_resolved,
    turn_completed,
    turn_started,
)
from tests.e2e_contract.contract_bench import ContractBench, Scenes

COMMAND = "item/commandExecution/requestApproval"


@asynccontextmanager
async def scripted(version: int) -> AsyncIterator[tuple[ContractBench, ScriptedAppServer]]:
    """A bench whose Codex is a script, which has come to the start of a turn."""
    script = [Expect("initialize"), Expect("thread/start"), Expect("turn/start"), *turn_started()]
    async with ScriptedAppServer(script) as server:
        bench = ContractBench(Scenes(), version, link=lambda: server.link)
        try:
            await bench.start()
            yield bench, server
            bench.check()
        finally:
            await bench.stop()


def last_asked(bench: ContractBench) -> dict[str, Any]:
    """Codex's newest request."""
    return bench.wire.asked()[-1]


@pytest.mark.attack("app-server")
async def test_1_4_a_request_for_a_thread_that_no_session_holds_is_declined_at_once(
    version: int,
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        (asked,) = [e for e in command_approval() if isinstance(e, AskClient)]
        assert asked.params is not None
        foreign = {**asked.params, "threadId": "thread-of-nobody"}
        server.play(AskClient(COMMAND, foreign), AwaitAnswer(COMMAND), *turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench)) == {"decision": "decline"}
        declined = [e.event for e in bench.entries if e.event.type == "request.declined"]
        assert [event.ref.session_id for event in declined] == [None]


@pytest.mark.parametrize("other", ["another command", "another method"])
@pytest.mark.attack("app-server")
async def test_3_7_an_id_that_codex_uses_for_another_request_fails_closed_with_one_reply(
    version: int, other: str
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(*command_approval("touch one", item_id="call-1"))
        bench.asks.stubborn = True
        asked = await bench.asks.next_permission()
        params = last_asked(bench)["params"]
        if other == "another command":
            again = AskClient(COMMAND, {**params, "command": "rm -rf /"}, id=0)
        else:
            patch = {name: params[name] for name in ("threadId", "turnId", "itemId", "startedAtMs")}
            again = AskClient("item/fileChange/requestApproval", patch, id=0)
        server.play(again)
        await bench.wait_until(lambda: bool(bench.asks.withdrawn))
        asked.choose("allow_once")
        await bench.wire.wait_until(lambda: bool(bench.wire.replies(last_asked(bench))))
        server.play(*turn_completed())

        assert await prompt.end() == "end_turn"
        assert [m["result"] for m in bench.wire.replies(last_asked(bench))] == [
            {"decision": "decline"}
        ]
        assert bench.statuses(session, "call-1") == ["in_progress", "pending", "failed"]
        assert "used its id for another request" in bench.said(session)
        assert bench.event_types(session) == ["approval.requested", "approval.decided"]


async def test_3_7_a_request_that_comes_again_unchanged_is_asked_once(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(*command_approval("touch one"))
        asked = await bench.asks.next_permission()
        server.play(AskClient(COMMAND, last_asked(bench)["params"], id=0))
        asked.choose("allow_once")
        await bench.wire.wait_until(lambda: bool(bench.wire.replies(last_asked(bench))))
        server.play(*turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench)) == {"decision": "accept"}


def interrupted_before(bench: ContractBench, request: dict[str, Any]) -> bool:
    """Whether the turn's interrupt was written before the reply to this request."""
    sent = [message for by, message in bench.wire.messages if by == "adapter"]
    interrupt = next(i for i, m in enumerate(sent) if m.get("method") == "turn/interrupt")
    return interrupt < sent.index(bench.wire.replies(request)[0])


async def test_3_7_an_acceptance_that_crosses_a_second_request_interrupts_the_turn(
    version: int,
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(*command_approval("touch one", name="first"))
        (await bench.asks.next_permission()).choose("allow_once")
        server.play(
            AwaitAnswer("first"),
            AskClient(COMMAND, {**last_asked(bench)["params"], "command": "touch two"}),
            Expect("turn/interrupt"),
            *turn_completed("interrupted"),
        )

        assert await prompt.end() == "cancelled"
        assert bench.wire.result(last_asked(bench)) == {"decision": "decline"}
        assert interrupted_before(bench, last_asked(bench))
        assert "what Codex runs may not be what was allowed (Run: touch one)" in bench.said(session)
        assert bench.statuses(session, "call-1")[-1] == "failed"
        assert bench.event_types(session) == [
            "approval.requested",
            "approval.decided",
            "approval.refused",
            "request.declined",
        ]


@pytest.mark.parametrize("report", ["item/started", "item/completed"])
async def test_3_7_another_command_that_runs_under_the_id_of_the_allowed_one_ends_the_turn(
    version: int, report: str
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        started, asking = command_approval("touch one", name="first")
        server.play(started, asking)
        (await bench.asks.next_permission()).choose("allow_once")
        assert isinstance(started, Notify)
        params: dict[str, Any] = dict(started.params or {})
        params["item"] = {**params["item"], "command": "touch two"}
        params["completedAtMs"] = params["startedAtMs"]
        server.play(
            AwaitAnswer("first"),
            Notify(report, params),
            Expect("turn/interrupt"),
            *turn_completed("interrupted"),
        )

        assert await prompt.end() == "cancelled"
        assert "The turn is interrupted" in bench.said(session)
        assert bench.event_types(session)[-1] == "approval.refused"


async def test_3_7_a_question_whose_item_becomes_another_command_is_withdrawn(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        started, asking = command_approval("touch one", name="first")
        server.play(started, asking)
        bench.asks.stubborn = True
        asked = await bench.asks.next_permission()
        assert isinstance(started, Notify)
        params: dict[str, Any] = dict(started.params or {})
        params["item"] = {**params["item"], "command": "touch two"}
        server.play(Notify("item/started", params))
        await bench.wait_until(lambda: bool(bench.asks.withdrawn))
        asked.choose("allow_once")
        server.play(AwaitAnswer("first"), *turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench)) == {"decision": "decline"}
        assert "one id to several actions" in bench.said(session)


async def test_3_2_nothing_is_accepted_that_codex_has_settled_itself(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(*command_approval("touch one"))
        bench.asks.stubborn = True
        asked = await bench.asks.next_permission()
        server.play(*request_resolved(0))
        await bench.wait_until(lambda: bool(bench.asks.withdrawn))
        asked.choose("allow_once")
        server.play(*turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench)) == {"decision": "decline"}


@pytest.mark.attack("model")
async def test_3_2_nothing_is_accepted_whose_arguments_are_no_longer_those_shown(
    version: int,
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(*file_change_approval("/scripted/workspace/new.txt", "shown\n", name="ask"))
        asked = await bench.asks.next_permission()
        params = last_asked(bench)["params"]
        worse = {"path": "/etc/passwd", "kind": {"type": "add"}, "diff": "not shown\n"}
        patched = {name: params[name] for name in ("threadId", "turnId", "itemId")}
        server.play(Notify("item/fileChange/patchUpdated", {**patched, "changes": [worse]}))
        await bench.wire.wait_until(
            lambda: bool(bench.wire.heard("item/fileChange/patchUpdated", session))
        )
        asked.choose("allow_once")
        server.play(AwaitAnswer("ask"), *turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench)) == {"decision": "decline"}
        assert "no longer what was shown" in bench.said(session)
        assert bench.event_types(session) == [
            "approval.requested",
            "approval.refused",
            "approval.decided",
        ]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (AskClient("item/telepathy/requestApproval", {"threadId": "thread-1"}), "telepathy"),
        (AskClient(COMMAND, {"threadId": "thread-1", "itemId": 7}), "cannot read it"),
        (
            AskClient(
                "mcpServer/elicitation/request",
                {"threadId": "thread-1", "turnId": None, "serverName": "x", "mode": "hologram"},
            ),
            "hologram",
        ),
    ],
    ids=["unknown method", "unreadable params", "unknown mode"],
)
async def test_1_6_what_is_declined_unread_is_said_and_in_the_transcript(
    version: int, request_: AskClient, said: str
) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        server.play(request_, AwaitAnswer(request_.request), *turn_completed())

        assert await prompt.end() == "end_turn"
        assert said in bench.said(session)
        assert bench.event_types(session) == ["request.declined"]


async def test_3_7_a_form_whose_id_codex_uses_again_is_withdrawn_and_said(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        form = {
            "threadId": session,
            "turnId": None,
            "serverName": "paint",
            "mode": "form",
            "_meta": None,
            "message": "Which?",
            "requestedSchema": {"type": "object", "properties": {"color": {"type": "string"}}},
        }
        method = "mcpServer/elicitation/request"
        server.play(AskClient(method, form, id=0))
        await bench.asks.next_elicitation()
        server.play(AskClient(method, {**form, "message": "Which password?"}, id=0))
        await bench.wait_until(lambda: bool(bench.asks.withdrawn))
        server.play(*turn_completed())

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench))["action"] == "decline"
        assert "used its id for another request" in bench.said(session)
        assert bench.event_types(session) == ["elicitation.requested", "elicitation.answered"]


async def test_3_5_what_codex_asks_after_a_cancel_is_not_asked_of_anybody(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        await bench.wire.wait_until(lambda: bool(bench.wire.heard("turn/started", session)))
        bench.cancel(session)
        server.play(
            Expect("turn/interrupt"),
            *command_approval("touch one", name="ask"),
            AwaitAnswer("ask"),
            *turn_completed("interrupted"),
        )

        assert await prompt.end() == "cancelled"
        assert bench.wire.result(last_asked(bench)) == {"decision": "cancel"}
        assert "the prompt was cancelled" in bench.said(session)
        assert bench.event_types(session) == ["request.declined"]


async def test_3_6_a_host_that_is_rejected_for_good_stays_so(version: int) -> None:
    async with scripted(version) as (bench, server):
        session = await bench.new_session()
        prompt = bench.prompt(session, "go")
        rules = [{"host": "evil.example", "action": action} for action in ("allow", "deny")]
        (asked,) = [e for e in command_approval("curl evil") if isinstance(e, AskClient)]
        assert asked.params is not None
        host = {
            **{k: v for k, v in asked.params.items() if k != "availableDecisions"},
            "approvalId": "network", "proposedExecpolicyAmendment": None,
            "networkApprovalContext": {"host": "evil.example", "protocol": "https"},
            "proposedNetworkPolicyAmendments": rules,
        }  # fmt: skip
        assert host["cwd"], "a path to look at once more"
        server.play(AskClient(COMMAND, host), AwaitAnswer(COMMAND), *turn_completed())
        (await bench.asks.next_permission()).choose("reject_always")

        assert await prompt.end() == "end_turn"
        assert bench.wire.result(last_asked(bench))["decision"] == {
            "applyNetworkPolicyAmendment": {"network_policy_amendment": rules[1]}
        }
