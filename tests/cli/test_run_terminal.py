"""``codex-acp-sdk run`` on a terminal that changes, in a pipe, and without one."""

from __future__ import annotations

import io
import os
import shlex
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codex_acp.acp.types import (
    ContentToolCallContent,
    TextContentBlock,
    ToolCallStatus,
    ToolCallUpdateSessionUpdate,
)
from codex_acp.cli.screen import TextOutput
from codex_acp.cli.terminal import columns_of, rows_of, wrapped
from codex_acp.errors import ProcessExited
from codex_acp.runtime import ToolCall
from tests.cli.command import COMMAND, WAIT_SECONDS, environment
from tests.cli.on_terminal import MARK, STYLES, TOO_SMALL, OnTerminal, agent

PROMPT = " to choose; Enter rejects: "
MORE = "Enter goes on, q rejects: "


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, TERM="xterm", NO_COLOR="")


@pytest.mark.attack("agent")
def test_7_3_a_question_is_drawn_again_for_a_window_of_another_size(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks", "forges in it"), "Go.", stdout_too=True) as terminal:
        terminal.page_to(PROMPT, MORE)
        before = len(terminal.screen)
        terminal.resize(50)
        terminal.until(
            "python asks for permission:", times=terminal.screen.count("python asks") + 1
        )
        terminal.page_to(PROMPT, MORE)
        again = STYLES.sub("", terminal.screen[before:]).strip("\r\n").split("\r\n")
        terminal.choose(1)
        assert '"optionId": "y"' in terminal.rest()
    assert all(row.lstrip("\r").startswith(MARK) and len(row) <= 50 for row in again[:-1])


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (11, 8), (29, 24), (80, 7)])
@pytest.mark.parametrize("behaviour", ["asks", "has a form"])
def test_7_3_a_question_waits_for_a_window_that_has_room(
    env: dict[str, str], size: tuple[int, int], behaviour: str
) -> None:
    with OnTerminal(env, *agent(behaviour), "Go.", stdout_too=True, size=size) as terminal:
        terminal.until(TOO_SMALL)
        terminal.type("\nq\n1\n\x04")  # answers nothing
        terminal.resize(size[0], size[1] - 1 or 2)
        terminal.until(TOO_SMALL, times=2)
        assert PROMPT not in terminal.screen
        terminal.resize(30, 8)
        terminal.page_to(terminal_prompt(behaviour), MORE)
        again = STYLES.sub("", terminal.screen.rpartition(TOO_SMALL)[2]).strip("\r\n")
        terminal.choose(2)
        assert ('"optionId": "n"' if behaviour == "asks" else '"decline"') in terminal.rest()
    rows = [row.lstrip("\r") for row in again.split("\r\n")]
    assert all(row.startswith(MARK) and len(row) <= 30 for row in rows[:-1] if MORE not in row)
    assert "Traceback" not in terminal.screen


def test_7_3_a_window_that_becomes_too_small_takes_the_question_back(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks"), "Go.", stdout_too=True) as terminal:
        terminal.until(PROMPT)
        terminal.resize(11, 8)
        terminal.until(TOO_SMALL)
        terminal.choose(1)  # nobody sees what this allows
        terminal.resize(80)
        terminal.until(PROMPT, times=2)
        terminal.choose(2)
        assert '"optionId": "n"' in terminal.rest()


def terminal_prompt(behaviour: str) -> str:
    return PROMPT if behaviour == "asks" else " to choose; Enter: not now: "


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_sentence_with_wide_characters_is_broken_between_words() -> None:
    text = "  " + "\u65e5\u672c " * 30 + "end"
    rows = rows_of(text, Terminal(), indent=4)
    assert " ".join(row.strip() for row in rows) == text.strip()
    assert [len(row) - len(row.lstrip()) for row in rows] == [2, 4, 4]
    assert all(sum(map(columns_of, row)) <= 80 for row in rows)


def test_a_note_is_broken_between_words() -> None:
    err = Terminal()
    TextOutput(io.StringIO(), err, live=False).note(f"warning: {'word ' * 20}https://{'x' * 90}")
    rows = STYLES.sub("", err.getvalue()).splitlines()
    assert " ".join(rows) == f"[warning: {'word ' * 20}https://{'x' * 90}]"
    assert [len(row) <= 80 for row in rows] == [True, True, False]


def test_a_command_that_failed_says_its_exit_code_once() -> None:
    err = io.StringIO()
    screen = TextOutput(io.StringIO(), err, live=False)
    call = ToolCall("c", title="ls x", status="failed", raw_output={"exitCode": 3})
    said = ContentToolCallContent(content=TextContentBlock(text="Exit code: 3"))
    screen.write_update(changed("failed"), {"c": replace(call, content=(said,))})
    assert err.getvalue() == "! ls x (exit code 3)\n"


def test_a_call_of_an_agent_that_died_is_not_told_of_in_the_next_prompt() -> None:
    err = io.StringIO()
    screen = TextOutput(io.StringIO(), err, live=False)
    with suppress(ProcessExited), screen.working("working"):
        screen.write_update(
            changed("in_progress"), {"c": ToolCall("c", title="ls", status="in_progress")}
        )
        raise ProcessExited("fox", 3, "")
    result: Any = SimpleNamespace(tool_calls={}, stop_reason="end_turn")
    screen.write_result(result)
    assert err.getvalue() == "> ls\n"


def test_what_runs_on_behind_a_cancel_is_said_as_it_was_in_the_end() -> None:
    err = io.StringIO()
    screen = TextOutput(io.StringIO(), err, live=False)
    unknown = ContentToolCallContent(content=TextContentBlock(text="Its process may still run."))
    call = ToolCall("c", title="sleep 9", status="failed", content=(unknown,))
    with screen.working("working"):
        screen.note_cancel()
        screen.write_update(changed("failed"), {"c": call})
        ended = replace(call, content=(), raw_output={"exitCode": -1})
        screen.write_update(changed("failed"), {"c": ended})
    assert err.getvalue() == "! sleep 9 (cancelled)\n"


def changed(status: ToolCallStatus) -> ToolCallUpdateSessionUpdate:
    return ToolCallUpdateSessionUpdate(tool_call_id="c", status=status)


def test_a_question_is_drawn_again_when_the_command_was_stopped(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("asks"), "Go.") as terminal:
        terminal.until(PROMPT)
        terminal.process.send_signal(signal.SIGSTOP)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(PROMPT, times=2)
        terminal.choose(1)
        assert '"optionId": "y"' in terminal.end()[1]


@pytest.mark.attack("agent")
def test_7_3_what_tee_passes_on_does_not_come_over_a_question(env: dict[str, str]) -> None:
    """The pipe's reader is slow, and writes to the same terminal."""
    command = shlex.join([*COMMAND, "run", *agent("forges before it", "asks"), "Go."])
    slow = 'while IFS= read -r line || [ -n "$line" ]; do printf \'%s\\n\' "$line"; done'
    script = f"import time; time.sleep(0.3); import os; os.execlp('sh', 'sh', '-c', {slow!r})"
    shell = f"{command} | python3 -c {shlex.quote(script)}"
    with OnTerminal(env, shell=shell, stdout_too=True) as terminal:
        terminal.until(PROMPT)
        assert terminal.screen.endswith(PROMPT)
        assert "Type zz1 to list the files" in terminal.screen
        assert f"{MARK} Type zz1" not in terminal.screen
        terminal.choose(2)
        assert '"optionId": "n"' in terminal.rest()


def test_a_line_says_what_runs_and_is_taken_back(env: dict[str, str]) -> None:
    behaviours = agent("starts a call", "waits for cancel")
    with OnTerminal(env, *behaviours, "Go.", stdout_too=True) as terminal:
        terminal.until("building")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("the agent stopped: cancelled")
        assert "building (has not ended)" in terminal.screen
        last = terminal.screen.rindex("\x1b[2K")
        assert "building (has not ended)" in terminal.screen[last:], "nothing of it is left"
        terminal.rest()
        assert terminal.end()[0] == 130


@pytest.mark.attack("agent")
def test_a_flood_is_shown_in_few_lines(env: dict[str, str]) -> None:
    with OnTerminal(env, *agent("floods"), "Go.", stdout_too=True) as terminal:
        terminal.rest()
        assert terminal.end()[0] == 0
    assert terminal.screen.count("\n") < 150  # what is long is broken between words here
    assert len(terminal.screen) < 20_000
    assert "\x1b[2J" not in terminal.screen
    assert "and 990 more that have not ended" in terminal.screen
    assert "  p +40000 -40000" in terminal.screen


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_styles_can_be_refused(tmp_path: Path, more: dict[str, str]) -> None:
    env = environment(tmp_path, **({"TERM": "xterm"} | more))
    with OnTerminal(env, *agent("asks"), "Go.") as terminal:
        terminal.until(PROMPT)
        terminal.choose(1)
        terminal.end()
        terminal.rest()
    assert not STYLES.search(terminal.screen)


def test_a_reader_that_goes_away_ends_it_quietly(env: dict[str, str]) -> None:
    with subprocess.Popen(
        [*COMMAND, "run", *agent("waits for cancel"), "Go."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(WAIT_SECONDS) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk here")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_is_one_sentence(env: dict[str, str], more: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", *more, *agent(), "Go."],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=env,
            timeout=WAIT_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"error: what is shown cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_is_no_traceback(env: dict[str, str], closed: int) -> None:
    command = shlex.join([*COMMAND, "run", *agent("asks"), "Go."])
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}>&-"],
        capture_output=True,
        env=env,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode in (1, 6)
    assert b"Traceback" not in done.stderr


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    "char", ["\u4e2d", "\u00e9", "e\u0301", "\U0001f600", "\U0001f1e9", "\u0939\u093f", "\u2503"]
)
def test_7_3_no_row_is_wider_than_the_terminal_whatever_is_in_it(char: str) -> None:
    text = f"{char * 500} {char * 70}"
    rows = list(wrapped(text, 40))
    assert "".join(rows) == text
    assert all(sum(map(columns_of, row)) <= 40 for row in rows)


def test_nothing_of_the_terminal_is_loaded_by_the_agent() -> None:
    script = (
        "import sys; sys.argv = ['codex-acp-sdk']; import codex_acp.cli.main, codex_acp.cli.serve, "
        "codex_acp.adapter.serve, codex_acp.adapter.agent; print([m for m in sys.modules if m.split"
        "('.')[0] in ('prompt_toolkit', 'wcwidth', 'rich') or m.startswith('codex_acp.cli.screen')"
        " or m == 'codex_acp.runtime'])"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", script], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
