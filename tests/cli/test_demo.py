"""``codex-acp-sdk demo``: with the real Codex, and every way in which it can fail."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO

import pytest

from codex_acp.cli.demo import ADDED_FILE, ADDED_TEXT, ALLOWED, REFUSED, script
from codex_acp.testing import (
    Entry,
    Exit,
    Expect,
    ModelRequest,
    ScriptedCodex,
    StderrText,
    agent_message,
    turn_completed,
    turn_started,
)
from tests.cli.command import COMMAND, WAIT_SECONDS, environment, run
from tests.cli.on_terminal import TOO_SMALL, OnTerminal
from tests.support.adapter_tap import AdapterTap
from tests.support.processes import lives


class RealCodex:
    """The wheel's binary behind a script that notes the id of each process."""

    def __init__(self, directory: Path) -> None:
        real = str(import_module("codex_cli_bin").bundled_codex_path())
        self.path = directory / "codex"
        self._pids = directory / "pids"
        self.path.write_text(
            f"#!/bin/sh\necho $$ >> {shlex.quote(str(self._pids))}\n"
            f'exec {shlex.quote(real)} "$@"\n',
            encoding="utf-8",
        )
        self.path.chmod(0o755)

    def living(self) -> list[int]:
        """Those that still run, of at least two: one told its version, one was the app-server."""
        pids = [int(line) for line in self._pids.read_text(encoding="utf-8").split()]
        assert len(pids) >= 2
        return [pid for pid in pids if lives(pid)]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    directory = tmp_path / "temporary"
    directory.mkdir()
    return directory


@pytest.mark.e2e
def test_the_tour_shows_each_thing_and_leaves_nothing_behind(
    tmp_path: Path, temporary: Path
) -> None:
    codex = RealCodex(tmp_path)
    done = run(["demo", "--yes", "--codex", str(codex.path)], environment(temporary))
    out = done.stdout.decode()
    assert done.returncode == 0, out + done.stderr.decode()
    assert done.stderr == b""
    places = [
        out.index(text)
        for text in (
            "Show me around.",
            "  hello.py\n",
            f"  $ {ALLOWED}\n",
            "| > to note the time\n",
            ") Allow once\n",
            f"  $ {REFUSED}\n",
            "+# A change\n",
            "How would you like it?",
            "Editor: Zed\n",
            "codex asks you to open a page of agentclientprotocol.com:",
            "Declined without asking: its scheme is javascript",
            "came from a script on this machine",
            "[1 file changed:]",
            "What came of it:",
            "OK: it went as the script says\n",
            "Next: `codex-acp-sdk login`, then `codex-acp-sdk chat`;",
        )
    ]
    assert places == sorted(places)
    # Codex ends what was refused beside the model's next request: the next question may come first.
    rejected = out.index(f"! {REFUSED} (rejected)\n")
    assert out.index(f"  $ {REFUSED}\n") < rejected < out.index("What came of it:")
    assert "\x1b" not in out
    assert codex.living() == []
    assert list(temporary.iterdir()) == []


@pytest.mark.e2e
def test_the_wire_shows_each_line_in_both_directions(temporary: Path) -> None:
    done = run(["demo", "--yes", "--wire"], environment(temporary))
    assert done.returncode == 0
    wire = [line for line in done.stdout.decode().splitlines() if line[:4] in ("--> ", "<-- ")]
    sent = [line for line in wire if line.startswith("-->")]
    methods = [method for line in sent for method in re.findall(r'"method":"([^"]+)"', line)]
    assert methods == ["initialize", "session/new", "session/prompt", "session/close"]
    tap = AdapterTap()
    for line in wire:
        tap.on("agent")("received" if line in sent else "sent", line[4:].encode() + b"\n")
    tap.check()
    assert tap.left_open() == []
    chunks = [line for line in wire if '"agent_message_chunk"' in line]
    assert len(chunks) > 5


@contextmanager
def demonstration(
    tmp_path: Path, temporary: Path, *options: str
) -> Iterator[tuple[IO[bytes], IO[bytes], subprocess.Popen[bytes]]]:
    """Its standard output and error, and its process; behind it nothing may be left."""
    codex = RealCodex(tmp_path)
    with subprocess.Popen(
        [*COMMAND, "demo", "--yes", *options, "--codex", str(codex.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(temporary),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process.stdout, process.stderr, process
        finally:
            process.kill()
    assert codex.living() == []
    assert list(temporary.iterdir()) == []


def read_until(stdout: IO[bytes], text: bytes) -> None:
    while text not in (line := stdout.readline()):
        assert line


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    with demonstration(tmp_path, temporary) as (stdout, stderr, process):
        read_until(stdout, b"First I look around")
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == 128 + number
        said = stderr.read()
    assert b"everything that was started is ended" in said
    assert b"Traceback" not in said


@pytest.mark.e2e
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, temporary: Path) -> None:
    with demonstration(tmp_path, temporary, "--wire") as (stdout, stderr, process):
        read_until(stdout, b"Show me around.")
        stdout.close()
        assert process.wait(WAIT_SECONDS) == 1
        assert stderr.read() == b""


@pytest.mark.e2e
def test_the_demonstration_is_an_agent_for_any_client(tmp_path: Path, temporary: Path) -> None:
    codex, place = RealCodex(tmp_path), tmp_path / "place"
    place.mkdir()
    agent = shlex.join([*COMMAND, "demo", "--agent", "--codex", str(codex.path)])
    env = environment(temporary, OPENAI_API_KEY="secret")
    arguments = ["run", "--command", agent, "--cwd", str(place), "--allow", "edit"]
    done = run([*arguments, "What can you do?"], env)
    assert done.returncode == 0, done.stderr
    assert b"I am a script in place of a model" in done.stdout
    done = run([*arguments, "Please change a file, then go on."], env)
    assert done.returncode == 0, done.stderr
    assert (place / ADDED_FILE).read_text() == ADDED_TEXT
    assert codex.living() == []


@pytest.mark.e2e
def test_the_demonstrations_agent_leaves_nothing_behind(tmp_path: Path, temporary: Path) -> None:
    codex = RealCodex(tmp_path)
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    arguments = ["demo", "--agent", "--codex", str(codex.path)]
    done = run(arguments, environment(temporary), json.dumps(hello).encode() + b"\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["protocolVersion"] == 1
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("prompt", ["", "Hello!", "run", "a FORM, please", "\0", "tour", "edit x"])
def test_every_prompt_gets_an_answer_at_every_stage(prompt: str) -> None:
    items: list[dict[str, object]] = [{"role": "user", "type": "message", "content": prompt}]
    said: list[int | None] = []
    of_demo = script(pause=0.0)
    for number in range(10):
        request = ModelRequest(number, {"input": items})
        said.append(of_demo.choose(request, set(range(99))))
        items = [*items, {"type": "function_call_output", "call_id": str(number), "output": "x"}]
    assert None not in said
    assert said[-1] == said[-2], "it comes to an end"


def test_another_end_than_the_scripts_is_a_failure(tmp_path: Path, temporary: Path) -> None:
    script: list[Entry] = [
        Expect("thread/start"),
        Expect("turn/start"),
        *turn_started(),
        *agent_message("Some ", "other text."),
        *turn_completed(),
    ]
    codex = ScriptedCodex(tmp_path, script)
    done = run(["demo", "--yes", "--codex", str(codex.path)], environment(temporary))
    out = done.stdout.decode()
    assert done.returncode == 1
    assert "Some other text." in out
    assert "! streamed text arrived, to its end" in out
    assert "FAILED: it went not as the script says" in out
    assert "Next:" not in out
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    "before",
    [[], [Expect("thread/start"), Expect("turn/start")]],
    ids=["at the start", "in a turn"],
)
def test_a_codex_that_dies_is_a_failure(
    tmp_path: Path, temporary: Path, before: list[Entry]
) -> None:
    codex = ScriptedCodex(tmp_path, [*before, StderrText("out of ink\n"), Exit(3)])
    done = run(["demo", "--yes", "--codex", str(codex.path)], environment(temporary))
    assert done.returncode == 1
    why = done.stdout.decode().partition("error: ")[2]
    assert "out of ink" in why
    assert b"Traceback" not in done.stdout + done.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "said"), [("0.80.0", b"Codex 0.80.0 is too old"), ("hello", b"is not a Codex")]
)
def test_what_cannot_be_used_is_one_sentence(
    tmp_path: Path, temporary: Path, version: str, said: bytes
) -> None:
    codex = tmp_path / "codex"
    codex.write_text(f"#!/bin/sh\necho {version}\n")
    codex.chmod(0o755)
    done = run(["demo", "--yes", "--codex", str(codex)], environment(temporary))
    assert (done.returncode, done.stdout) == (1, b"")
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_missing_codex_is_an_error_that_says_how_to_get_one(temporary: Path) -> None:
    done = run(["demo", "--yes", "--codex", "/none/codex"], environment(temporary))
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"codex-acp-sdk demo: error: no Codex binary was found" in done.stderr
    assert b"pip install 'codex-acp-sdk[codex]'" in done.stderr


def test_it_does_not_start_unasked(temporary: Path) -> None:
    done = run(["demo"], environment(temporary), b"y\n")
    assert done.returncode == 2
    assert done.stdout == b""
    assert b"use --yes" in done.stderr


def test_on_a_terminal_it_says_what_it_will_do_and_asks(tmp_path: Path, temporary: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"n\n")
        done = subprocess.run(
            [*COMMAND, "demo", "--codex", str(codex.path)],
            stdin=theirs,
            capture_output=True,
            env=environment(temporary),
            timeout=WAIT_SECONDS,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 1
    out = done.stdout.decode()
    assert "No account, no network" in out
    assert out.endswith("Start it? [Y/n] Nothing was started.\n")
    assert list(temporary.iterdir()) == []


def test_it_answers_its_questions_on_a_terminal_with_colours(temporary: Path) -> None:
    env = {k: v for k, v in environment(temporary, TERM="xterm").items() if k != "NO_COLOR"}
    with OnTerminal(env, "--yes", command="demo", stdout_too=True) as terminal:
        terminal.rest()
        assert terminal.end()[0] == 0
    assert "\x1b[32mAllow once" in terminal.screen
    assert "That is none of the answers." not in terminal.screen


def test_7_3_its_questions_wait_for_a_window_that_has_room(temporary: Path) -> None:
    env = environment(temporary, TERM="xterm")
    with OnTerminal(env, command="demo", stdout_too=True, size=(11, 8)) as terminal:
        terminal.until("Start it? [Y/n]")
        terminal.type("\n")
        terminal.until(TOO_SMALL)
        terminal.resize(80)
        terminal.until(" to choose; Enter rejects: ")
        terminal.process.terminate()
        terminal.rest()
