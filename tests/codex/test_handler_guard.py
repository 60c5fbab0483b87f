"""Contract 3.7 for a program's own handlers: no answer of theirs is taken for another action."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from codex_acp.codex import Once, deny_all
from codex_acp.codex.approvals.refusals import is_negative, refusal
from codex_acp.codex.types import CommandExecutionRequestApprovalResponse as Reply
from codex_acp.codex.types import (
    FileChangeRequestApprovalResponse,
    ItemCommandExecutionRequestApproval,
    McpServerElicitationRequestResponse,
    RequestPermissionProfile,
)
from codex_acp.errors import RpcError
from codex_acp.testing import AskClient, AwaitAnswer, Expect, Notify
from tests.codex.policy_bench import (
    ASKED,
    DECLINED,
    ELICITATION,
    FILES,
    TURN,
    Asked,
    PolicyBench,
    ask_command,
)
from tests.codex.server_request_samples import COMMAND

pytestmark = pytest.mark.attack("model")

ACCEPTED = {"decision": "accept"}


class Handler:
    """Answers when it is told to."""

    def __init__(self, decision: Any = "accept") -> None:
        self.asked: list[str | None] = []
        self.called = anyio.Event()
        self.release = anyio.Event()
        self.cancelled = anyio.Event()
        self.decision = decision

    async def __call__(self, request: ItemCommandExecutionRequestApproval) -> Reply:
        self.asked.append(request.params.command)
        self.called.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Reply(decision=self.decision)


def starts(command: str, item_id: str = "i") -> Notify:
    item = {
        "type": "commandExecution",
        "id": item_id,
        "command": command,
        "cwd": "/w",
        "status": "inProgress",
        "commandActions": [],
    }
    return Notify("item/started", {**TURN, "item": item, "startedAtMs": 1})


@pytest.mark.parametrize("early", [False, True], ids=["registered in the turn", "before it"])
async def test_3_7_of_two_under_one_id_a_handler_allows_none(early: bool) -> None:
    handler = Handler()
    bench = PolicyBench(None)
    if early:
        bench.client.handle(COMMAND, handler)
    async with bench:
        bench.client.handle(COMMAND, handler)
        bench.server.play(starts("ls"), ask_command("ls"))
        await handler.called.wait()
        bench.server.play(ask_command("rm -rf /"))
        assert await bench.answers(2) == [DECLINED, DECLINED]
        assert handler.asked == ["ls"]
        assert handler.cancelled.is_set()
        assert "one id to several actions" in bench.refused[-1].reason


async def test_3_7_one_that_comes_behind_an_allowed_one_ends_the_turn() -> None:
    handler = Handler()
    handler.release.set()
    async with PolicyBench(None) as bench:
        bench.client.handle(COMMAND, handler)
        bench.server.play(ask_command("ls"))
        assert await bench.answer() == ACCEPTED
        bench.server.play(ask_command("rm -rf /"), Expect("turn/interrupt"))
        assert await bench.answers(2) == [ACCEPTED, DECLINED]
        await bench.server.wait_finished()
        assert handler.asked == ["ls"]


async def test_3_7_another_command_that_starts_in_its_place_ends_the_turn() -> None:
    handler = Handler()
    handler.release.set()
    bench = PolicyBench(None)
    bench.client.handle(COMMAND, handler)
    async with bench:
        bench.server.play(starts("ls"), ask_command("ls"))
        assert await bench.answer() == ACCEPTED
        bench.server.play(starts("rm -rf /"), Expect("turn/interrupt"))
        await bench.server.wait_finished()


async def test_3_7_a_handler_and_a_policy_know_of_each_other() -> None:
    asked = Asked(Once())
    from codex_acp.codex import ask

    def allow(_request: object) -> FileChangeRequestApprovalResponse:
        raise AssertionError

    async with PolicyBench(ask(asked)) as bench:
        bench.client.handle(FILES, allow)
        bench.server.play(ask_command("ls"))
        await asked.called.wait()
        bench.server.play(AskClient(FILES, dict(ASKED)))
        assert await bench.answers(2) == [DECLINED, DECLINED]


@pytest.mark.parametrize("second", ["a command", "a running turn's command", "files"])
@pytest.mark.parametrize("allowed", [False, True], ids=["pending", "allowed"])
async def test_3_7_a_request_of_a_turn_whose_start_was_missed_shares_its_id_with_none(
    allowed: bool, second: str
) -> None:
    handler = Handler()
    if allowed:
        handler.release.set()
    async with PolicyBench(None) as bench:
        bench.client.handle(COMMAND, handler)
        bench.client.use_policy(deny_all)
        bench.server.play(ask_command("ls", turnId="missed"))
        await handler.called.wait()
        if allowed:
            assert await bench.answer() == ACCEPTED
        bench.server.play(
            {
                "a command": ask_command("rm -rf /", turnId="missed"),
                "a running turn's command": ask_command("rm -rf /"),
                "files": AskClient(FILES, {**ASKED, "turnId": "missed"}),
            }[second],
            *([Expect("turn/interrupt")] if allowed else []),
        )
        assert await bench.answers(2) == [ACCEPTED if allowed else DECLINED, DECLINED]
        await bench.server.wait_finished()
        assert handler.asked == ["ls"]


async def test_3_7_of_a_turn_whose_start_was_missed_an_id_is_free_after_a_no_or_its_end() -> None:
    handler = Handler("decline")
    handler.release.set()
    async with PolicyBench(None) as bench:
        bench.client.handle(COMMAND, handler)
        bench.server.play(ask_command("ls", turnId="missed"))
        assert await bench.answer() == DECLINED
        handler.decision = "accept"
        turn = {"id": "missed", "items": [], "status": "completed"}
        bench.server.play(
            ask_command("ls -l", turnId="missed"),
            AwaitAnswer(COMMAND),
            Notify("turn/completed", {"threadId": "${turn:threadId}", "turn": turn}),
            ask_command("ls -a", turnId="missed"),
        )
        assert await bench.answers(3) == [DECLINED, ACCEPTED, ACCEPTED]


async def test_3_7_what_handles_all_methods_is_guarded_as_well() -> None:
    handler = Handler()
    async with PolicyBench(None) as bench:
        bench.client.handle_others(handler)  # type: ignore[arg-type] # only commands are asked
        bench.server.play(ask_command("ls"))
        await handler.called.wait()
        bench.server.play(ask_command("rm -rf /"))
        assert await bench.answers(2) == [DECLINED, DECLINED]


@pytest.mark.parametrize("others", [False, True], ids=["its own handler", "one for all"])
@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("https://good.example/", True),
        ("https://evil.example/\\@good.example/", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
    ],
)
@pytest.mark.attack("MCP server")
async def test_2_4_a_handler_is_asked_only_about_pages_that_read_as_what_they_are(
    url: str, accepted: bool, others: bool
) -> None:
    seen: list[object] = []

    async def opened(request: Any) -> McpServerElicitationRequestResponse:
        seen.append(request.params.url)
        return McpServerElicitationRequestResponse(action="accept")

    page = {**TURN, "serverName": "notes", "mode": "url", "message": "Log in", "url": url}
    async with PolicyBench(None) as bench:
        if others:
            bench.client.handle_others(opened)
        else:
            bench.client.handle(ELICITATION, opened)
        bench.server.play(AskClient(ELICITATION, {**page, "_meta": None, "elicitationId": "e"}))
        assert await bench.answer() == {"action": "accept" if accepted else "decline"}
        assert seen == ([url] if accepted else [])
        if not accepted:
            assert "the URL was refused: it" in bench.refused[-1].reason


@pytest.mark.parametrize("decision", ["decline", "cancel"])
async def test_after_a_no_the_id_may_be_asked_about_again(decision: str) -> None:
    handler = Handler(decision)
    handler.release.set()
    async with PolicyBench(None) as bench:
        bench.client.handle(COMMAND, handler)
        bench.server.play(ask_command("ls"))
        assert await bench.answer() == {"decision": decision}
        bench.server.play(ask_command("ls -l"))
        assert await bench.answers(2) == [{"decision": decision}] * 2
        assert handler.asked == ["ls", "ls -l"]


async def test_different_ids_are_independent_and_any_reply_is_sent_as_it_is() -> None:
    handler = Handler({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}})
    handler.release.set()
    async with PolicyBench(None) as bench:
        bench.client.handle(COMMAND, handler)
        bench.server.play(ask_command("ls"), ask_command("cat", itemId="j"))
        assert await bench.answers(2) == [{"decision": handler.decision}] * 2


def test_every_refusal_is_a_no() -> None:
    from codex_acp.codex.request_api import APPROVAL_METHODS

    for method in APPROVAL_METHODS:
        reply = refusal(method, {}, "no")
        assert not isinstance(reply, RpcError)
        assert is_negative(reply)
    assert not is_negative(Reply(decision="accept"))
    assert not is_negative(Reply(decision="acceptForSession"))
    assert not is_negative(RequestPermissionProfile())
