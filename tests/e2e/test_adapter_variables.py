"""The official adapter's environment variables with the real Codex."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import McpTool, ScriptedMcpServer, ScriptedModel, Text, mcp_call
from tests.e2e.adapter_bench import COMMAND
from tests.e2e.either_version import EitherVersion

NEEDS_LOGIN = {"model_providers": {"scripted": {"requires_openai_auth": True}}}
LOGIN_NEEDED = -32000
FAR = "http://127.0.0.1:9/mcp"


def mode_of(answer: dict[str, Any]) -> str:
    mode: str = answer["result"]["modes"]["currentModeId"]
    return mode


def opened(it: EitherVersion) -> dict[str, Any]:
    where = {"cwd": str(it.home.workspace), "mcpServers": []}
    return it.adapter.ask("session/new", where)


def lines(it: EitherVersion, session: str) -> str:
    """What the person is told in a session, once its commands have come, which is later."""
    it.until(session, "available_commands_update")
    return str(it.updates(session, "agent_thought_chunk"))


def test_a_mode_is_in_force_from_the_first_turn_on_and_the_person_is_told() -> None:
    with EitherVersion(1, [[Text("Hi.")]], env={"INITIAL_AGENT_MODE": "agent-full-access"}) as it:
        answer = opened(it)
        session = answer["result"]["sessionId"]
        assert mode_of(answer) == "full-access"
        said = lines(it, session)
        assert "INITIAL_AGENT_MODE has put this session into the mode full-access" in said
        assert "never asks, no sandbox" in said
        it.prompt(session, "Hello.")
        assert "danger-full-access" in str(it.model.requests[0].body["input"])
        assert "full-access" in it.adapter.stderr, "whoever reads the log knows it, too"


def test_nothing_is_said_of_a_mode_that_was_understood_and_has_a_sandbox() -> None:
    with EitherVersion(1, env={"INITIAL_AGENT_MODE": "read-only"}) as it:
        answer = opened(it)
        assert mode_of(answer) == "read-only"
        assert "INITIAL_AGENT_MODE" not in lines(it, answer["result"]["sessionId"])


def test_a_profile_that_codex_does_not_have_leaves_a_session_as_configured() -> None:
    with EitherVersion(1, env={"INITIAL_AGENT_MODE": "permission-profile:none"}) as it:
        answer = opened(it)
        assert mode_of(answer) == "configured"
        said = lines(it, answer["result"]["sessionId"])
        assert "profile:none" in said
        assert "This session is as configured." in said


@pytest.mark.attack("client")
def test_the_configuration_counts_as_configured_and_what_weakens_it_is_told(tmp_path: Path) -> None:
    config = {
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "model_providers": {"scripted": {"http_headers": {"x-proof": "h3ader"}}},
    }
    env = {"CODEX_CONFIG": json.dumps(config), "APP_SERVER_LOGS": str(tmp_path / "logs")}
    with EitherVersion(1, [[Text("Hi.")]], env=env) as it:
        answer = opened(it)
        session = answer["result"]["sessionId"]
        assert mode_of(answer) == "configured"
        configured = answer["result"]["modes"]["availableModes"][0]["description"]
        assert "never asks, no sandbox" in configured
        said = lines(it, session)
        assert "CODEX_CONFIG of this agent's environment sets approval_policy, sandbox_mode" in said
        it.prompt(session, "Hello.")
        assert it.model.requests[0].headers["x-proof"] == "h3ader"
        codex = it.adapter.codex()
        assert b"h3ader" not in Path(f"/proc/{codex}/cmdline").read_bytes()
        assert (tmp_path / "logs" / "app-server.log").exists()


@pytest.mark.attack("model")
def test_what_the_variables_hold_is_in_no_environment_of_codex_and_its_commands() -> None:
    login = {"methodId": "api-key", "_meta": {"api-key": {"apiKey": "sk-s3cret-of-a-test"}}}
    config = {"model_providers": {"scripted": {"http_headers": {"x-key": "s3cret-header"}}}}
    env = {"DEFAULT_AUTH_REQUEST": json.dumps(login), "CODEX_CONFIG": json.dumps(config)}
    with EitherVersion(1, env=env) as it:
        opened(it)
        found = Path(f"/proc/{it.adapter.codex()}/environ").read_bytes()
        assert b"PATH=" in found
        assert b"s3cret" not in found


@pytest.mark.attack("client")
def test_what_a_server_is_called_with_is_on_no_command_line_of_codex(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, [McpTool("act", read_only=True, text="Done.")])
    far = {"url": f"{FAR}?sig=s3cret-url", "startup_timeout_sec": 5}
    plain = {"command": "/nowhere/plain"}
    config = {"mcp_servers": {"notes": server.config, "far": far, "plain": plain}}
    act = [mcp_call("notes", "act")]
    with EitherVersion(
        1, [act, [Text("One.")], act, [Text("Two.")]], env={"CODEX_CONFIG": json.dumps(config)}
    ) as it:
        session = it.new()
        assert it.prompt(session, "Act.").endswith("One.")
        shown = it.prompt(session, "/mcp reconnect")
        assert "**notes**: `act`" in shown
        assert "s3cret" not in shown + str(it.adapter.messages)
        assert it.prompt(session, "Act.").endswith("Two.")
        assert len(server.received("tools/call")) == 2
        found = Path(f"/proc/{it.adapter.codex()}/cmdline").read_bytes()
        assert b"mcp_servers.plain.command" in found
        assert str(tmp_path).encode() not in found
        assert b"s3cret" not in found


def test_a_login_is_made_when_codex_needs_one_and_only_then() -> None:
    login = {"DEFAULT_AUTH_REQUEST": '{"methodId": "api-key"}'}
    needs = {"CODEX_CONFIG": json.dumps(NEEDS_LOGIN)}
    keys = {"CODEX_API_KEY": " ", "OPENAI_API_KEY": "sk-x"}
    with EitherVersion(1, env={**login, **needs, **keys}) as it:
        assert "result" in opened(it)
        assert it.adapter.ask("auth/status", {})["result"]["state"] == "authenticated"
    with EitherVersion(2, env={**login, "OPENAI_API_KEY": "sk-x"}) as it:
        assert "result" in opened(it)
        state = it.adapter.ask("auth/status", {})["result"]
        assert state == {"state": "not_required", "accounts": []}
    with EitherVersion(1, env={**login, **needs}) as it:
        error = opened(it)["error"]
        assert error["code"] == LOGIN_NEEDED
        assert "DEFAULT_AUTH_REQUEST" in error["message"]
        assert "OPENAI_API_KEY" in error["message"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_gateway_is_a_login_too(version: int) -> None:
    with ScriptedModel([[Text("By the gateway.")]]) as gateway:
        where = {"baseUrl": gateway.base_url, "headers": {"x-key": "s3cret-of-it"}}
        login = {"methodId": "gateway", "_meta": {"gateway": where}}
        other = {"name": "Other", "http_headers": {"x-other": "s3cret-of-the-other"}}
        providers = {**NEEDS_LOGIN["model_providers"], "other": other}
        env = {
            "DEFAULT_AUTH_REQUEST": json.dumps(login),
            "CODEX_CONFIG": json.dumps({"model_providers": providers}),
        }
        with EitherVersion(version, env=env) as it:
            asked = it.adapter.ask("auth/status", {})["result"]
            assert asked["state"] == "unauthenticated"
            session = it.new()
            assert it.prompt(session, "Hello.") == "By the gateway."
            method = "auth/status_update"
            (told,) = (m for m in it.adapter.messages if m.get("method") == method)
            assert told["params"] == {"state": "not_required", "accounts": []}
            assert gateway.requests[0].headers["x-key"] == "s3cret-of-it"
            assert "s3cret" not in str(it.adapter.messages) + it.adapter.stderr


@pytest.mark.parametrize("version", [1, 2])
def test_a_login_by_a_page_is_asked_for_the_request_that_needs_it(version: int) -> None:
    env = {
        "DEFAULT_AUTH_REQUEST": '{"methodId": "chat-gpt"}',
        "CODEX_CONFIG": json.dumps(NEEDS_LOGIN),
    }
    can: dict[str, Any] = {"elicitation": {"url": {}}}
    with EitherVersion(version, env=env, capabilities=can) as it:
        where = {"cwd": str(it.home.workspace), "mcpServers": []}
        request = it.adapter.start("session/new", where)
        page = it.adapter.wait_for(lambda m: m.get("method") == "elicitation/create")
        assert page["params"]["mode"] == "url"
        assert page["params"]["requestId"] == request
        it.adapter.send({"id": page["id"], "result": {"action": "decline"}})
        error = it.adapter.answer(request)["error"]
        assert error["code"] == LOGIN_NEEDED
        assert "DEFAULT_AUTH_REQUEST" in error["message"]


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_browser_no_login_is_offered_that_needs_one(version: int) -> None:
    can: dict[str, Any] = {"elicitation": {"url": {}}}
    with EitherVersion(version, env={"NO_BROWSER": "1"}, capabilities=can) as it:
        key = "id" if version == 1 else "methodId"
        offered = [method[key] for method in it.introduction["authMethods"]]
        assert offered == ["chat-gpt-device-code", "api-key"]


def test_the_servers_of_the_configuration_stay_beside_those_of_the_client() -> None:
    secret = {"url": f"{FAR}?sig=s3cret-url"}
    config = {"mcp_servers": {"mine": {"command": "/nowhere/mine"}, "far": secret}}
    with EitherVersion(1, env={"CODEX_CONFIG": json.dumps(config)}) as it:
        theirs: list[dict[str, Any]] = [
            {"name": name, "command": "/nowhere/theirs", "args": [], "env": []}
            for name in ("theirs", "far")
        ]
        session = it.adapter.new_session(it.home.workspace, theirs)
        shown = it.prompt(session, "/mcp")
        assert "**mine**" in shown
        assert "**theirs**" in shown
        said = 'The MCP server "far" of your client was left out'
        assert said in str(it.updates(session, "agent_thought_chunk"))


def test_a_provider_that_is_not_configured_is_told_by_its_name() -> None:
    with EitherVersion(1, env={"MODEL_PROVIDER": "nobodys"}) as it:
        assert "nobodys" in opened(it)["error"]["message"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CODEX_CONFIG", "model=x"),
        ("INITIAL_AGENT_MODE", "yolo"),
        ("DEFAULT_AUTH_REQUEST", '{"methodId": "gateway"}'),
    ],
)
def test_a_value_that_cannot_be_read_ends_the_command_before_codex_starts(
    variable: str, value: str
) -> None:
    env = {variable: value, "CODEX_PATH": "/nowhere/codex"}
    done = subprocess.run([COMMAND], env=env, capture_output=True, text=True, check=False, input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"codex-acp-sdk: error: {variable}")
