"""``codex-acp-sdk fleet`` with a person at the terminal: questions, and the live table."""

from __future__ import annotations

import time
from pathlib import Path

from tests.cli.command import environment
from tests.cli.on_terminal import OnTerminal
from tests.cli.test_fleet_command import line, tasks_file


def test_the_questions_of_all_tasks_are_asked_one_after_the_other(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("first", "second")}
    for place in places.values():
        place.mkdir()
    lines = [line(name, place, ask="execute") for name, place in places.items()]
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", str(tmp_path / "out"))
    env = environment(tmp_path)
    with OnTerminal(env, *arguments, "--policy", "ask", command="fleet") as screen:
        screen.until("Enter rejects: ")
        asked = ["first", "second"]
        asked.sort(key=lambda name: screen.screen.rfind(f"task {name} asks"), reverse=True)
        assert f"task {asked[0]} asks" in screen.screen
        screen.choose(1)
        screen.until("Enter rejects: ", times=2)
        assert f"task {asked[1]}" in screen.screen
        screen.type("\n")
        screen.rest()
        code, printed = screen.end()
    assert code == 0
    assert sorted(text.partition(" (")[0] for text in printed.splitlines()) == [
        "first: completed",
        "second: completed",
    ]
    assert (places[asked[0]] / "asked").exists()
    assert not (places[asked[1]] / "asked").exists()


def test_an_outcome_waits_for_the_question_of_another_task(tmp_path: Path) -> None:
    go = tmp_path / "go"
    lines = [line("asks", tmp_path, ask="execute"), line("ends", tmp_path, wait_for=str(go))]
    out = tmp_path / "out"
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", str(out), "--policy", "ask")
    with OnTerminal(environment(tmp_path), *arguments, command="fleet", stdout_too=True) as screen:
        screen.until("Enter rejects: ")
        go.touch()
        while not (out / "tasks" / "ends" / "outcome.json").exists():
            time.sleep(0.02)
        time.sleep(0.5)  # for a line that is written too early
        screen.type("\n")
        screen.rest()
    assert "Enter rejects: \r\n" in screen.screen
    assert "ends: completed" in screen.screen
    assert "1 of 1 questions not allowed)" in screen.screen


def test_a_terminal_shows_the_tasks_that_run_in_a_live_table(tmp_path: Path) -> None:
    go = tmp_path / "go"
    lines = [
        line(f"task-{n}", tmp_path, wait_for=str(go), used=11 * n, tokens=5) for n in range(1, 3)
    ]
    arguments = ("run", tasks_file(tmp_path, *lines), "--out", str(tmp_path / "out"))
    env = environment(tmp_path) | {"TERM": "xterm"}
    with OnTerminal(env, *arguments, command="fleet") as screen:
        screen.until("0 of 2 completed, 0 failed, 2 running")
        screen.until("  task-2")
        screen.until("33 tokens")
        go.touch()
        screen.rest()
        code, printed = screen.end()
    assert code == 0
    assert len(printed.splitlines()) == 2
    assert "\x1b[2A\x1b[J" in screen.screen
    assert screen.screen.rstrip().endswith(
        "2 of 2 completed, 0 failed, 0 running, 0 to come, 10 tokens"
    )
