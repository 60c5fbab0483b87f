"""A client's own gateway, and its system prompt, on the real Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen.pinned import version_key
from codex_acp.testing import ModelRequest, ScriptedModel, Step, Text, exec_command
from tests.e2e.sub_agents_bench import SubAgentBench
from tests.e2e_contract.contract_bench import Scenes
from tests.support.codex_version import codex_under_test

SECRET = "s3cret-of-the-gateway"
HEADERS = {"Authorization": f"Bearer {SECRET}", "X-Team": "tools"}
OPENAI = {"providerId": "openai", "apiType": "openai"}

NATIVE = Scenes()
FIRST = NATIVE.add("first", [Text("Native.")])
LAST = NATIVE.add("last", [Text("Native again.")])

THERE: list[list[Step]] = [[exec_command("echo by-gateway", call_id="c1")], [Text("Gateway.")]]


def current(bench: SubAgentBench) -> dict[str, Any]:
    """What the one provider is now."""
    (provider,) = bench.ask("providers/list", {})["providers"]
    assert provider["providerId"] == "openai"
    assert provider["supported"] == ["openai"]
    assert provider["required"] is False
    found: dict[str, Any] = provider["current"]
    return found


def said(bench: SubAgentBench) -> str:
    """All that the agent has said."""
    return bench.text(bench.session)


def open_new(bench: SubAgentBench) -> str:
    """Another session, to go on with."""
    bench.session = bench.ask("session/new", bench.place)["sessionId"]
    return bench.session


@pytest.mark.parametrize("version", [1, 2])
def test_a_gateway_serves_new_and_loaded_sessions_until_it_is_disabled(version: int) -> None:
    replies: list[list[Step]] = [*THERE, [Text(" Loaded.")]]
    with SubAgentBench(NATIVE, version) as bench, ScriptedModel(replies) as gateway:
        before = bench.home.config_file.read_text("utf-8")
        own = {"apiType": "openai", "baseUrl": bench.model.base_url}
        assert current(bench) == own
        route = {**OPENAI, "baseUrl": gateway.base_url, "headers": HEADERS}
        assert bench.ask("providers/set", route) == {}
        assert current(bench) == {"apiType": "openai", "baseUrl": gateway.base_url}

        first = open_new(bench)
        bench.prompt("Go.")
        assert said(bench) == "Gateway."
        assert gateway.requests[0].headers["authorization"] == f"Bearer {SECRET}"
        assert gateway.requests[0].headers["x-team"] == "tools"
        bench.ask("session/resume", {**bench.place, "sessionId": first})
        bench.prompt("And on.")
        assert said(bench) == "Gateway. Loaded."

        assert bench.ask("providers/disable", {"providerId": "openai"}) == {}
        assert bench.ask("providers/disable", {"providerId": "nobody"}) == {}
        assert current(bench) == own
        bench.prompt(FIRST)
        assert said(bench) == "Gateway. Loaded.Native."
        assert len(gateway.requests) == 3

        assert bench.home.config_file.read_text("utf-8") == before
        assert b"providers/set" in bench.transcript.read_bytes()
        assert SECRET not in bench.adapter.stderr
        written = [each for each in bench.home.root.rglob("*") if SECRET.encode() in content(each)]
        if version_key(codex_under_test()) < (0, 163):  # it logs the providers of its sessions
            written = [each for each in written if not each.name.startswith("logs_")]
        assert not written


def content(path: Path) -> bytes:
    """Of a file; nothing of a directory, or of what Codex has moved away meanwhile."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""


def test_7_2_an_open_session_goes_by_the_gateway_in_its_sandbox_or_says_why_not() -> None:
    there: list[list[Step]] = [
        [exec_command("touch inside && ! touch /etc/outside", call_id="c1")],
        [Text("Done.")],
    ]
    bench = SubAgentBench(NATIVE, 1, sandbox_mode="workspace-write")
    with bench, ScriptedModel(there) as gateway:
        bench.ask("providers/set", {**OPENAI, "baseUrl": gateway.base_url})
        bench.begin("Go.")
        answer = bench.answer()
        if "error" in answer:  # Codex since 0.169
            assert "start a new session" in answer["error"]["message"]
            assert not gateway.requests
            bench.ask("providers/disable", {"providerId": "openai"})
            bench.prompt(FIRST)
            assert said(bench) == "Native."
            return
        (call,) = [u for u in bench.updates() if u.get("rawOutput", {}).get("exitCode") == 0]
        assert call["toolCallId"] == "c1"
        assert (bench.home.workspace / "inside").exists()
        assert "trusted" not in bench.home.config_file.read_text("utf-8")


def test_another_process_loads_what_went_by_a_gateway() -> None:
    with SubAgentBench(NATIVE, 1) as bench, ScriptedModel(THERE) as gateway:
        bench.ask("providers/set", {**OPENAI, "baseUrl": gateway.base_url})
        stored = open_new(bench)
        bench.prompt("Go.")
        bench.adapter.end_input()
        bench.adapter.wait()
        bench.start()
        bench.session = stored
        bench.ask("session/load", {**bench.place, "sessionId": stored})
        bench.prompt(LAST)
        assert said(bench).endswith("Native again.")


def test_a_gateway_that_cannot_be_is_refused_and_nothing_changes() -> None:
    good = {**OPENAI, "baseUrl": "https://gateway.example/v1", "headers": {}}
    attacks: list[dict[str, Any]] = [
        {},
        {**good, "providerId": "anthropic"},
        {**good, "apiType": "anthropic"},
        *({**good, "baseUrl": url} for url in (None, "", 3, "gateway", "file:///etc/passwd")),
        *(
            {**good, "baseUrl": url}
            for url in ("https://", "ftp://a/", "https://a:x/", "https://[")
        ),
        {**good, "baseUrl": f"https://user:{SECRET}@gateway.example/"},
        {**good, "baseUrl": "https://gateway.example/\nX: y"},
        {**good, "baseUrl": "https://gateway.example/" + "a" * 3_000},
        {**good, "headers": []},
        {**good, "headers": {"a": 1}},
        {**good, "headers": {"a b": "c"}},
        {**good, "headers": {"": "c"}},
        {**good, "headers": {"X": f"{SECRET}\r\nY: z"}},
        {**good, "headers": {"X": SECRET * 2_000}},
        {**good, "headers": {f"X-{number}": "y" for number in range(200)}},
    ]
    asked = {"auth": {"_meta": {"gateway": True}}}
    with SubAgentBench(NATIVE, 1, asked) as bench:
        native = current(bench)
        for params in attacks:
            error = bench.refused("providers/set", params)
            assert error["code"] == -32602, params
            assert SECRET not in str(error), params
            settings = {key: params[key] for key in ("baseUrl", "headers") if key in params}
            if params.get("providerId") == params.get("apiType") == "openai":
                login = {"methodId": "gateway", "_meta": {"gateway": settings}}
                assert bench.refused("authenticate", login)["code"] == -32602, params
        for meta in ({}, {"gateway": None}, {"gateway": "https://gateway.example"}):
            login = {"methodId": "gateway", "_meta": meta}
            assert bench.refused("authenticate", login)["code"] == -32602, meta
        assert current(bench) == native


def test_the_login_by_a_gateway_is_for_clients_that_have_one() -> None:
    asked = {"auth": {"_meta": {"gateway": True}}}
    with SubAgentBench(NATIVE, 1, asked) as bench, ScriptedModel(THERE) as gateway:
        (method,) = [m for m in bench.introduction["authMethods"] if m["id"] == "gateway"]
        assert method["_meta"]["gateway"]["protocol"] == "openai"
        settings = {"baseUrl": gateway.base_url, "headers": HEADERS, "providerName": "Ours"}
        bench.ask("authenticate", {"methodId": "gateway", "_meta": {"gateway": settings}})
        open_new(bench)
        bench.prompt("Go.")
        assert said(bench) == "Gateway."
        bench.ask("logout", {})
        assert current(bench)["baseUrl"] == bench.model.base_url


def test_the_command_logout_forgets_the_gateway_as_the_method_does() -> None:
    with SubAgentBench(NATIVE, 1) as bench, ScriptedModel(THERE) as gateway:
        bench.ask("providers/set", {**OPENAI, "baseUrl": gateway.base_url, "headers": HEADERS})
        if version_key(codex_under_test()) >= (0, 169):  # it lets no thread change its provider
            open_new(bench)
        bench.prompt("/logout")
        assert current(bench)["baseUrl"] == bench.model.base_url
        bench.prompt(FIRST)
        assert not gateway.requests


# The system prompt.


def told(request: ModelRequest) -> str:
    """What the model is told that is no message of the person."""
    items = [item for item in request.items if item.get("role") == "developer"]
    return str(request.body.get("instructions")) + str(items)


@pytest.mark.parametrize("version", [1, 2])
def test_a_system_prompt_is_put_behind_the_persons_own_instructions(version: int) -> None:
    scenes = Scenes()
    ask = scenes.add("ask", [Text("One.")])
    again = scenes.add("again", [Text("Two.")])
    config = {"developer_instructions": "OWN-WORDS"}
    texts = [{"type": "text", "text": "CLIENT-WORDS"}, {"type": "text", "text": "MORE-WORDS"}]
    prompt = {"systemPrompt": {"mode": "append", "content": texts}}
    with SubAgentBench(scenes, version, config=config) as bench:
        bench.session = bench.ask("session/new", {**bench.place, **prompt})["sessionId"]
        bench.prompt(ask)
        first = told(bench.model.requests[-1])
        assert first.index("OWN-WORDS") < first.index("CLIENT-WORDS") < first.index("MORE-WORDS")

        resumed = {**bench.place, **prompt, "sessionId": bench.session}
        bench.ask("session/resume", resumed)
        bench.prompt(again)
        assert "CLIENT-WORDS" in told(bench.model.requests[-1])


def test_a_system_prompt_overrides_what_codex_tells_every_model() -> None:
    scenes = Scenes()
    ask = scenes.add("ask", [Text("One.")])
    again = scenes.add("again", [Text("Two.")])
    config = {"developer_instructions": "OWN-WORDS"}
    words = {"mode": "override", "content": [{"type": "text", "text": "CLIENT-WORDS"}]}
    with SubAgentBench(scenes, 1, config=config) as bench:
        opened = bench.ask("session/new", {**bench.place, "systemPrompt": words})
        bench.session = opened["sessionId"]
        bench.prompt(ask)
        first = told(bench.model.requests[-1])
        assert "You are Codex" not in first
        assert first.index("CLIENT-WORDS") < first.index("OWN-WORDS")
        bench.ask("session/close", {"sessionId": bench.session})
        other = {**words, "content": [{"type": "text", "text": "OTHER-WORDS"}]}
        stored = {**bench.place, "sessionId": bench.session, "systemPrompt": other}
        bench.ask("session/resume", stored)
        bench.prompt(again)
        second = told(bench.model.requests[-1])
        assert "You are Codex" not in second
        assert "OTHER-WORDS" in second


def test_a_system_prompt_that_cannot_be_applied_opens_nothing() -> None:
    text = {"type": "text", "text": "Words."}
    attacks: list[Any] = [
        "Words.",
        {"content": [text]},
        {"mode": ["append"], "content": [text]},
        {"mode": "_mine", "content": [text]},
        {"mode": "append"},
        {"mode": "append", "content": []},
        {"mode": "append", "content": "Words."},
        {"mode": "append", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
    ]
    with SubAgentBench(NATIVE, 1) as bench:
        for attack in attacks:
            error = bench.refused("session/new", {**bench.place, "systemPrompt": attack})
            assert error["code"] == -32602, attack
        assert bench.ask("session/new", {**bench.place, "systemPrompt": None})["sessionId"]
