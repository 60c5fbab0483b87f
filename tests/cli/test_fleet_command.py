"""``codex-acp-sdk fleet`` as a user runs it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codex_acp.cli.fleet import Progress
from codex_acp.cli.terminal import columns_of
from codex_acp.fleet.errors import OutDirectoryError
from codex_acp.fleet.outcomes import Outcome, outcome_from_json
from tests.cli.command import COMMAND, WAIT_SECONDS, environment, run
from tests.fleet.fleet_bench import AGENT, repository

EMPTY = {"message": None, "worker": None, "sessionId": None, "resumed": False}

AGENT_LINE = shlex.join([sys.executable, str(AGENT)])


def tasks_file(folder: Path, *lines: object) -> str:
    file = folder / "tasks.jsonl"
    file.write_text("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines))
    return str(file)


def line(name: str, place: Path, **told: Any) -> dict[str, Any]:
    keys: dict[str, Any] = {
        key: told.pop(key) for key in ("policy", "time_limit", "output") if key in told
    }
    prompt = json.dumps(told)
    return {"id": name, "prompt": prompt, "cwd": str(place), "command": AGENT_LINE, **keys}


def fleet(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    done = run(("fleet", *arguments), environment(folder))
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


def test_a_file_of_tasks_is_run_shown_and_gone_on_with(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = tasks_file(tmp_path, line("a", tmp_path, say="Hi.", tokens=7), line("b", tmp_path))
    code, printed, told = fleet(tmp_path, "run", file, "--out", out)
    assert code == 0, told
    assert sorted(text.partition(" (")[0] for text in printed) == ["a: completed", "b: completed"]
    assert "2 of 2 completed, 0 failed" in told
    assert "\x1b" not in told
    code, printed, _ = fleet(tmp_path, "show", out)
    assert (code, printed[-1]) == (0, "2 completed, 0 failed, 0 left, 7 tokens")
    code, _, told = fleet(tmp_path, "run", file, "--out", out)
    assert (code, "resume (--resume)" in told) == (2, True)
    tasks_file(
        tmp_path, line("a", tmp_path, say="Hi.", tokens=7), line("c", tmp_path, stop="refusal")
    )
    code, printed, told = fleet(tmp_path, "run", file, "--out", out, "--resume")
    assert code == 1
    assert [text.partition(" (")[0] for text in printed] == ["c: failed refusal"]
    assert "(1 before)" in told
    assert "[1 task is failed; --resume --retry-failed runs what failed once more]" in told
    arguments = ("run", file, "--out", out, "--resume", "--retry-failed")
    code, printed, told = fleet(tmp_path, *arguments)
    assert [text.partition(" (")[0] for text in printed] == ["c: failed refusal"]
    assert "2 attempts" in printed[0]
    assert "(1 before)" in told


def test_json_is_one_object_for_each_outcome_and_nothing_else(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    schema = {"type": "object", "required": ["n"]}
    lines = [
        line("a", tmp_path, say='{"n": 1}', output=schema),
        line("b", tmp_path, ask="execute", policy={"allow": ["execute"]}),
        line("c", tmp_path, ask="execute"),
    ]
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", out, "--json")
    code, printed, told = fleet(tmp_path, *arguments)
    assert (code, told) == (0, "")
    found = {entry["id"]: entry for entry in map(json.loads, printed)}
    assert {entry["type"] for entry in found.values()} == {"result"}
    assert found["a"]["output"] == {"n": 1}
    assert (found["b"]["asked"], found["b"]["allowed"]) == (1, 1)
    assert (found["c"]["asked"], found["c"]["allowed"]) == (1, 0)
    assert Path(found["a"]["path"], "outcome.json").is_file()
    code, shown, _ = fleet(tmp_path, "show", out, "--json")
    assert {json.loads(text)["id"] for text in shown} == {"a", "b", "c"}


def test_what_is_not_in_a_patch_is_told(tmp_path: Path) -> None:
    place = repository(tmp_path / "place")
    entries = [
        line("hides", place, write={".gitignore": "*\n", "work": "w"}),
        line("nests", repository(tmp_path / "other"), sh="git init -q inner && touch inner/x"),
    ]
    out = str(tmp_path / "out")
    file = tasks_file(tmp_path, *entries)
    code, printed, _ = fleet(tmp_path, "run", file, "--out", out)
    hides, nests = sorted(printed)
    assert hides.startswith("hides: completed (")
    assert "ignored, by rules that the task has written: .gitignore, work" in hides
    assert nests.startswith("nests: failed changes_incomplete (")
    assert code == 1


def test_a_broken_line_stops_everything_unless_it_is_skipped(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    file = tasks_file(tmp_path, line("a", tmp_path), {"id": "b", "promt": "x"})
    code, printed, told = fleet(tmp_path, "run", file, "--out", out)
    assert (code, printed) == (2, [])
    assert "line 2: there is no key 'promt'; did you mean 'prompt'?" in told
    assert "--skip-broken runs the rest" in told
    assert not Path(out).exists()
    code, printed, told = fleet(tmp_path, "run", file, "--out", out, "--skip-broken")
    assert (code, len(printed)) == (0, 1)
    assert "left out: line 2" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "the following arguments are required: TASKS, --out"),
        (("run", "TASKS", "--out", "OUT", "--engine", "slurm"), "invalid choice: 'slurm'"),
        (("run", "TASKS", "--out", "OUT", "--address", "auto"), "add --engine ray"),
        (("run", "TASKS", "--out", "OUT", "--concurrency", "0"), "not a positive whole number"),
        (("run", "TASKS", "--out", "OUT", "--time-limit", "nan"), "not a number"),
        (("run", "TASKS", "--out", "OUT", "--policy", "ask"), "needs a terminal"),
        (("run", "TASKS", "--out", "OUT", "--retry-failed"), "add resume (--resume)"),
        (("run", "GONE", "--out", "OUT"), "No such file or directory"),
        (("show", "GONE"), "is no output directory of a fleet"),
        ((), "the following arguments are required: run|show"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_said(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    file = tasks_file(tmp_path, line("a", tmp_path))
    names = {"TASKS": file, "OUT": str(tmp_path / "out"), "GONE": str(tmp_path / "gone")}
    code, printed, told = fleet(tmp_path, *(names.get(word, word) for word in arguments))
    assert (code, printed) == (2, [])
    assert said in told


@pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("ray") is not None, reason="Ray is installed"
)
def test_an_engine_that_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    file = tasks_file(tmp_path, line("a", tmp_path))
    code, _, told = fleet(tmp_path, "run", file, "--out", str(tmp_path / "o"), "--engine", "ray")
    assert code == 2
    assert "pip install 'codex-acp-sdk[ray]'" in told


def test_options_hold_for_every_task(tmp_path: Path) -> None:
    lines = [
        line("asks", tmp_path, ask="execute"),
        line("reads", tmp_path, ask="read"),
        line("crashes", tmp_path, crash=True),
        line("hangs", tmp_path, sleep=600),
    ]
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", str(tmp_path / "out"), "--json")
    more = ("--allow", "read,search", "--attempts", "1", "--task-time-limit", "8")
    code, printed, _ = fleet(tmp_path, *arguments, *more)
    assert code == 1
    found = {entry["id"]: entry for entry in map(json.loads, printed)}
    assert (found["asks"]["asked"], found["asks"]["allowed"]) == (1, 0)
    assert (found["reads"]["asked"], found["reads"]["allowed"]) == (1, 1)
    assert (found["crashes"]["reason"], len(found["crashes"]["attempts"])) == ("agent_lost", 1)
    assert found["hangs"]["reason"] == "time_limit"
    assert "8 seconds" in found["hangs"]["message"]


def test_a_time_limit_for_all_is_told_with_what_is_left(tmp_path: Path) -> None:
    file = tasks_file(tmp_path, line("a", tmp_path, sleep=600))
    arguments = ("run", file, "--out", str(tmp_path / "out"), "--json", "--time-limit", "1")
    code, printed, _ = fleet(tmp_path, *arguments)
    (stopped,) = map(json.loads, printed)
    assert (code, stopped["left"]) == (3, ["a"])
    assert "1 seconds for all tasks" in stopped["reason"]


def test_a_budget_is_told_with_what_is_left(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    lines = [line(f"t{n}", tmp_path, used=60, sleep=600) for n in range(2)]
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", out, "--max-tokens", "100", "--json")
    code, printed, _ = fleet(tmp_path, *arguments)
    assert code == 3
    (stopped,) = map(json.loads, printed)
    assert stopped["type"] == "stopped"
    assert stopped["left"] == ["t0", "t1"]
    assert "100 tokens" in stopped["reason"]
    code, printed, _ = fleet(tmp_path, "show", out)
    assert code == 3
    assert "t0: begun, no outcome" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs_and_leaves_it_to_be_resumed(tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    source = repository(tmp_path / "source")
    entry = line("a", tmp_path, sleep=600)
    del entry["cwd"]
    file = tasks_file(tmp_path, entry | {"repository": str(source)})
    command = [*COMMAND, "fleet", "run", file, "--out", str(out)]
    env = environment(tmp_path) | {"FLEET_AGENT_STORE": str(tmp_path / "store")}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + WAIT_SECONDS
        while '"prompt"' not in _journal(out) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(number)
        _, told = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 128 + number
    assert "1 task is left" in told
    (noted,) = (tmp_path / "store").iterdir()
    with pytest.raises(ProcessLookupError):
        os.kill(json.loads(noted.read_text().splitlines()[0])["pid"], 0)
    assert list(out.glob("work/*/trees/a/a.txt"))


@pytest.mark.attack("agent")
def test_a_second_signal_leaves_no_agent_and_no_command(tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    script = f"trap '' TERM; echo $$ $PPID > {noted}; exec sleep 600"
    file = tasks_file(tmp_path, line("a", tmp_path, sh=script))
    command = [*COMMAND, "fleet", "run", file, "--out", str(tmp_path / "out")]
    env = environment(tmp_path)
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        end = time.monotonic() + WAIT_SECONDS
        while not (noted.exists() and noted.read_text()) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert any("once more ends it at once" in told for told in process.stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    for pid in map(int, noted.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _journal(out: Path) -> str:
    path = out / "journal.jsonl"
    return path.read_text() if path.exists() else ""


@pytest.mark.attack("agent")
def test_no_row_of_the_live_table_is_wider_than_the_terminal() -> None:
    """What goes on in the next row is never wiped out, and begins where a question would."""
    progress = Progress(1, lambda *_: None)
    progress.apply("a", {"type": "worker", "worker": "w"})
    progress.apply("a", {"type": "tool", "title": "\u6f22" * 60})
    rows = progress.table(79)
    assert max(sum(map(columns_of, row)) for row in rows) < 80
    assert len(rows) == 2


def test_the_columns_of_the_live_table_stand_below_each_other() -> None:
    progress = Progress(3, lambda *_: None)
    for task_id in ("a", "\u65e5\u672c", "x" * 60):
        progress.apply(task_id, {"type": "worker", "worker": "w"})
    rows = [row.partition("started on w")[0] for row in progress.table(79)[1:]]
    assert len({sum(map(columns_of, row)) for row in rows}) == 1
    assert rows[2].split()[0] == "x" * 25 + "..."


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", ["\x1b[2J"]),
        ("status", "completed\x1b[2J"),
        ("reason", "\x1b]0;x\x07"),
        ("message", 5),
        ("text", {"x": "\x1b[2J"}),
        ("agent", None),
        ("digest", 1),
        ("asked", "\x1b"),
        ("changesNote", ["\x1b"]),
        ("usage", {"total": "\x1b[2J", "input": 0, "output": 0, "counted": True}),
        ("attempts", [dict.fromkeys(("started", "reason", "seconds"), 1) | EMPTY]),
        ("attempts", [{"started": "", "reason": "", "sessionId": None, "seconds": "\x1b"}]),
    ],
)
def test_an_outcome_that_was_written_by_another_is_told_to_be_none(name: str, value: Any) -> None:
    whole = Outcome(id="a", status="completed", reason="end_turn").to_json(None)
    assert outcome_from_json(whole, Path("x")).ok
    with pytest.raises(OutDirectoryError, match="malformed"):
        outcome_from_json({**whole, name: value}, Path("x"))


def test_what_agents_say_cannot_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e"
    entry = line(f"a{evil}", tmp_path, say=evil, stop="refusal")
    out = str(tmp_path / "out")
    _, printed, told = fleet(tmp_path, "run", tasks_file(tmp_path, entry), "--out", out)
    _, shown, _ = fleet(tmp_path, "show", out)
    for text in (*printed, told, *shown):
        assert "\x1b" not in text
        assert "\u202e" not in text
