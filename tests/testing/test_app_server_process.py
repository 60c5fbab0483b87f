"""The scripted app-server as a process that stands in for the Codex binary."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    AppServerScript,
    AwaitAnswer,
    CloseOutput,
    Entry,
    Exit,
    Expect,
    ExpectNotification,
    Notify,
    Pause,
    RawLine,
    ScriptedCodex,
    StderrText,
    agent_message,
    command_approval,
    turn_completed,
    turn_started,
)
from tests.testing.codex_driver import CodexDriver

BOUND = 60.0
"""Seconds; every process here ends in a fraction of one."""


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def run(codex: ScriptedCodex, given: bytes = b"", *args: str) -> subprocess.CompletedProcess[bytes]:
    command = [str(codex.path), *(args or ("app-server",))]
    return subprocess.run(command, input=given, capture_output=True, timeout=BOUND, check=False)


def test_a_whole_turn_with_an_approval(tmp_path: Path) -> None:
    script: list[Entry] = [
        ExpectNotification("initialized"),
        Expect("thread/start"),
        Expect("turn/start"),
        *turn_started(),
        *command_approval(name="ask"),
        AwaitAnswer("ask"),
        *agent_message("You said ", "${ask:result.decision}."),
        *turn_completed(),
    ]
    codex = ScriptedCodex(tmp_path, script)
    with CodexDriver(dict(os.environ), tmp_path, codex.path) as driver:
        thread_id = driver.start_thread(tmp_path)
        driver.start_turn(thread_id)
        asked = driver.wait_for_method("item/commandExecution/requestApproval")
        driver.send({"id": asked["id"], "result": {"decision": "decline"}})
        assert driver.finish_turn(thread_id)["status"] == "completed"
        deltas = [p["delta"] for p in driver.params_of("item/agentMessage/delta")]
        assert deltas == ["You said ", "decline."]
    record = codex.record()
    assert record.finished
    assert record.argv == ["app-server"]
    assert len(record.answers_to(asked["id"])) == 1
    assert record.answers_to(str(asked["id"])) == []
    assert [m["method"] for m in record.requests("turn/start")] == ["turn/start"]
    assert record.sent[-1]["method"] == "turn/completed"


def test_it_takes_the_arguments_of_the_binary(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [], version="9.9.9")
    assert run(codex, b"", "--version").stdout == b"codex-cli 9.9.9\n"
    assert run(codex, b"", "exec", "hello").returncode == 2
    assert run(codex, b"", "-c", 'model="x"', "app-server").returncode == 0
    assert codex.record().argv == ["-c", 'model="x"', "app-server"]


def test_it_ends_with_status_zero_when_its_input_ends(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [Expect("never")])
    assert run(codex).returncode == 0
    record = codex.record()
    assert not record.finished
    assert record.end is not None
    assert record.end["remaining"] == [{"expect": "never"}]


def test_it_exits_and_complains_as_scripted(tmp_path: Path) -> None:
    script: list[Entry] = [
        RawLine("not json"),
        StderrText("boom"),
        Pause(0.01),
        RawLine("half", newline=False),
    ]
    done = run(ScriptedCodex(tmp_path, [*script, Exit(3)]))
    assert (done.returncode, done.stdout, done.stderr) == (3, b"not json\nhalf", b"boom\n")


def test_it_reads_on_after_closing_its_output(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [CloseOutput(), ExpectNotification("late"), Exit(4)])
    done = run(codex, lines({"method": "late"}))
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")


def test_input_that_is_no_message_is_recorded_and_ignored(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [Expect("a")])
    done = run(codex, b"nonsense\n[1]\n\n" + lines({"id": 1, "method": "a"}))
    assert json.loads(done.stdout) == {"id": 1, "result": {}}
    assert [line["line"] for line in codex.record().lines if "line" in line] == [
        "nonsense\n",
        "[1]\n",
    ]


def test_a_script_that_cannot_be_played_says_why(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [Notify("n", {"x": "${never:seen}"})])
    done = run(codex)
    assert done.returncode == 70
    assert b"never:seen" in done.stderr
    assert not codex.record().finished


def test_many_notifications_are_written_whole(tmp_path: Path) -> None:
    done = run(ScriptedCodex(tmp_path, [Notify("n", {"text": "x" * 100}, times=20_000)]))
    assert len(done.stdout.splitlines()) == 20_000


@pytest.mark.parametrize("stubborn", [True, False])
def test_a_stubborn_process_has_to_be_killed(tmp_path: Path, stubborn: bool) -> None:
    script = AppServerScript(Notify("up"), ignore_eof=True, ignore_sigterm=stubborn)
    child = subprocess.Popen(
        [str(ScriptedCodex(tmp_path, script).path), "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert json.loads(child.stdout.readline()) == {"method": "up"}
        child.stdin.close()
        child.terminate()
        if stubborn:
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.3)
            child.kill()
        assert child.wait(BOUND) == -(signal.SIGKILL if stubborn else signal.SIGTERM)
