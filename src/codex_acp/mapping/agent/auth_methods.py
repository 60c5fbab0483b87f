"""The login methods that ``initialize`` offers to a client.

They are plain JSON, so that a new process can send them before it has loaded a model.
Source: ACP page "Authentication", ``AuthMethod``; Codex ``LoginAccountParams``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._json import value_at

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue

CHATGPT: Final = "chat-gpt"
"""Codex's login in a browser. Clients know this id and the next two from OpenAI's adapter."""

DEVICE_CODE: Final = "chat-gpt-device-code"
"""Codex's login on another device, where the person types a code."""

API_KEY: Final = "api-key"
"""A key of the OpenAI platform, from ``_meta["api-key"].apiKey`` or the environment."""

GATEWAY: Final = "gateway"
"""A gateway of the client, from ``_meta.gateway``; for clients that say that they have one."""

TERMINAL: Final = "codex-login"
"""``codex login`` in a terminal of the client; offered besides a `CHATGPT` that shows a page."""

ALIASES: Final = {"chatgpt": CHATGPT, "openai-api-key": API_KEY, "codex-api-key": API_KEY}
"""Ids of Zed's earlier adapter, which clients written for it still send."""

API_KEY_VARIABLES: Final = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Where the key is looked for, in this order, when the request does not carry one."""

LOGIN_ARGS: Final = ("login",)
"""Arguments that the client adds to this agent's command line for the login in a terminal."""

DEVICE_CODE_ARGS: Final = (*LOGIN_ARGS, "--device-auth")
"""Arguments for a login on another device, in a terminal."""

TERMINAL_AUTH: Final = "terminal-auth"
"""Key in ``_meta`` of an older client's capabilities, and of a method. The client runs a login in a
terminal, and the method's ``_meta`` names the command."""


class LoginWays(NamedTuple):
    """Logins that this process can offer."""

    browser: bool = False
    """Whether the process can open a browser."""
    command: tuple[str, ...] = ()
    """Command line of this agent, for clients that need the whole command of a login."""
    offered: bool = True
    """Whether clients of the process may log in at all."""
    no_browser: bool = False
    """Whether no browser can reach this machine, which a login's page has to do at its end."""


def auth_methods(capabilities: JsonValue, ways: LoginWays) -> list[JsonValue]:
    """Return the login methods for a client with these ``clientCapabilities``.

    A login is offered if the client can show it: as a page, in a browser of this machine, or in a
    terminal. With ``no_browser`` the login whose page returns to this machine is not offered.
    """
    if not ways.offered:
        return []
    pages, browser = _shows_pages(capabilities), ways.browser
    by_type, by_meta = (
        _has_terminal(capabilities),
        _has_older_terminal(capabilities) and ways.command,
    )
    in_terminal = by_type or by_meta

    def run(args: tuple[str, ...]) -> dict[str, JsonValue]:
        return (_terminal_members(args) if by_type else {}) | (
            _older_terminal_meta(ways.command, args) if by_meta else {}
        )

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


def _terminal_members(args: tuple[str, ...]) -> dict[str, JsonValue]:
    """Return the members of ``AuthMethodTerminal``, for clients that advertise
    ``auth.terminal``."""
    return {"args": list(args), "type": "terminal"}


def _older_terminal_meta(command: tuple[str, ...], args: tuple[str, ...]) -> dict[str, JsonValue]:
    """Return the ``_meta`` for older clients, from before the schema had terminal logins."""
    program, *before = command
    run: JsonValue = {"label": "Codex login", "command": program, "args": [*before, *args]}
    return {"_meta": {TERMINAL_AUTH: run}}


def _shows_pages(capabilities: JsonValue) -> bool:
    """Return whether the client shows pages: ``elicitation.url`` is an object."""
    return isinstance(value_at(capabilities, "elicitation", "url"), dict)


def _has_terminal(capabilities: JsonValue) -> bool:
    """Return whether the client has terminals for logins: ``auth.terminal`` is true."""
    return value_at(capabilities, "auth", "terminal") is True


def _has_older_terminal(capabilities: JsonValue) -> bool:
    """Return whether the client has them in the older way: ``_meta["terminal-auth"]`` is true."""
    return value_at(capabilities, "_meta", TERMINAL_AUTH) is True
