"""Which ways to log in a client is offered: never one that it could not go."""

from __future__ import annotations

import pytest

from codex_acp.acp.types import TerminalAuthMethod
from codex_acp.jsonrpc.message import JsonValue
from codex_acp.mapping.agent.auth_methods import auth_methods, auth_methods_json
from codex_acp.wire.codec import plain

PAGES: JsonValue = {"elicitation": {"url": {}}}
TERMINAL: JsonValue = {"auth": {"terminal": True}}


@pytest.mark.parametrize(
    ("capabilities", "browser", "offered"),
    [
        (None, False, ["api-key"]),
        ({}, True, ["chat-gpt", "api-key"]),
        ({"elicitation": {}}, False, ["api-key"]),
        ({"elicitation": {"url": None}}, False, ["api-key"]),
        (PAGES, False, ["chat-gpt", "chat-gpt-device-code", "api-key"]),
        (TERMINAL, False, ["api-key", "codex-login"]),
        ({"auth": {"terminal": "yes"}}, False, ["api-key"]),
        ("nonsense", False, ["api-key"]),
    ],
)
def test_a_method_is_offered_only_to_a_client_that_can_go_that_way(
    capabilities: JsonValue, browser: bool, offered: list[str]
) -> None:
    methods = auth_methods_json(capabilities, browser=browser)

    assert [method["id"] for method in methods if isinstance(method, dict)] == offered


def test_the_models_say_what_the_json_says() -> None:
    capabilities: JsonValue = {"elicitation": {"url": {}}, "auth": {"terminal": True}}

    models = auth_methods(capabilities, browser=True)

    assert [plain(model) for model in models] == auth_methods_json(capabilities, browser=True)
    assert isinstance(models[-1], TerminalAuthMethod)
    assert list(models[-1].args) == ["login"]
