"""Policies as values: what they decide, how they combine, who may make accepting replies."""

from __future__ import annotations

import gc
import re
from collections.abc import Awaitable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

import codex_acp
from codex_acp.codex._generated.methods import MODELS, SERVER_REQUESTS
from codex_acp.codex._generated.server_requests import (
    REQUEST_CLASSES,
    ItemCommandExecutionRequestApproval,
    McpServerElicitationRequest,
)
from codex_acp.codex.approvals import policies
from codex_acp.codex.approvals.classify import ApprovalRequest, CommandApproval, McpToolApproval
from codex_acp.codex.approvals.grants import (
    Always,
    Once,
    Session,
    arguments_of,
    digest_of,
    offered_grants,
)
from codex_acp.codex.approvals.policies import (
    Allow,
    ApprovalQuestion,
    Decision,
    Deny,
    Interest,
    Policy,
    ask,
    deny_all,
    first_of,
    trust_mcp_servers,
)
from codex_acp.codex.types import McpFormElicitationParams, McpToolCallThreadItem
from codex_acp.errors import MisuseError

SOURCES = Path(codex_acp.__file__).parent
NO_TIME = 0.02
"""Seconds for a callback that never answers."""


def typed(method: str, params: dict[str, Any]) -> Any:
    name = SERVER_REQUESTS[method].params
    assert name is not None
    return REQUEST_CLASSES[method](0, MODELS.decode(name, params, method))


def command(text: str = "ls -l") -> CommandApproval:
    params = {"threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, "command": text}
    request = typed("item/commandExecution/requestApproval", params)
    assert isinstance(request, ItemCommandExecutionRequestApproval)
    return CommandApproval(request)


def tool(
    server: str = "notes", persist: object = None, environment: str | None = None
) -> McpToolApproval:
    params = {
        "threadId": "t",
        "turnId": "u",
        "serverName": server,
        "mode": "form",
        "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {}, "persist": persist},
        "message": "Allow?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    request = typed("mcpServer/elicitation/request", params)
    assert isinstance(request, McpServerElicitationRequest)
    assert isinstance(request.params, McpFormElicitationParams)
    item = McpToolCallThreadItem(
        id="i", server=server, tool="act", arguments={}, status="inProgress",
        environment_id=environment,
    )  # fmt: skip
    return McpToolApproval(request, request.params, item)


def question(approval: ApprovalRequest) -> ApprovalQuestion:
    return ApprovalQuestion(
        approval=approval,
        arguments=arguments_of(approval),
        offered=offered_grants(approval).grants,
        thread_id="t",
        root_thread_id="t",
        turn_id="u",
        item_id="i",
        digest=digest_of(approval),
    )


class _Says(Policy):
    def __init__(self, decision: Decision | None) -> None:
        self.decision = decision
        self.asked = 0

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        del question
        self.asked += 1
        return self.decision


# --- what there is -----------------------------------------------------------------------------


def test_6_2_no_ready_policy_accepts_without_naming_what() -> None:
    made = {
        name
        for name in vars(policies)
        if isinstance(getattr(policies, name), Policy)
        or "Policy" in str(getattr(getattr(policies, name), "__annotations__", {}).get("return"))
    }
    named = {"allow_commands", "allow_edits", "trust_mcp_servers"}
    assert made == {"deny_all", "ask", "first_of", *named}
    for name in dir(policies):
        assert not re.search(r"(accept|allow|approve|trust|grant)_?(all|any|every)", name, re.I)


@pytest.mark.parametrize(
    "policy",
    [deny_all, first_of(), trust_mcp_servers(()), trust_mcp_servers(("*",)), deny_all | deny_all],
    ids=repr,
)
@pytest.mark.parametrize(
    "approval", [command(), tool(), tool("*x")], ids=lambda a: type(a).__name__
)
async def test_6_2_a_policy_that_names_nothing_grants_nothing(
    policy: Policy, approval: ApprovalRequest
) -> None:
    assert not isinstance(await policy.decide(question(approval)), Allow)


def test_policies_are_values() -> None:
    assert trust_mcp_servers(["a", "b"]) == trust_mcp_servers({"b", "a"})
    assert trust_mcp_servers({"a"}) != trust_mcp_servers({"a"}, persist=True)
    assert (deny_all | trust_mcp_servers({"a"})) == first_of(deny_all, trust_mcp_servers({"a"}))
    assert hash(trust_mcp_servers({"a"})) == hash(trust_mcp_servers({"a"}))
    with pytest.raises(FrozenInstanceError):
        trust_mcp_servers({"a"}).names = frozenset({"b"})  # type: ignore[attr-defined]


# --- trust -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("persist", "offer", "grant"),
    [
        (False, None, Once()),
        (False, ["session", "always"], Once()),
        (True, ["session", "always"], Session()),
        (True, ["always"], Once()),
        (True, None, Once()),
    ],
)
async def test_6_2_a_trusted_server_gets_once_or_the_session_if_asked_and_offered(
    persist: bool, offer: object, grant: object
) -> None:
    policy = trust_mcp_servers({"notes"}, persist=persist)
    assert await policy.decide(question(tool(persist=offer))) == Allow(grant)  # type: ignore[arg-type]


async def test_6_2_trust_has_no_opinion_of_other_servers_and_of_what_is_no_tool_call() -> None:
    policy = trust_mcp_servers({"notes"})
    assert await policy.decide(question(tool("other"))) is None
    assert await policy.decide(question(command())) is None
    without = replace(question(tool()), offered=(Always(),))
    assert await policy.decide(without) is None


async def test_6_2_trust_in_a_server_is_none_in_that_of_an_environment_with_its_name() -> None:
    asked = question(tool(environment="box"))
    assert await trust_mcp_servers({"notes"}).decide(asked) is None
    assert await trust_mcp_servers({"notes (environment box)"}).decide(asked) == Allow(Once())
    assert await trust_mcp_servers({"notes (environment box)"}).decide(question(tool())) is None
    assert asked.digest != question(tool()).digest


def test_one_string_is_no_collection_of_servers() -> None:
    with pytest.raises(MisuseError, match="notes"):
        trust_mcp_servers("notes")


# --- combining ---------------------------------------------------------------------------------


async def test_6_2_the_first_policy_with_an_opinion_decides() -> None:
    silent, no, yes = _Says(None), _Says(Deny("no")), _Says(Allow(Once()))
    assert await (silent | no | yes).decide(question(command())) == Deny("no")
    assert (silent.asked, no.asked, yes.asked) == (1, 1, 0)
    assert await first_of(silent, yes, no).decide(question(command())) == Allow(Once())
    assert await first_of(silent, silent).decide(question(command())) is None


def test_what_a_policy_could_grant_adds_up() -> None:
    trusts = trust_mcp_servers({"a"}) | trust_mcp_servers({"b"})
    assert trusts.interest == Interest(servers=frozenset({"a", "b"}))
    assert (deny_all | trusts).interest == trusts.interest
    assert (trusts | ask(print)).interest.anything
    assert deny_all.interest == Interest()


# --- ask ---------------------------------------------------------------------------------------


def yes(asked: ApprovalQuestion) -> Once:
    del asked
    return Once()


async def yes_async(asked: ApprovalQuestion) -> Once:
    return yes(asked)


class YesObject:
    async def __call__(self, asked: ApprovalQuestion) -> Once:
        return yes(asked)


def yes_later(asked: ApprovalQuestion) -> Awaitable[Once]:
    return yes_async(asked)


@pytest.mark.parametrize("callback", [yes, yes_async, YesObject(), yes_later])
async def test_6_2_a_callback_grants_whether_it_is_async_or_not(callback: Any) -> None:
    assert await ask(callback).decide(question(command())) == Allow(Once())


async def test_6_2_a_callback_that_says_none_is_an_answered_denial() -> None:
    decision = await ask(lambda _question: None).decide(question(command()))
    assert isinstance(decision, Deny)
    assert decision.answered


def breaks(_asked: ApprovalQuestion) -> Once:
    raise ValueError("no screen")


def stops(_asked: ApprovalQuestion) -> Once:
    raise StopIteration


async def breaks_async(asked: ApprovalQuestion) -> Once:
    return breaks(asked)


async def cancels_itself(_asked: ApprovalQuestion) -> Once:
    raise anyio.get_cancelled_exc_class()


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (breaks, "ValueError: no screen"),
        (breaks_async, "ValueError: no screen"),
        (stops, "StopIteration"),
        (cancels_itself, "was cancelled"),
        (lambda _q: True, "not True"),
        (lambda _q: "accept", "not 'accept'"),
        (lambda _q: Once, "Once"),
        (lambda: None, "TypeError"),
    ],
)
async def test_6_2_a_callback_that_fails_is_a_denial_with_the_reason(
    callback: Any, reason: str
) -> None:
    decision = await ask(callback).decide(question(command()))
    assert isinstance(decision, Deny)
    assert reason in decision.reason
    assert not decision.answered


async def hangs(_asked: ApprovalQuestion) -> Once:
    await anyio.sleep_forever()
    raise AssertionError("not reached")


async def test_6_2_a_callback_that_hangs_is_a_denial_after_the_timeout() -> None:
    decision = await ask(hangs, timeout=NO_TIME).decide(question(command()))
    assert isinstance(decision, Deny)
    assert "within 0.02 s" in decision.reason


async def test_a_callback_that_fails_after_its_timeout_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(_asked: ApprovalQuestion) -> Once:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("in the clean-up")

    await ask(fails, timeout=NO_TIME).decide(question(command()))
    gc.collect()  # of the task: asyncio writes an error that nobody has read
    assert [record.message for record in caplog.records] == ["a callback failed"]


async def test_6_2_a_callback_that_blocks_holds_up_nobody() -> None:
    import threading

    release = threading.Event()

    def blocks(_asked: ApprovalQuestion) -> Once:
        release.wait(60)
        return Once()

    decision = await ask(blocks, timeout=NO_TIME).decide(question(command()))
    release.set()
    assert isinstance(decision, Deny)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_must_be_positive(timeout: float) -> None:
    with pytest.raises(MisuseError, match="timeout"):
        ask(yes, timeout=timeout)
