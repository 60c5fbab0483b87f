"""Client library for the Codex app-server: launch it, call it, hear it, answer it.

::

    async with CodexClient.start() as codex:
        thread = await codex.threads.start(cwd=".")
        result = await thread.run("What is in this directory?")
        print(result.text)

`codex_acp.codex.sync` has the same for programs without an event loop. Models, events and server
requests are in `codex_acp.codex.types`; the data of a thread or a turn there is not the object of
that name here. Names load when they are first
used: importing this package loads neither a model nor pydantic nor an event loop.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from codex_acp.codex.client import CodexClient as CodexClient
    from codex_acp.codex.find import CodexBinary as CodexBinary
    from codex_acp.codex.find import find_codex as find_codex
    from codex_acp.codex.grants import Always as Always
    from codex_acp.codex.grants import Grant as Grant
    from codex_acp.codex.grants import Once as Once
    from codex_acp.codex.grants import RememberHost as RememberHost
    from codex_acp.codex.grants import RememberPrefix as RememberPrefix
    from codex_acp.codex.grants import Session as Session
    from codex_acp.codex.inputs import Input as Input
    from codex_acp.codex.inputs import image as image
    from codex_acp.codex.launch import LaunchOptions as LaunchOptions
    from codex_acp.codex.launch import codex_version as codex_version
    from codex_acp.codex.launch import spawn_app_server as spawn_app_server
    from codex_acp.codex.notifications import NotificationDecoder as NotificationDecoder
    from codex_acp.codex.notifications import decode_notification as decode_notification
    from codex_acp.codex.policies import Allow as Allow
    from codex_acp.codex.policies import ApprovalQuestion as ApprovalQuestion
    from codex_acp.codex.policies import Deny as Deny
    from codex_acp.codex.policies import Policy as Policy
    from codex_acp.codex.policies import ask as ask
    from codex_acp.codex.policies import deny_all as deny_all
    from codex_acp.codex.policies import first_of as first_of
    from codex_acp.codex.policies import trust_mcp_servers as trust_mcp_servers
    from codex_acp.codex.policy_warnings import warn_if_never_asked as warn_if_never_asked
    from codex_acp.codex.policy_warnings import why_never_asked as why_never_asked
    from codex_acp.codex.refusals import REFUSALS as REFUSALS
    from codex_acp.codex.refusals import has_negative_form as has_negative_form
    from codex_acp.codex.refusals import refusal as refusal
    from codex_acp.codex.remote import Token as Token
    from codex_acp.codex.remote import signed_bearer_token as signed_bearer_token
    from codex_acp.codex.requests import OpenRequest as OpenRequest
    from codex_acp.codex.requests import RefusedRequest as RefusedRequest
    from codex_acp.codex.results import RunResult as RunResult
    from codex_acp.codex.sinks import NotificationSink as NotificationSink
    from codex_acp.codex.streams import NotificationStream as NotificationStream
    from codex_acp.codex.thread import Thread as Thread
    from codex_acp.codex.threads import Threads as Threads
    from codex_acp.codex.tools import Tool as Tool
    from codex_acp.codex.tools import tool as tool
    from codex_acp.codex.turn import Turn as Turn
    from codex_acp.codex.turn_errors import OutputInvalid as OutputInvalid
    from codex_acp.codex.turn_errors import TurnFailed as TurnFailed
    from codex_acp.codex.turn_errors import TurnInterrupted as TurnInterrupted
    from codex_acp.codex.turn_errors import TurnSilent as TurnSilent
    from codex_acp.codex.turn_errors import TurnUnfinished as TurnUnfinished
    from codex_acp.codex.watchdog import SilentTurn as SilentTurn
    from codex_acp.codex.watchdog import TurnWatchdog as TurnWatchdog

_MODULES = {
    "client": ("CodexClient",),
    "find": (
        "CodexBinary",
        "find_codex",
    ),
    "grants": (
        "Always",
        "Grant",
        "Once",
        "RememberHost",
        "RememberPrefix",
        "Session",
    ),
    "inputs": ("Input", "image"),
    "launch": (
        "LaunchOptions",
        "codex_version",
        "spawn_app_server",
    ),
    "notifications": (
        "NotificationDecoder",
        "decode_notification",
    ),
    "policies": (
        "Allow",
        "ApprovalQuestion",
        "Deny",
        "Policy",
        "ask",
        "deny_all",
        "first_of",
        "trust_mcp_servers",
    ),
    "policy_warnings": (
        "warn_if_never_asked",
        "why_never_asked",
    ),
    "refusals": (
        "REFUSALS",
        "has_negative_form",
        "refusal",
    ),
    "remote": ("Token", "signed_bearer_token"),
    "requests": (
        "OpenRequest",
        "RefusedRequest",
    ),
    "results": ("RunResult",),
    "sinks": ("NotificationSink",),
    "streams": ("NotificationStream",),
    "thread": ("Thread",),
    "threads": ("Threads",),
    "tools": (
        "Tool",
        "tool",
    ),
    "turn": ("Turn",),
    "turn_errors": (
        "OutputInvalid",
        "TurnFailed",
        "TurnInterrupted",
        "TurnSilent",
        "TurnUnfinished",
    ),
    "watchdog": (
        "SilentTurn",
        "TurnWatchdog",
    ),
}
"""Which module has which names; a test compares it with the imports above."""

_HOME_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [name for names in _MODULES.values() for name in names]


def __getattr__(name: str) -> object:
    """Load the module that has ``name`` (PEP 562)."""
    module = _HOME_OF.get(name)
    if module is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
