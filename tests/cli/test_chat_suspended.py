"""Ctrl-Z in ``codex-acp-sdk chat`` stops it at once, wherever it is, and ``fg`` goes on there.

On a terminal that never says where its cursor is, under a shell that has job control.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, environment
from tests.cli.on_terminal import OnTerminal, agent

READY = "Ctrl-D leaves"
CHOOSE = " to choose; Enter rejects: "
AT_THE_LINE = "\x1b[?2004h"
STOPPED = "the shell has the terminal"

OWN_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvp('sh', ['sh', '-c', sys.argv[1]])"
)
"""A shell whose standard input is its terminal, so that it has jobs."""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    state = str(tmp_path / "state")
    return environment(tmp_path, TERM="xterm", NO_COLOR="1", XDG_STATE_HOME=state)


def chat(env: dict[str, str], *arguments: str) -> OnTerminal:
    """A chat that is gone on with, once, by a line that is typed to the shell."""
    command = shlex.join([*COMMAND, "chat", *arguments])
    script = f"set -m\n{command}\necho {STOPPED}\nread line\nfg\necho $?"
    shell = shlex.join([sys.executable, "-c", OWN_TERMINAL, script])
    return OnTerminal(env, shell=f"exec {shell}", stdout_too=True)


def stopped(terminal: OnTerminal) -> None:
    """Ctrl-Z; what is typed at once behind it is the shell's, and has the chat gone on with."""
    terminal.type("\x1a")
    terminal.until(STOPPED)


def test_a_line_that_was_begun_is_there_again(env: dict[str, str]) -> None:
    with chat(env, *agent("echoes")) as terminal:
        terminal.until(AT_THE_LINE)
        terminal.type("hal")
        terminal.until("0mhal")
        stopped(terminal)
        assert "\x1b[6n" not in terminal.screen, "the terminal was asked for its cursor"
        terminal.type("\n")
        terminal.until(AT_THE_LINE, times=2)
        terminal.type("f\r")
        terminal.until("You said 'half'.")
        terminal.until(AT_THE_LINE, times=3)
        terminal.type("\x04")
        assert terminal.rest().rstrip().endswith("\n0")


def test_an_enter_just_behind_fg_is_not_lost(env: dict[str, str]) -> None:
    with chat(env, *agent("echoes")) as terminal:
        terminal.until(AT_THE_LINE)
        terminal.type("first")
        terminal.until("0mfirst")
        stopped(terminal)
        terminal.type("\n")
        terminal.type("\r")  # before it has the terminal again, or just behind that
        terminal.until("You said 'first'.")


def test_a_turn_that_streams_goes_on_behind_it(env: dict[str, str], tmp_path: Path) -> None:
    gates = tmp_path / "gates"
    gates.mkdir()
    with chat(env | {"GATES": str(gates)}, *agent("streams"), "Go.") as terminal:
        terminal.until("piece 2,")
        stopped(terminal)
        (gates / "on").touch()
        terminal.type("\n")
        terminal.until(AT_THE_LINE)
        pieces = [int(n) for n in re.findall(r"piece\s+(\d+),", terminal.screen)]
        assert pieces[-20:] == list(range(20))


def test_a_question_is_drawn_again(env: dict[str, str]) -> None:
    with chat(env, *agent("asks"), "Go.") as terminal:
        terminal.until(CHOOSE)
        stopped(terminal)
        terminal.type("\n")
        terminal.until(CHOOSE, times=2)
        terminal.choose(1)
        terminal.until('"optionId": "y"')
        terminal.until(AT_THE_LINE)
