"""What a client gives a session: directories and MCP servers; and sessions side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    Gate,
    McpScript,
    McpTool,
    ModelResponse,
    ScriptedMcpServer,
    Step,
    Text,
    When,
    exec_command,
    mcp_call,
)
from tests.e2e.options_bench import Setting
from tests.e2e.raw_adapter import Message, RawAdapter
from tests.e2e.session_bench import SessionBench, answer_to, said_by, tool_calls, until, updates_of

TOOL = McpTool("read_note", "Reads a note.", text="the note", read_only=True)


def given(name: str, server: ScriptedMcpServer) -> dict[str, Any]:
    """The server as a client gives it."""
    command, *args = server.argv
    env = [{"name": key, "value": value} for key, value in server.config["env"].items()]  # type: ignore[union-attr]
    return {"name": name, "command": command, "args": args, "env": env}


def lines(messages: list[Message], session_id: str) -> str:
    """What was said to the person that is no item: thoughts without an id."""
    return "".join(
        update["content"]["text"]
        for update in updates_of(messages, session_id)
        if update["sessionUpdate"] == "agent_thought_chunk" and "messageId" not in update
    )


def wait_for_line(adapter: RawAdapter, session_id: str, text: str) -> None:
    """Wait until a line was said."""
    until(adapter, lambda messages: text in lines(messages, session_id))


# Directories.


STRICT = {"sandbox_workspace_write": {"exclude_slash_tmp": True, "exclude_tmpdir_env_var": True}}
"""The test's own directories are temporary ones, where a sandbox may usually write."""


def test_a_command_may_write_to_an_additional_directory_and_not_beside_it() -> None:
    command = "touch $HOME/given/yes; touch $HOME/other/no; true"
    script: list[list[Step]] = [[exec_command(command)], [Text("Done.")]]
    with SessionBench(script, sandbox_mode="workspace-write", config=STRICT) as bench:
        for name in ("given", "other"):
            (bench.home.home / name).mkdir()
        with bench.adapter() as adapter:
            given_directory = str(bench.home.home / "given")
            session = bench.new(adapter, additionalDirectories=[given_directory])
            bench.run(adapter, session, "Write.")
        assert (bench.home.home / "given" / "yes").exists()
        assert not (bench.home.home / "other" / "no").exists()


def test_a_load_has_the_additional_directories_that_it_names_and_no_others() -> None:
    command = "touch $HOME/old/no; touch $HOME/new/yes; true"
    script: list[list[Step]] = [[Text("Hello.")], [exec_command(command)], [Text("Done.")]]
    with SessionBench(script, sandbox_mode="workspace-write", config=STRICT) as bench:
        old, new = (bench.home.home / name for name in ("old", "new"))
        old.mkdir()
        new.mkdir()
        with bench.adapter() as adapter:
            session = bench.new(adapter, additionalDirectories=[str(old)])
            bench.run(adapter, session, "Hello.")
        with bench.adapter() as adapter:
            bench.ask(adapter, "session/load", session, additionalDirectories=[str(new)])
            bench.run(adapter, session, "Write.")
        assert (new / "yes").exists()
        assert not (old / "no").exists()


def test_a_fork_has_the_additional_directories_that_it_names_and_no_others() -> None:
    command = "touch $HOME/old/no; touch $HOME/new/yes; true"
    script: list[list[Step]] = [[exec_command(command)], [Text("Done.")]]
    with Setting(*script, sandbox_mode="workspace-write", config=STRICT) as setting:
        old, new = (setting.home.home / name for name in ("old", "new"))
        old.mkdir()
        new.mkdir()
        with setting.adapter() as client:
            client.open(setting, additionalDirectories=[str(old)])
            fork = {"sessionId": client.session, "additionalDirectories": [str(new)]}
            client.open(setting, "session/fork", **fork)
            assert client.current("mode") == "configured"
            client.prompt()
        assert (new / "yes").exists()
        assert not (old / "no").exists()


# MCP servers.


CALL: list[list[Step]] = [[mcp_call("notes", "read_note", {})], [Text("Read it.")]]


@pytest.mark.parametrize("way", ["new", "load", "resume", "fork"])
def test_the_first_prompt_has_the_tools_of_a_server_that_starts_slowly(
    way: str, tmp_path: Path
) -> None:
    slow = ScriptedMcpServer(tmp_path, McpScript(tools=(TOOL,), start_delay=0.5))
    hello: list[list[Step]] = [] if way == "new" else [[Text("Hello.")]]
    with SessionBench([*hello, *CALL]) as bench:
        session = ""
        if hello:
            with bench.adapter() as adapter:
                session = bench.new(adapter)
                bench.run(adapter, session, "Hello.")
        with bench.adapter() as adapter:
            servers = [given("notes", slow)]
            if way == "new":
                session = bench.new(adapter, mcpServers=servers)
            else:
                answer = bench.ask(adapter, f"session/{way}", session, mcpServers=servers)
                session = answer["result"].get("sessionId", session)
            assert bench.run(adapter, session, "Read.") == "Read it."
            calls = tool_calls(updates_of(adapter.messages, session))
        (call,) = calls.values()
        assert call["status"] == "completed"
        assert "the note" in str(call["content"])


def test_a_server_that_does_not_start_is_said_and_the_session_works(tmp_path: Path) -> None:
    broken = ScriptedMcpServer(tmp_path, McpScript(fail_status=3))
    with SessionBench([[Text("Here.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter, mcpServers=[given("broken", broken)])
        assert bench.run(adapter, session, "Hello.") == "Here."
        wait_for_line(adapter, session, 'The MCP server "broken" did not start')


def test_a_cancel_ends_the_wait_for_a_server(tmp_path: Path) -> None:
    stuck = ScriptedMcpServer(tmp_path, McpScript(tools=(TOOL,), start_delay=60.0))
    with SessionBench([[Text("Here.")]]) as bench, bench.adapter() as adapter:
        session = bench.new(adapter, mcpServers=[given("stuck", stuck)])
        prompt = adapter.start_prompt(session)
        adapter.send({"method": "session/cancel", "params": {"sessionId": session}})
        assert adapter.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert bench.model.requests == ()


def test_a_name_that_the_configuration_has_is_said_and_not_taken_over(tmp_path: Path) -> None:
    configured = ScriptedMcpServer(tmp_path, [TOOL], name="configured")
    clients = ScriptedMcpServer(tmp_path, [TOOL], name="clients")
    with (
        SessionBench(CALL, mcp_servers={"notes": configured.config}) as bench,
        bench.adapter() as adapter,
    ):
        session = bench.new(adapter, mcpServers=[given("notes", clients)])
        wait_for_line(adapter, session, 'The MCP server "notes" of your client was left out')
        bench.run(adapter, session, "Read.")
    assert configured.received("tools/call")
    assert not clients.record_path.exists() or not clients.record()


# Side by side.


def test_sessions_side_by_side_hear_nothing_of_each_other() -> None:
    names = ["ash", "birch", "cedar"]
    script = [
        ModelResponse(
            Text(f"{name} begins. "),
            Gate("all"),
            Text(f"{name} ends."),
            when=When(user_text=f"I am {name}"),
        )
        for name in names
    ]
    with SessionBench(script) as bench, bench.adapter() as adapter:
        sessions = {name: bench.new(adapter) for name in names}
        prompts = [adapter.start_prompt(sessions[name], f"I am {name}") for name in names]
        for name, session in sessions.items():
            wait_until_said(adapter, session, f"{name} begins. ")
        bench.model.open("all")
        for prompt in prompts:
            assert answer_to(adapter, prompt)["result"]["stopReason"] == "end_turn"
        for name, session in sessions.items():
            said = said_by("agent", updates_of(adapter.messages, session))
            assert said == f"{name} begins. {name} ends."


def wait_until_said(adapter: RawAdapter, session_id: str, text: str) -> None:
    """Wait until the agent has said this, and nothing else, in a session."""
    until(adapter, lambda messages: said_by("agent", updates_of(messages, session_id)) == text)
