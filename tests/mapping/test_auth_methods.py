"""Which ways to log in a client is offered: never one that it could not go."""

from __future__ import annotations

import pytest

from codex_acp.acp.types import AuthMethod, InitializeResponse, TerminalAuthMethod
from codex_acp.jsonrpc import JsonValue
from codex_acp.mapping.agent import LoginWays, auth_methods
from codex_acp.wire.codec import decode

PAGES: JsonValue = {"elicitation": {"url": {}}}
TERMINAL: JsonValue = {"auth": {"terminal": True}}
META: JsonValue = {"_meta": {"terminal-auth": True}}
COMMAND = ("python", "-m", "codex_acp", "--codex", "codex")


@pytest.mark.parametrize(
    ("capabilities", "browser", "offered"),
    [
        (None, False, ["api-key"]),
        ({}, True, ["chat-gpt", "api-key"]),
        ({"elicitation": {}}, False, ["api-key"]),
        ({"elicitation": {"url": None}}, False, ["api-key"]),
        (PAGES, False, ["chat-gpt", "chat-gpt-device-code", "api-key"]),
        (TERMINAL, False, ["chat-gpt", "chat-gpt-device-code", "api-key"]),
        (TERMINAL, True, ["chat-gpt", "chat-gpt-device-code", "api-key", "codex-login"]),
        (META, False, ["chat-gpt", "chat-gpt-device-code", "api-key"]),
        ({"_meta": {"terminal-auth": "yes"}}, False, ["api-key"]),
        ({"auth": {"terminal": "yes"}}, False, ["api-key"]),
        ("nonsense", False, ["api-key"]),
    ],
)
def test_a_method_is_offered_only_to_a_client_that_can_go_that_way(
    capabilities: JsonValue, browser: bool, offered: list[str]
) -> None:
    methods = auth_methods(capabilities, LoginWays(browser, COMMAND))

    assert [method["id"] for method in methods] == offered


@pytest.mark.parametrize(
    ("capabilities", "offered"),
    [
        (None, ["api-key"]),
        (PAGES, ["chat-gpt-device-code", "api-key"]),
        (TERMINAL, ["chat-gpt-device-code", "api-key"]),
    ],
)
def test_where_no_browser_reaches_this_machine_no_page_comes_back_to_it(
    capabilities: JsonValue, offered: list[str]
) -> None:
    methods = auth_methods(capabilities, LoginWays(is_unreachable=True, command=COMMAND))

    assert [method["id"] for method in methods] == offered


def models(capabilities: JsonValue, ways: LoginWays) -> list[AuthMethod]:
    """As a client reads them."""
    answer = {"protocolVersion": 1, "authMethods": auth_methods(capabilities, ways)}
    return list(decode(InitializeResponse, answer).auth_methods)


def test_a_client_reads_what_the_json_says() -> None:
    capabilities: JsonValue = {"elicitation": {"url": {}}, "auth": {"terminal": True}}

    last = models(capabilities, LoginWays(opens_pages=True))[-1]

    assert isinstance(last, TerminalAuthMethod)
    assert list(last.args) == ["login"]


def test_a_terminal_shows_the_same_logins_as_a_page() -> None:
    chat_gpt, device_code, _ = models(TERMINAL, LoginWays())

    assert isinstance(chat_gpt, TerminalAuthMethod)
    assert list(chat_gpt.args) == ["login"]
    assert isinstance(device_code, TerminalAuthMethod)
    assert list(device_code.args) == ["login", "--device-auth"]
    assert device_code.meta is None


def test_an_older_client_is_told_the_whole_command_line_of_a_login_in_its_terminal() -> None:
    _, device_code, _ = models(META, LoginWays(command=COMMAND))

    assert device_code.meta == {
        "terminal-auth": {
            "label": "Codex login",
            "command": "python",
            "args": ["-m", "codex_acp", "--codex", "codex", "login", "--device-auth"],
        }
    }
