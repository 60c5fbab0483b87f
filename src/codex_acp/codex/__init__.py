"""Client library for the Codex app-server: launch it, call it, and answer its requests.

::

    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=".")
        result = await thread.run("What is in this directory?")
        print(result.text)

`codex_acp.codex.sync` is for programs without an event loop. Models, events and server requests are
in `codex_acp.codex.types`: ``Thread`` and ``Turn`` are data there, and objects with methods here.
Names load when they are first used: importing this package loads neither a model nor pydantic nor
an event loop.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "approvals.classify": (
            "ApprovalRequest CommandApproval FileChangeApproval LegacyCommandApproval "
            "LegacyPatchApproval McpToolApproval McpToolQuestion PermissionsApproval"
        ),
        "approvals.grants": "Always Grant Once RememberHost RememberPrefix Session",
        "approvals.policies": (
            "Allow ApprovalQuestion Deny ParkedApproval ParkedApprovals Policy allow_commands "
            "allow_edits ask deny_all first_of trust_mcp_servers warn_if_never_asked "
            "why_never_asked"
        ),
        "approvals.refusals": "REFUSALS has_negative_form refusal",
        "client": "CodexClient",
        "connection.launch": (
            "CodexBinary LaunchOptions codex_version find_codex signed_bearer_token "
            "spawn_app_server"
        ),
        "connection.notification_decoding": "NotificationDecoder decode_notification",
        "connection.notification_router": "NotificationSink",
        "connection.server_requests": "OpenRequest RefusedRequest",
        "threads.notification_stream": "NotificationStream",
        "threads.options": "Input image mention skill",
        "threads.results": "RunResult",
        "threads.thread": "Thread",
        "threads.threads": "Threads",
        "threads.tools": "Tool tool",
        "threads.turn": "Turn",
        "threads.turn_errors": (
            "OutputInvalid ReachedElsewhere ThreadClosed TurnFailed TurnInterrupted TurnSilent "
            "TurnUnfinished"
        ),
        "threads.watchdog": "SilentTurn TurnWatchdog",
        "codex_acp.transport.remote_address": "Token",
    },
)
