"""Contract 6.2: the library says when Codex will never ask a policy."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from codex_acp.codex import (
    Policy,
    ask,
    deny_all,
    trust_mcp_servers,
    warn_if_never_asked,
    why_never_asked,
)
from codex_acp.codex.types import (
    AskForApproval,
    DangerFullAccessSandboxPolicy,
    GranularAskForApproval,
    GranularDetails,
    ReadOnlySandboxPolicy,
    SandboxPolicy,
    ThreadStartResponse,
    WorkspaceWriteSandboxPolicy,
)
from codex_acp.testing import Expect
from codex_acp.wire.codec import decode
from tests.codex.policy_bench import PolicyBench

ASK = ask(lambda _question: None)
NOTES = trust_mcp_servers({"notes"})
READ_ONLY = ReadOnlySandboxPolicy()
FULL = DangerFullAccessSandboxPolicy()
GRANULAR = GranularAskForApproval(
    granular=GranularDetails(mcp_elicitations=True, rules=False, sandbox_approval=False)
)
APPROVE = {"notes": {"default_tools_approval_mode": "approve"}}


def started(approval_policy: str, sandbox: str = "readOnly") -> dict[str, Any]:
    """The answer of ``thread/start`` with these settings."""
    return {
        "approvalPolicy": approval_policy,
        "approvalsReviewer": "user",
        "cwd": "/w",
        "model": "m",
        "modelProvider": "p",
        "sandbox": {"type": sandbox},
        "thread": {
            "id": "t",
            "turns": [],
            "cliVersion": "0",
            "createdAt": 1,
            "updatedAt": 1,
            "cwd": "/w",
            "ephemeral": False,
            "modelProvider": "p",
            "preview": "",
            "projectId": None,
            "sessionId": "s",
            "source": "appServer",
            "status": {"type": "idle"},
        },
    }


@pytest.mark.parametrize("policy", [ASK, NOTES, NOTES | ASK, deny_all | NOTES])
@pytest.mark.parametrize("sandbox", [READ_ONLY, WorkspaceWriteSandboxPolicy(), FULL])
def test_6_2_under_never_nobody_is_asked(policy: Policy, sandbox: SandboxPolicy) -> None:
    text = why_never_asked(policy, "never", sandbox)
    assert text is not None
    assert "on-request" in text
    assert ("full access" in text) == (sandbox is FULL)


@pytest.mark.parametrize("settings", ["on-request", GRANULAR])
@pytest.mark.parametrize("sandbox", [READ_ONLY, FULL])
def test_6_2_otherwise_a_policy_may_be_asked(
    settings: AskForApproval, sandbox: SandboxPolicy
) -> None:
    assert why_never_asked(ASK, settings, sandbox) is None
    assert why_never_asked(NOTES, settings, sandbox) is None


def test_6_2_a_policy_that_grants_nothing_misses_nothing() -> None:
    assert why_never_asked(deny_all, "never", READ_ONLY) is None
    assert why_never_asked(trust_mcp_servers(()), "never", READ_ONLY) is None


def test_6_2_servers_that_codex_approves_by_itself_need_no_policy() -> None:
    assert why_never_asked(NOTES, "never", READ_ONLY, mcp_servers=APPROVE) is None
    assert why_never_asked(NOTES | ASK, "never", READ_ONLY, mcp_servers=APPROVE) is not None
    more = trust_mcp_servers({"notes", "other"})
    text = why_never_asked(more, "never", READ_ONLY, mcp_servers=APPROVE)
    assert text is not None
    assert "default_tools_approval_mode" in text


@pytest.mark.parametrize("reviewer", ["auto_review", "guardian_subagent"])
def test_6_2_codexs_own_reviewer_is_asked_instead(reviewer: Any) -> None:
    text = why_never_asked(NOTES, "on-request", READ_ONLY, reviewer)
    assert text is not None
    assert reviewer in text


def test_6_2_the_helper_logs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    thread = decode(ThreadStartResponse, started("never"))
    text = warn_if_never_asked(NOTES, thread)
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [text]
    assert warn_if_never_asked(NOTES, thread, APPROVE) is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("settings", "warnings"), [("never", 1), ("on-request", 0)])
async def test_6_2_a_client_with_a_policy_says_it_once_at_the_start_of_a_thread(
    settings: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    starts = [Expect("thread/start", started(settings))] * 2
    async with PolicyBench(NOTES, *starts) as bench:
        await bench.client.thread_start()
        await bench.client.thread_start()
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(said) == warnings
    assert all("never" in text for text in said)
