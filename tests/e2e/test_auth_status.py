"""Who is logged in, asked and told with the real Codex, in both versions of ACP."""

from __future__ import annotations

import pytest

from codex_acp.testing import Text
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench
from tests.e2e.v2_bench import INFO

NEEDS_LOGIN = ("-c", "model_providers.scripted.requires_openai_auth=true")
KEY = {"OPENAI_API_KEY": "sk-scripted"}
LOGIN = {1: ("authenticate", "logout"), 2: ("auth/login", "auth/logout")}


def introduced(adapter: RawAdapter, version: int) -> Message:
    params = {"protocolVersion": version, "info": INFO, "clientInfo": INFO}
    result: Message = adapter.ask("initialize", params)["result"]
    capabilities = result["agentCapabilities" if version == 1 else "capabilities"]
    assert capabilities["auth"]["status"] == {}
    return result


def updates(adapter: RawAdapter) -> list[Message]:
    return [m["params"] for m in adapter.messages if m.get("method") == "auth/status_update"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_that_has_asked_hears_of_each_login_and_logout(version: int) -> None:
    login, logout = LOGIN[version]
    method = {"methodId": "api-key"}
    account = {"label": "OpenAI API key", "active": True}
    with SessionBench() as bench, RawAdapter({**bench.home.env, **KEY}, *NEEDS_LOGIN) as a:
        introduced(a, version)
        assert a.ask(login, method).get("result") == {}
        assert a.ask(logout, {}).get("result") == {}
        assert a.ask("auth/status", {})["result"] == {"state": "unauthenticated", "accounts": []}
        assert updates(a) == [], "nobody had asked"

        assert a.ask(login, method).get("result") == {}
        told = a.wait_for(lambda m: m.get("method") == "auth/status_update")
        assert told["params"] == {"state": "authenticated", "accounts": [account]}
        assert a.ask("auth/status", None)["result"] == told["params"]
        assert "sk-scripted" not in str(a.messages)

        assert a.ask(logout, {}).get("result") == {}
        told = a.wait_for(lambda m: m.get("method") == "auth/status_update")
        assert told["params"] == {"state": "unauthenticated", "accounts": []}
        assert len(updates(a)) == 2, "each change once"


def test_a_provider_of_ones_own_needs_no_login_and_asking_opens_nothing() -> None:
    with SessionBench([[Text("Hi.")]]) as bench, RawAdapter(bench.home.env) as a:
        introduced(a, 1)
        assert a.ask("auth/status")["result"] == {"state": "not_required", "accounts": []}
        assert a.ask("session/list", {})["result"]["sessions"] == []


def test_a_codex_that_cannot_be_asked_is_unknown_and_no_error() -> None:
    with SessionBench() as bench:
        env = {**bench.home.env, "CODEX_PATH": "/nowhere/codex"}
        with RawAdapter(env) as a:
            introduced(a, 1)
            assert a.ask("auth/status", {})["result"] == {"state": "unknown", "accounts": []}
