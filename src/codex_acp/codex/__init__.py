"""Client library for the Codex app-server: launch it, call it, and answer its requests.

::

    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=".")
        result = await thread.run("What is in this directory?")
        print(result.text)

`codex_acp.codex.sync` is for programs without an event loop. Models, events and server requests are
in `codex_acp.codex.types`: its ``Thread`` and ``Turn`` are data, those here are objects with
methods. Names load when they are first
used: importing this package loads neither a model nor pydantic nor an event loop.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from codex_acp.codex.approvals.classify import ApprovalRequest as ApprovalRequest
    from codex_acp.codex.approvals.classify import CommandApproval as CommandApproval
    from codex_acp.codex.approvals.classify import FileChangeApproval as FileChangeApproval
    from codex_acp.codex.approvals.classify import LegacyCommandApproval as LegacyCommandApproval
    from codex_acp.codex.approvals.classify import LegacyPatchApproval as LegacyPatchApproval
    from codex_acp.codex.approvals.classify import McpToolApproval as McpToolApproval
    from codex_acp.codex.approvals.classify import McpToolQuestion as McpToolQuestion
    from codex_acp.codex.approvals.classify import PermissionsApproval as PermissionsApproval
    from codex_acp.codex.approvals.grants import Always as Always
    from codex_acp.codex.approvals.grants import Grant as Grant
    from codex_acp.codex.approvals.grants import Once as Once
    from codex_acp.codex.approvals.grants import RememberHost as RememberHost
    from codex_acp.codex.approvals.grants import RememberPrefix as RememberPrefix
    from codex_acp.codex.approvals.grants import Session as Session
    from codex_acp.codex.approvals.policies import Allow as Allow
    from codex_acp.codex.approvals.policies import ApprovalQuestion as ApprovalQuestion
    from codex_acp.codex.approvals.policies import Deny as Deny
    from codex_acp.codex.approvals.policies import ParkedApproval as ParkedApproval
    from codex_acp.codex.approvals.policies import ParkedApprovals as ParkedApprovals
    from codex_acp.codex.approvals.policies import Policy as Policy
    from codex_acp.codex.approvals.policies import allow_commands as allow_commands
    from codex_acp.codex.approvals.policies import allow_edits as allow_edits
    from codex_acp.codex.approvals.policies import ask as ask
    from codex_acp.codex.approvals.policies import deny_all as deny_all
    from codex_acp.codex.approvals.policies import first_of as first_of
    from codex_acp.codex.approvals.policies import trust_mcp_servers as trust_mcp_servers
    from codex_acp.codex.approvals.policies import warn_if_never_asked as warn_if_never_asked
    from codex_acp.codex.approvals.policies import why_never_asked as why_never_asked
    from codex_acp.codex.approvals.refusals import REFUSALS as REFUSALS
    from codex_acp.codex.approvals.refusals import has_negative_form as has_negative_form
    from codex_acp.codex.approvals.refusals import refusal as refusal
    from codex_acp.codex.client import CodexClient as CodexClient
    from codex_acp.codex.connection.launch import CodexBinary as CodexBinary
    from codex_acp.codex.connection.launch import LaunchOptions as LaunchOptions
    from codex_acp.codex.connection.launch import codex_version as codex_version
    from codex_acp.codex.connection.launch import find_codex as find_codex
    from codex_acp.codex.connection.launch import signed_bearer_token as signed_bearer_token
    from codex_acp.codex.connection.launch import spawn_app_server as spawn_app_server
    from codex_acp.codex.connection.notification_decoding import (
        NotificationDecoder as NotificationDecoder,
    )
    from codex_acp.codex.connection.notification_decoding import (
        decode_notification as decode_notification,
    )
    from codex_acp.codex.connection.notification_router import NotificationSink as NotificationSink
    from codex_acp.codex.connection.server_requests import OpenRequest as OpenRequest
    from codex_acp.codex.connection.server_requests import RefusedRequest as RefusedRequest
    from codex_acp.codex.threads.notification_stream import NotificationStream as NotificationStream
    from codex_acp.codex.threads.options import Input as Input
    from codex_acp.codex.threads.options import image as image
    from codex_acp.codex.threads.options import mention as mention
    from codex_acp.codex.threads.options import skill as skill
    from codex_acp.codex.threads.results import RunResult as RunResult
    from codex_acp.codex.threads.thread import Thread as Thread
    from codex_acp.codex.threads.threads import Threads as Threads
    from codex_acp.codex.threads.tools import Tool as Tool
    from codex_acp.codex.threads.tools import tool as tool
    from codex_acp.codex.threads.turn import Turn as Turn
    from codex_acp.codex.threads.turn_errors import OutputInvalid as OutputInvalid
    from codex_acp.codex.threads.turn_errors import ReachedElsewhere as ReachedElsewhere
    from codex_acp.codex.threads.turn_errors import ThreadClosed as ThreadClosed
    from codex_acp.codex.threads.turn_errors import TurnFailed as TurnFailed
    from codex_acp.codex.threads.turn_errors import TurnInterrupted as TurnInterrupted
    from codex_acp.codex.threads.turn_errors import TurnSilent as TurnSilent
    from codex_acp.codex.threads.turn_errors import TurnUnfinished as TurnUnfinished
    from codex_acp.codex.threads.watchdog import SilentTurn as SilentTurn
    from codex_acp.codex.threads.watchdog import TurnWatchdog as TurnWatchdog
    from codex_acp.transport.remote_address import Token as Token
else:
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
