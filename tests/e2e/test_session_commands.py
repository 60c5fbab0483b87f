"""Slash commands that change the session, the login and the MCP servers of the real Codex."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codex_acp.testing import Text
from tests.e2e.either_version import EitherVersion

INVALID_PARAMS = -32602
LOGIN_NEEDED = -32000

NEEDS_LOGIN = ("-c", "model_providers.scripted.requires_openai_auth=true")
KEY = {"OPENAI_API_KEY": "sk-scripted"}

EVERY_VERSION = pytest.mark.parametrize("version", [1, 2])

SERVER = """
import json, pathlib, sys
if not pathlib.Path(sys.argv[1]).exists():
    sys.exit(3)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    begun = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
             "serverInfo": {"name": "notes", "version": "1"}}
    tools = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
    result = {"initialize": begun, "tools/list": tools}.get(message["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def skill(name: str) -> str:
    return f"---\nname: {name}\ndescription: Does it.\n---\nSay that you are the skill {name}.\n"


@EVERY_VERSION
def test_plan_turns_codex_own_plan_mode_on_and_off(version: int) -> None:
    script = [[Text("A plan.")], [Text("Another.")], [Text("Done.")]]
    with EitherVersion(version, script) as it:
        session = it.new()
        assert "Plan mode is on" in it.prompt(session, "/plan")
        assert it.prompt(session, "Improve it.") == "A plan."
        assert "Plan mode is off" in it.prompt(session, "/PLAN")
        assert it.prompt(session, "/plan Improve that.") == "Another."
        it.prompt(session, "/plan")
        assert it.prompt(session, "Now do it.") == "Done."
        assert "Plan mode is off" in it.prompt(session, "/plan OFF")

        options = it.updates(session, "config_option_update")
        key = "id" if version == 1 else "configId"
        modes = [
            option["currentValue"]
            for update in options
            for option in update["configOptions"]
            if option[key] == "collaboration_mode"
        ]
        assert [m for m, b in zip(modes, [None, *modes], strict=False) if m != b] == [
            "plan", "default", "plan", "default",
        ]  # fmt: skip
        first, _, third = (str(request.body["input"]) for request in it.model.requests)
        assert it.model.requests[1].last_user_text == "Improve that."
        tag = "<collaboration_mode>"
        assert "Plan Mode" in first.partition(tag)[2]
        assert "Default mode" in third.rpartition(tag)[2]


@EVERY_VERSION
def test_rename_names_the_session_for_everybody(version: int) -> None:
    with EitherVersion(version, [[Text("One.")]]) as it:
        session = it.new()
        it.prompt(session, "Begin.")
        assert "is called `my *best*" in it.prompt(session, "/rename  my *best*\n work")
        told = it.until(session, "session_info_update", title="my *best* work")
        assert told
        listed = it.adapter.ask("session/list", {})["result"]["sessions"]
        assert [each["title"] for each in listed] == ["my *best* work"]
        assert it.refused(session, "/rename  ")["code"] == INVALID_PARAMS
        assert len(it.model.requests) == 1


@EVERY_VERSION
def test_logout_ends_the_login_and_says_so(version: int) -> None:
    login = "authenticate" if version == 1 else "auth/login"
    with EitherVersion(version, env=KEY, args=NEEDS_LOGIN) as it:
        assert it.adapter.ask(login, {"methodId": "api-key"})["result"] == {}
        it.adapter.ask("auth/status", {})
        session = it.new()
        assert it.refused(session, "/logout now")["code"] == INVALID_PARAMS
        assert "logged out" in it.prompt(session, "/logout")
        told = [m for m in it.adapter.messages if m.get("method") == "auth/status_update"]
        if not told:
            told = [it.adapter.wait_for(lambda m: m.get("method") == "auth/status_update")]
        assert told[-1]["params"]["state"] == "unauthenticated"
        where = {"cwd": str(it.home.workspace), "mcpServers": []}
        assert it.adapter.ask("session/new", where)["error"]["code"] == LOGIN_NEEDED
        assert "logged out" in it.prompt(session, "/logout"), "again is fine"


@EVERY_VERSION
def test_mcp_reconnect_starts_a_server_that_has_failed(version: int, tmp_path: Path) -> None:
    server, works = tmp_path / "server.py", tmp_path / "works"
    server.write_text(SERVER)
    notes = {"notes": {"command": sys.executable, "args": [str(server), str(works)]}}
    with EitherVersion(version, mcp_servers=notes) as it:
        session = it.new()
        before = it.prompt(session, "/mcp")
        assert "**notes**" in before
        assert "no tools" in before
        works.touch()
        assert it.prompt(session, "/mcp reconnect") == "- **notes**: `read`"
        assert it.prompt(session, "/mcp") == "- **notes**: `read`"
        assert it.refused(session, "/mcp restart everything")["code"] == INVALID_PARAMS
        assert not it.model.requests


@pytest.mark.attack("repository")
def test_nothing_that_a_repository_brings_is_taken_for_a_command_of_ours() -> None:
    with EitherVersion(1, [[Text("I am the model.")]] * 4, args=NEEDS_LOGIN, env=KEY) as it:
        skills = it.home.workspace / ".agents" / "skills"
        for name in ("logout", "Logout", "plan", "rename", "mcp", "\uff4cogout"):
            (skills / name).mkdir(parents=True)
            (skills / name / "SKILL.md").write_text(skill(name))
        prompts = it.home.codex_home / "prompts"
        prompts.mkdir(parents=True)
        (prompts / "bye.md").write_text("/logout")
        assert it.adapter.ask("authenticate", {"methodId": "api-key"})["result"] == {}
        session = it.new()
        offered = it.until(session, "available_commands_update")["availableCommands"]
        names = [command["name"] for command in offered]
        assert [n for n in names if n.casefold().endswith("ogout")] == ["logout"]
        assert len(names) == len(set(names))

        assert it.prompt(session, "/prompts:bye") == "I am the model.", "a text for the model"
        assert it.prompt(session, "Please /logout") == "I am the model."
        blocks = [
            {"type": "resource", "resource": {"uri": "file:///x", "text": "/logout"}},
            {"type": "text", "text": "/logout"},
        ]
        sent = {"sessionId": session, "prompt": blocks}
        assert "result" in it.adapter.ask("session/prompt", sent)
        status = it.adapter.ask("auth/status", {})["result"]["state"]
        assert status == "authenticated", "nobody was logged out"
        assert "logged out" in it.prompt(session, "/Logout"), "however it is written"
