"""The end of the adapter: it exits at once, and nothing that it or Codex started is left."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeAlias

import pytest

from codex_acp.testing import (
    AppServerScript,
    CodexHome,
    Expect,
    McpTool,
    ScriptedCodex,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    command_approval,
    exec_command,
    turn_started,
)
from tests.e2e.adapter_bench import COMMAND
from tests.e2e.either_version import EitherVersion
from tests.e2e.raw_adapter import WAIT, RawAdapter
from tests.e2e.spawned_adapter import MARKER, marked_processes

logger = logging.getLogger(__name__)

END_SECONDS = 60.0
"""The promise is half a second, which a machine beside eight busy processes cannot keep: what hangs
is found all the same, since what it waits for would take five minutes."""

TWO_SLEEPERS = "echo up > started; sleep 300 & sleep 300"

STUBBORN = (
    "setsid sh -c 'trap \"\" TERM HUP INT; echo up > started; while :; do sleep 300; done' & wait"
)
"""In a session of its own, so no signal to a group reaches it, and deaf to SIGTERM."""

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'

End: TypeAlias = Callable[[RawAdapter], None]

ENDS: dict[str, End] = {
    "stdin-closed": RawAdapter.end_input,
    "sigterm": lambda adapter: adapter.signal(signal.SIGTERM),
}


class _Running:
    """An adapter whose turn runs a command, with an MCP server besides."""

    def __init__(self, directory: Path, command: str) -> None:
        self._directory = directory
        self._command = command

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def _start(self, stack: ExitStack) -> None:
        script: list[list[Step]] = [
            [exec_command(self._command, yield_time_ms=60_000)],
            [Text("Never.")],
        ]
        model = stack.enter_context(ScriptedModel(script))
        home = stack.enter_context(CodexHome(model.base_url, sandbox_mode="danger-full-access"))
        self.server = ScriptedMcpServer(self._directory, [McpTool("read_note", read_only=True)])
        self.adapter = stack.enter_context(RawAdapter(home.env))
        self.adapter.initialize()
        started = home.workspace / "started"
        os.mkfifo(started)
        fifo = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, fifo)
        session = self.adapter.new_session(home.workspace, [self._given()])
        self.prompt = self.adapter.start_prompt(session)
        assert select.select([fifo], [], [], WAIT)[0], "the command has not started"
        deadline = time.monotonic() + WAIT
        # The adapter, Codex, the MCP server, a shell and its child.
        while len(self.adapter.marked()) < 5:
            assert time.monotonic() < deadline, "not everything has started"
            time.sleep(0.01)

    def __exit__(self, *exc: object) -> None:
        self._stack.__exit__(*exc)  # type: ignore[arg-type]

    def _given(self) -> dict[str, object]:
        command, *arguments = self.server.argv
        env = {"PYTHONPATH": os.pathsep.join(sys.path), MARKER: self.adapter.marker}
        variables = [{"name": name, "value": value} for name, value in env.items()]
        return {"name": "notes", "command": command, "args": arguments, "env": variables}


def seconds_to_the_end(adapter: RawAdapter, end: End) -> float:
    """From the end's cause until the adapter has exited and nothing is left."""
    began = time.monotonic()
    end(adapter)
    assert adapter.wait() == 0
    assert adapter.marked() == []
    seconds = time.monotonic() - began
    logger.info("%.3f s", seconds)
    return seconds


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_an_idle_adapter_exits_at_once_and_leaves_nothing(end: End) -> None:
    with CodexHome() as home, RawAdapter(home.env) as adapter:
        adapter.initialize()
        adapter.new_session(home.workspace)
        seconds = seconds_to_the_end(adapter, end)

    assert seconds < END_SECONDS


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("command", [TWO_SLEEPERS, STUBBORN], ids=["two-sleepers", "stubborn"])
def test_an_adapter_in_mid_turn_exits_at_once_and_leaves_nothing(
    end: End, command: str, tmp_path: Path
) -> None:
    with _Running(tmp_path, command) as running:
        seconds = seconds_to_the_end(running.adapter, end)

    assert seconds < END_SECONDS


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.mark.parametrize("number", SIGNALS, ids=[each.name for each in SIGNALS])
def test_4_3_the_prompt_that_runs_at_a_signal_is_answered(
    number: signal.Signals, tmp_path: Path
) -> None:
    with _Running(tmp_path, TWO_SLEEPERS) as running:
        adapter = running.adapter
        adapter.until("tool_call", status="in_progress")
        adapter.signal(number)
        assert adapter.answer(running.prompt)["result"]["stopReason"] == "cancelled"
        *_, call = adapter.updates("tool_call_update")
        assert call["status"] == "failed"
        assert adapter.wait() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_3_5_what_is_asked_at_a_sigterm_is_settled_and_its_prompt_answered(version: int) -> None:
    script = [[exec_command("touch made", justification="May I?")]]
    with EitherVersion(version, script) as it:
        adapter, session = it.adapter, it.new()
        prompt = adapter.start_prompt(session)
        asked = adapter.wait_for(lambda m: m.get("method") == "session/request_permission")
        adapter.signal(signal.SIGTERM)
        withdrawn = adapter.wait_for(lambda m: m.get("method") == "$/cancel_request")
        assert withdrawn["params"] == {"requestId": asked["id"]}
        end = (
            adapter.until("state_update", session, state="idle", stopReason="cancelled")
            if version == 2
            else adapter.answer(prompt)["result"]
        )
        assert end["stopReason"] == "cancelled"
        assert adapter.wait() == 0
        assert not (it.home.workspace / "made").exists()


def test_4_3_the_prompt_of_a_codex_that_does_not_heed_is_answered_at_a_sigterm(
    tmp_path: Path,
) -> None:
    asks = [*turn_started(), *command_approval()]
    heedless = Expect("turn/interrupt", silent=True)
    script = AppServerScript(Expect("thread/start"), Expect("turn/start"), *asks, heedless)
    codex = ScriptedCodex(tmp_path, script)
    with RawAdapter({**os.environ, "CODEX_PATH": str(codex.path)}) as adapter:
        adapter.initialize()
        prompt = adapter.start_prompt(adapter.new_session(tmp_path))
        adapter.wait_for(lambda m: m.get("method") == "session/request_permission")
        adapter.signal(signal.SIGTERM)
        assert adapter.answer(prompt)["result"]["stopReason"] == "cancelled"
        assert adapter.wait() == 0


def test_an_end_of_stdin_while_codex_starts_leaves_nothing() -> None:
    with CodexHome() as home, RawAdapter(home.env) as adapter:
        adapter.initialize()
        adapter.start("session/new", {"cwd": str(home.workspace), "mcpServers": []})
        seconds = seconds_to_the_end(adapter, RawAdapter.end_input)

    assert seconds < END_SECONDS


def test_codex_ends_by_itself_after_the_adapter_was_killed() -> None:
    with CodexHome() as home, RawAdapter(home.env) as adapter:
        adapter.initialize()
        adapter.new_session(home.workspace)
        assert adapter.codex()
        adapter.signal(signal.SIGKILL)
        assert adapter.wait() == -signal.SIGKILL

        adapter.wait_until_nothing_is_left()


@pytest.mark.attack("client")
def test_a_client_that_reads_no_more_ends_the_adapter() -> None:
    marker = uuid.uuid4().hex
    with (
        CodexHome() as home,
        subprocess.Popen(
            [COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**home.env, MARKER: marker},
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert b"result" in process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"not json, so it is answered\n")
        process.stdin.flush()

        assert process.wait(WAIT) == 1
        assert b"the client is gone" in (said := process.stderr.read())
        assert b"Traceback" not in said
    assert marked_processes(marker) == []
