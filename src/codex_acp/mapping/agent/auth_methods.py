"""The ways to log in that a client is offered at ``initialize``.

As JSON, which a process just started can send before it has loaded a model. Source: ACP page
"Authentication", ``AuthMethod``; Codex ``LoginAccountParams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import value_at

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

CHATGPT: Final = "chat-gpt"
"""Codex's login in a browser. This id and the next two are those of OpenAI's users already."""

DEVICE_CODE: Final = "chat-gpt-device-code"
"""The same on another device, by a code that the person types there."""

API_KEY: Final = "api-key"
"""A key of the OpenAI platform, from ``_meta["api-key"].apiKey`` or the environment."""

GATEWAY: Final = "gateway"
"""A gateway of the client, from ``_meta.gateway``; for clients that say that they have one."""

TERMINAL: Final = "codex-login"
"""``codex login`` in a terminal that the client runs, where `CHATGPT` is shown in another way."""

ALIASES: Final = {"chatgpt": CHATGPT, "openai-api-key": API_KEY, "codex-api-key": API_KEY}
"""The ids of an earlier adapter, Zed's, which clients send that were written for it."""

API_KEY_VARIABLES: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for, in this order, when the request does not carry one."""

LOGIN_ARGS: Final = ("login",)
"""Arguments that the client adds to this agent's command line for the login in a terminal."""

DEVICE_CODE_ARGS: Final = (*LOGIN_ARGS, "--device-auth")
"""The same for a login on another device."""

TERMINAL_AUTH: Final = "terminal-auth"
"""In ``_meta`` of ``clientCapabilities``: an older client that runs logins in a terminal, of a
method that says in its own ``_meta`` of this name what is to be run."""


class LoginWays(NamedTuple):
    """Logins that this process can offer."""

    browser: bool = False
    """It could open a browser."""
    command: tuple[str, ...] = ()
    """Command line of this agent, for clients that do not extend the one they know."""
    offered: bool = True
    """Whether its clients may log in at all."""
    no_browser: bool = False
    """Whether it was told that no browser reaches this machine, where a login's page comes back."""


def auth_methods(capabilities: JsonValue, ways: LoginWays) -> list[JsonValue]:
    """The methods for a client with these ``clientCapabilities``.

    A login is offered to every client that can show it in any way: as a page, in a browser of this
    machine, in a terminal. One that can do nothing of it is not offered what would end there, and
    nobody a page that comes back to this machine where no browser reaches it.
    """
    if not ways.offered:
        return []
    pages, browser = _pages(capabilities), ways.browser
    by_type, by_meta = _terminal(capabilities), _meta_marker(capabilities) and ways.command
    in_terminal = by_type or by_meta

    def run(args: tuple[str, ...]) -> dict[str, JsonValue]:
        return (_typed(args) if by_type else {}) | (_told(ways.command, args) if by_meta else {})

    methods: list[JsonValue] = []
    if not ways.no_browser and (pages or browser or in_terminal):
        chat_gpt: dict[str, JsonValue] = {
            "id": CHATGPT,
            "name": "Log in with ChatGPT",
            "description": "Opens the login page of OpenAI in a browser on this machine",
        }
        methods.append(chat_gpt if pages or browser else chat_gpt | run(LOGIN_ARGS))
    if pages or in_terminal:
        device_code: dict[str, JsonValue] = {
            "id": DEVICE_CODE,
            "name": "Log in with ChatGPT on another device",
            "description": "Shows a page and a code to type there; for remote machines",
        }
        methods.append(device_code if pages else device_code | run(DEVICE_CODE_ARGS))
    methods.append(
        {
            "id": API_KEY,
            "name": "Use an OpenAI API key",
            "description": f"Takes the key from {' or '.join(API_KEY_VARIABLES)}",
        }
    )
    if in_terminal and (pages or browser):
        codex_login: dict[str, JsonValue] = {
            "id": TERMINAL,
            "name": "Log in with `codex login`",
            "description": "Runs Codex's own login in a terminal",
        }
        methods.append(codex_login | run(LOGIN_ARGS))
    if value_at(capabilities, "auth", "_meta", GATEWAY) is True:
        protocol: JsonValue = {"protocol": "openai", "restartRequired": "false"}
        gateway: dict[str, JsonValue] = {
            "id": GATEWAY,
            "name": "Use a gateway of your client",
            "description": "Asks the model where your client says",
            "_meta": {GATEWAY: protocol},
        }
        methods.append(gateway)
    return methods


def _typed(args: tuple[str, ...]) -> dict[str, JsonValue]:
    """ACP schema: AuthMethodTerminal; only for clients that advertise it."""
    return {"args": list(args), "type": "terminal"}


def _told(command: tuple[str, ...], args: tuple[str, ...]) -> dict[str, JsonValue]:
    """Return the ``_meta`` for clients that knew such logins before the schema had them."""
    program, *before = command
    run: JsonValue = {"label": "Codex login", "command": program, "args": [*before, *args]}
    return {"_meta": {TERMINAL_AUTH: run}}


def _pages(capabilities: JsonValue) -> bool:
    """``elicitation.url`` is advertised by any object."""
    return isinstance(value_at(capabilities, "elicitation", "url"), dict)


def _terminal(capabilities: JsonValue) -> bool:
    """``auth.terminal`` is true."""
    return value_at(capabilities, "auth", "terminal") is True


def _meta_marker(capabilities: JsonValue) -> bool:
    """``_meta["terminal-auth"]`` is true."""
    return value_at(capabilities, "_meta", TERMINAL_AUTH) is True
