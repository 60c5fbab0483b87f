"""The ways to log in that a client is offered at ``initialize``.

As JSON, which a process just started can send before it has loaded a model. Source: ACP page
"Authentication", ``AuthMethod``; Codex ``LoginAccountParams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import AuthMethod
    from codex_acp.jsonrpc.message import JsonValue

__all__ = [
    "API_KEY",
    "API_KEY_VARIABLES",
    "CHATGPT",
    "DEVICE_CODE",
    "LOGIN_ARGS",
    "TERMINAL",
    "auth_methods",
    "auth_methods_json",
]

CHATGPT: Final = "chat-gpt"
"""Codex's login in a browser. This id and the next two are those of OpenAI's users already."""

DEVICE_CODE: Final = "chat-gpt-device-code"
"""The same on another device, by a code that the person types there."""

API_KEY: Final = "api-key"
"""A key of the OpenAI platform, from ``_meta["api-key"].apiKey`` or the environment."""

TERMINAL: Final = "codex-login"
"""``codex login`` in a terminal that the client runs."""

API_KEY_VARIABLES: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for, in this order, when the request does not carry one."""

LOGIN_ARGS: Final = ("login",)
"""What the client adds to this agent's command line for the login in a terminal."""


def auth_methods_json(capabilities: JsonValue, *, browser: bool) -> list[JsonValue]:
    """The methods for a client with these ``clientCapabilities``.

    ``browser``: whether this process could open one. Who can neither be sent to a page nor has
    one opened is not offered what would end there.
    """
    pages = _pages(capabilities)
    methods: list[JsonValue] = []
    if pages or browser:
        methods.append(
            {
                "id": CHATGPT,
                "name": "Log in with ChatGPT",
                "description": "Opens the login page of OpenAI in a browser on this machine",
            }
        )
    if pages:
        methods.append(
            {
                "id": DEVICE_CODE,
                "name": "Log in with ChatGPT on another device",
                "description": "Shows a page and a code to type there; for remote machines",
            }
        )
    methods.append(
        {
            "id": API_KEY,
            "name": "Use an OpenAI API key",
            "description": f"Takes the key from {' or '.join(API_KEY_VARIABLES)}",
        }
    )
    if _terminal(capabilities):
        methods.append(
            {
                "id": TERMINAL,
                "name": "Log in with `codex login`",
                "description": "Runs Codex's own login in a terminal",
                "args": list(LOGIN_ARGS),
                "type": "terminal",
            }
        )
    return methods


def auth_methods(capabilities: JsonValue, *, browser: bool) -> list[AuthMethod]:
    """`auth_methods_json` as models."""
    from codex_acp.acp._generated.v1.models import AgentAuthMethod, TerminalAuthMethod
    from codex_acp.wire.codec import decode

    found: list[AuthMethod] = []
    for method in auth_methods_json(capabilities, browser=browser):
        if isinstance(method, dict) and "type" in method:
            found.append(decode(TerminalAuthMethod, method))
        else:
            found.append(decode(AgentAuthMethod, method))
    return found


def _pages(capabilities: JsonValue) -> bool:
    """``elicitation.url`` is advertised by any object."""
    elicitation = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(elicitation, dict) and isinstance(elicitation.get("url"), dict)


def _terminal(capabilities: JsonValue) -> bool:
    """``auth.terminal`` is true."""
    auth = capabilities.get("auth") if isinstance(capabilities, dict) else None
    return isinstance(auth, dict) and auth.get("terminal") is True
