"""``codex-acp-sdk serve`` as a process: its streams and its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from codex_acp.codex.connection import agent_guard
from codex_acp.codex.connection.agent_guard import hook_arguments
from codex_acp.codex.connection.launch import UNLOAD_AT_ONCE
from codex_acp.testing import Exit, Expect, ScriptedCodex
from tests.cli.command import COMMAND, WAIT_SECONDS, environment, run

LOGGED = "codex_acp.adapter.server.app_server: Codex could not be started"
INITIALIZE: dict[str, object] = {"protocolVersion": 1, "clientCapabilities": {}}


NEW: dict[str, object] = {"cwd": "/", "mcpServers": []}


def line(number: int, method: str, params: dict[str, object]) -> bytes:
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(request).encode() + b"\n"


BOTH = line(0, "initialize", INITIALIZE) + line(1, "session/new", NEW)


class Agent:
    """A running agent that has answered both requests; its stdin is closed at the end."""

    def __init__(self, arguments: Sequence[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        command = [*COMMAND, *arguments]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                process.stdin.write(BOTH)
                process.stdin.flush()
                answers = [json.loads(process.stdout.readline()) for _ in range(2)]
                process.stdin.close()
                assert process.wait(WAIT_SECONDS) == 0
                self.stderr = process.stderr.read().decode()
            finally:
                process.kill()
        assert [answer["id"] for answer in answers] == [0, 1]
        self.session: dict[str, object] = answers[1]
        """The answer to ``session/new``."""


NOISY = """
import os, sys
import codex_acp.mapping.agent as handshake
quiet = handshake.capabilities_of
def noisy(*given):
    print("printed by a library")
    sys.stdout.write("written by a library\\n")
    os.write(1, b"written to the descriptor\\n")
    os.system("echo written by a child")
    return quiet(*given)
handshake.capabilities_of = noisy
from codex_acp.cli.main import main
sys.exit(main())
"""


def test_stdout_carries_the_protocol_only_whatever_a_library_prints(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    done = run([], env, BOTH, [sys.executable, "-P", "-c", NOISY])
    assert done.returncode == 0
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert {m["id"] for m in messages} >= {0}
    for text in ("printed by", "written by a library", "to the descriptor", "by a child"):
        assert text in done.stderr.decode()


@pytest.mark.parametrize("words", [[], ["serve"], ["-c", "a=1"]], ids=["alone", "serve", "options"])
def test_settings_reach_codex_and_the_agent_answers(tmp_path: Path, words: list[str]) -> None:
    codex = ScriptedCodex(tmp_path, [Expect("thread/start")])
    agent = Agent(words, environment(tmp_path, CODEX_PATH=str(codex.path)))
    result = agent.session["result"]
    assert isinstance(result, dict)
    assert result["sessionId"] == "thread-1"
    first, *given = codex.record().argv
    of_ours = [*hook_arguments(sys.executable, agent_guard.__file__), *UNLOAD_AT_ONCE]
    assert first == "app-server"
    assert given == [*of_ours, *(word for word in words if word != "serve")]


def test_the_log_goes_to_stderr(tmp_path: Path) -> None:
    agent = Agent([], environment(tmp_path, CODEX_PATH="/none/codex"))
    assert "no Codex binary was found" in json.dumps(agent.session["error"])
    assert f"WARNING {LOGGED}" in agent.stderr


def test_the_log_goes_to_the_file_instead(tmp_path: Path) -> None:
    file = tmp_path / "agent.log"
    file.write_text("before\n", encoding="utf-8")
    arguments = ["--log-file", str(file), "--codex", "/none/codex"]
    assert Agent(arguments, environment(tmp_path)).stderr == ""
    text = file.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert f"WARNING {LOGGED}" in text


def test_the_option_for_the_level_goes_before_the_variable(tmp_path: Path) -> None:
    env = environment(tmp_path, CODEX_ACP_LOG="DEBUG")
    arguments = ["--log-level", "ERROR", "--codex", "/none/codex"]
    assert Agent(arguments, env).stderr == ""
    env = environment(tmp_path, CODEX_ACP_LOG="error")
    assert Agent(["--codex", "/none/codex"], env).stderr == ""


def test_without_a_stdout_it_says_so_and_leaves_no_codex(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [Exit(0)])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *COMMAND]
    done = run([], env, b"", shell)
    assert done.returncode == 1
    assert b"error: standard output is closed" in done.stderr
    assert b"Traceback" not in done.stderr


def test_somebody_who_starts_it_by_hand_is_told_what_it_is(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    codex = ScriptedCodex(tmp_path, [])
    process = subprocess.Popen(
        COMMAND,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path, CODEX_PATH=str(codex.path)),
    )
    os.close(theirs)
    with process:
        assert process.stderr is not None
        try:
            assert b"an ACP agent" in process.stderr.readline()
        finally:
            process.terminate()
            assert process.wait(WAIT_SECONDS) in (0, -15)
            os.close(ours)
