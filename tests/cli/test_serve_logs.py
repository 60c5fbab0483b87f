"""The log of the agent: it holds up nothing, repeats nothing, and tells no secret."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from codex_acp.cli.log_handler import log_entry
from codex_acp.testing import Expect, Notify, ScriptedCodex
from codex_acp.transcript.events import Entry, SessionOpened, SessionRef, WireMessage
from tests.cli.command import COMMAND, WAIT_SECONDS, environment, run

FLOOD = 3000
"""Warnings of some 200 bytes each: many times what a pipe holds."""

INITIALIZE: dict[str, object] = {"protocolVersion": 1}

PIPE = subprocess.PIPE


def line(method: str, params: dict[str, object], number: int | None = None) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n"


def cancels(count: int, *, alike: bool = False) -> bytes:
    """Notifications that each cause a warning."""
    names = (f"{0 if alike else number:0150}" for number in range(count))
    return b"".join(line("session/cancel", {"sessionId": name}) for name in names)


@contextmanager
def serving(
    arguments: Sequence[str], env: dict[str, str], stderr: int = PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, stderr=stderr, env=env
    ) as agent:
        killer = threading.Timer(WAIT_SECONDS, agent.kill)
        killer.start()
        try:
            yield agent
        finally:
            killer.cancel()
            agent.kill()


def ask(agent: subprocess.Popen[bytes], *lines: bytes) -> dict[str, object]:
    """Send the lines; the answer to the last."""
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(b"".join(lines))
    agent.stdin.flush()
    answer: dict[str, object] = json.loads(agent.stdout.readline())
    return answer


@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
@pytest.mark.attack("client")
def test_a_stderr_that_nobody_reads_holds_up_neither_an_answer_nor_the_end(
    tmp_path: Path, end: str
) -> None:
    codex = ScriptedCodex(tmp_path, [])
    with serving([], environment(tmp_path, CODEX_PATH=str(codex.path))) as agent:
        assert "result" in ask(agent, line("initialize", INITIALIZE, 0))
        answer = ask(agent, cancels(FLOOD), line("session/none", {}, 1))
        assert answer["id"] == 1
        if end == "stdin":
            assert agent.stdin is not None
            agent.stdin.close()
        else:
            agent.send_signal(signal.SIGTERM)
        assert agent.wait() == 0


def test_what_was_not_read_in_time_is_counted_when_it_is(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    with serving([], env) as agent:
        assert agent.stderr is not None
        ask(agent, line("initialize", INITIALIZE, 0))
        ask(agent, cancels(4 * FLOOD), line("session/none", {}, 1))
        for told in agent.stderr:
            if b"records are missing here" in told:
                break
        else:
            pytest.fail("nothing is said of what is lost")
        assert agent.stdin is not None
        agent.stdin.close()
        agent.stderr.read()
        assert agent.wait() == 0


def test_the_same_warning_again_and_again_is_one_line_and_a_count(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    done = run([], env, line("initialize", INITIALIZE, 0) + cancels(50, alike=True))
    told = [one for one in done.stderr.decode().splitlines() if "unknown session" in one]
    assert done.returncode == 0
    assert len(told) == 2, told
    assert told[1].endswith("[49 more of it]")


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_debug_names_every_message_and_tells_nothing_of_what_is_in_it(
    tmp_path: Path, level: str
) -> None:
    env = environment(tmp_path, CODEX_PATH=str(ScriptedCodex(tmp_path, []).path))
    given = line("initialize", {"protocolVersion": 1, "_meta": {"said": "in confidence"}}, 0)
    log, transcript = tmp_path / "log", tmp_path / "transcript.jsonl"
    options = ["--log-file", str(log), "--log-level", level, "--transcript", str(transcript)]
    assert run(options, env, given).returncode == 0
    named = f"client > adapter wire request initialize id 0, {len(given) - 1} bytes"
    assert (named in log.read_text()) == (level == "DEBUG")
    assert "in confidence" not in log.read_text() + transcript.read_text()
    assert "wire.message" not in transcript.read_text()


def test_what_a_session_does_is_in_the_log_from_info_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "codex_acp")
    ref = SessionRef(session_id="a-session", thread_id=None, generation=1)
    message = WireMessage(
        ref=ref, peer="client", direction="received", connection=1, kind="request", id=1,
        method="session/new", size=9,
    )  # fmt: skip
    for event in (SessionOpened(ref=ref, how="new"), message):
        log_entry(Entry("2026-01-31T12:00:00.000Z", event))
    assert [record.getMessage() for record in caplog.records] == [
        "-session client > codex session opened new"
    ]


def test_a_full_disk_is_said_once_and_never_as_a_traceback(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    given = line("initialize", INITIALIZE, 0) + cancels(50)
    done = run(["--log-file", "/dev/full"], env, given)
    assert done.returncode == 0
    (told,) = done.stderr.decode().splitlines()
    assert "/dev/full" in told
    assert "No space left on device" in told


def test_a_pipe_without_a_reader_is_refused_at_the_start(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run(["--log-file", str(pipe)], environment(tmp_path, CODEX_PATH="/bin/sh"))
    assert done.returncode == 2
    assert done.stderr.decode().startswith("codex-acp-sdk: error: --log-file: cannot write")


def test_a_pipe_whose_reader_sleeps_holds_up_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    given = line("initialize", INITIALIZE, 0) + cancels(FLOOD)
    done = run(["--log-file", str(pipe), "--transcript", str(pipe)], env, given)
    os.close(reader)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_the_file_is_for_its_owner_alone_also_when_it_was_there(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    old, new = tmp_path / "old.log", tmp_path / "new.log"
    old.write_text("before\n")
    old.chmod(0o644)
    for file in (old, new):
        assert run(["--log-file", str(file)], env, cancels(1)).returncode == 0
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


KEY = "hunter2-of-the-notes"


@pytest.mark.attack("MCP server")
def test_what_an_mcp_server_was_given_stands_neither_in_the_log_nor_in_an_answer(
    tmp_path: Path,
) -> None:
    said = f"could not start notes: env NOTES={KEY}, https://me:pass-word@mcp.example/?key=abc"
    error = {"code": -32603, "message": said, "data": {"config": [KEY]}}
    codex = ScriptedCodex(tmp_path, [Expect("thread/start", error=error)])
    file = tmp_path / "agent.log"
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    variables = [{"name": "NOTES", "value": KEY}, {"name": "NODE_ENV", "value": "production"}]
    server = {"name": "notes", "command": "/bin/notes", "args": [], "env": variables}
    with serving(["--log-file", str(file), "--log-level", "DEBUG"], env) as agent:
        ask(agent, line("initialize", INITIALIZE, 0))
        new: dict[str, object] = {"cwd": str(tmp_path), "mcpServers": [server]}
        answer = ask(agent, line("session/new", new, 1))
        ask(
            agent,
            line("session/cancel", {"sessionId": f"a {KEY} in production"}),
            line("session/none", {}, 2),
        )
        assert agent.stdin is not None
        agent.stdin.close()
        assert agent.wait() == 0
    assert "could not start notes" in json.dumps(answer)
    told = json.dumps(answer) + file.read_text()
    assert "names the unknown session a [redacted] in production" in told
    for secret in (KEY, "pass-word", "key=abc"):
        assert secret not in told


def test_the_line_that_a_server_did_not_start_quotes_no_secret(tmp_path: Path) -> None:
    why = f"MCP client for notes failed: env {KEY}; Authorization: Bearer from-a-config"
    status: dict[str, object] = {"threadId": "thread-1", "name": "notes", "status": "failed"}
    failed = Notify("mcpServer/startupStatus/updated", {**status, "error": why})
    codex = ScriptedCodex(tmp_path, [Expect("thread/start"), failed, Notify("none")])
    env = environment(tmp_path, CODEX_PATH=str(codex.path))
    variables = [{"name": "NOTES", "value": KEY}]
    server = {"name": "notes", "command": "/bin/notes", "args": [], "env": variables}
    new: dict[str, object] = {"cwd": str(tmp_path), "mcpServers": [server]}
    with serving([], env) as agent:
        ask(agent, line("initialize", INITIALIZE, 0), line("session/new", new, 1))
        assert agent.stdout is not None
        told = next(one for one in agent.stdout if b"did not start" in one).decode()
    assert "MCP client for notes failed: env [redacted]; Authorization: [redacted]" in told
    assert KEY not in told
