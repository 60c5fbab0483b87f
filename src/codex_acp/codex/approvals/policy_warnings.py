"""PURE but for one log line: whether Codex will ever ask a policy under a thread's settings (6.2).

Codex's own settings decide whether it asks at all. Checked on Codex 0.163: under approval policy
``never`` it asks nobody, and in a sandbox the tool or the escalated command fails; with full access
everything runs. ``on-request`` and every ``granular`` policy ask about MCP tools in every sandbox.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from codex_acp.codex._generated.models import DangerFullAccessSandboxPolicy

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import ApprovalsReviewer, AskForApproval, SandboxPolicy
    from codex_acp.codex.approvals.policies import Policy

logger = logging.getLogger(__name__)

McpServerConfig = Mapping[str, object]
"""A server's table in Codex's configuration, in its own spelling."""


class StartedThread(Protocol):
    """The answer of ``thread/start``, ``thread/resume`` or ``thread/fork``."""

    @property
    def approval_policy(self) -> AskForApproval:
        """When Codex asks."""

    @property
    def sandbox(self) -> SandboxPolicy:
        """The sandbox that commands run in unasked."""

    @property
    def approvals_reviewer(self) -> ApprovalsReviewer:
        """Whom Codex asks."""


def why_never_asked(
    policy: Policy,
    approval_policy: AskForApproval,
    sandbox: SandboxPolicy,
    approvals_reviewer: ApprovalsReviewer = "user",
    mcp_servers: Mapping[str, McpServerConfig] | None = None,
) -> str | None:
    """The warning for a policy that Codex will never ask under these settings; None if it may.

    ``mcp_servers`` is that table of Codex's configuration, if the program knows it: tools of a
    server with ``default_tools_approval_mode = "approve"`` run without being asked about, so a
    policy that trusts only such servers misses nothing. A turn can override the settings.
    """
    interest = policy.interest
    if not interest.anything and not interest.servers:
        return None
    servers = mcp_servers or {}
    unasked = [servers.get(n, {}).get("default_tools_approval_mode") for n in interest.servers]
    if not interest.anything and all(mode == "approve" for mode in unasked):
        return None
    if approvals_reviewer in ("auto_review", "guardian_subagent"):
        return (
            f"the policy will not be asked: approvals of this thread go to Codex's own reviewer "
            f'({approvals_reviewer}); start it with approvals_reviewer "user"'
        )
    if approval_policy != "never":
        return None
    if isinstance(sandbox, DangerFullAccessSandboxPolicy):
        return (
            'the policy will never be asked: under approval policy "never" with full access Codex '
            'runs everything without asking; use approval policy "on-request"'
        )
    ways = 'use approval policy "on-request", or "granular" with mcp_elicitations'
    if interest.servers:
        ways += ', or default_tools_approval_mode = "approve" for the servers that are trusted'
    return (
        'the policy will never be asked: under approval policy "never" in a sandbox Codex asks '
        f"nobody, and what would need an approval fails; {ways}"
    )


def warn_if_never_asked(
    policy: Policy, thread: StartedThread, mcp_servers: Mapping[str, McpServerConfig] | None = None
) -> str | None:
    """Log `why_never_asked` as one warning, and return it; a client with a policy does so."""
    text = why_never_asked(
        policy, thread.approval_policy, thread.sandbox, thread.approvals_reviewer, mcp_servers
    )
    if text is not None:
        logger.warning("%s", text)
    return text
