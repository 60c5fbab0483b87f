"""The command where something that every program counts on is not there."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codex_acp.cli import demo, doctor_checks
from codex_acp.cli.doctor_checks import Deadline
from codex_acp.testing import ScriptedCodex
from tests.cli.command import COMMAND, environment, run

if TYPE_CHECKING:
    import subprocess

ECHO = Path(__file__).resolve().parents[2] / "examples" / "acp_agent.py"
AGENT = ["--command", f"{shlex.quote(sys.executable)} {shlex.quote(str(ECHO))}"]


def in_shell(line: str, arguments: list[str], tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """``"$@"`` of the line is the command."""
    return run(["-c", line, "sh", *COMMAND, *arguments], environment(tmp_path), command=("sh",))


@pytest.mark.parametrize("output", ["&-", "/dev/full"])
@pytest.mark.parametrize("word", ["--help", "help run", "routes", "completions bash", "doctor"])
def test_what_cannot_be_written_is_said_in_one_sentence(
    word: str, output: str, tmp_path: Path
) -> None:
    done = in_shell(f'exec "$@" >{output}', word.split(), tmp_path)
    (told,) = done.stderr.decode().splitlines()
    assert told.startswith("codex-acp-sdk: error: the output cannot be written: ")
    assert done.returncode == 1


def test_an_error_goes_nowhere_else_where_nobody_hears_it(tmp_path: Path) -> None:
    done = in_shell('exec "$@" 2>&-', ["demo"], tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")


def test_an_agent_without_standard_input_ends(tmp_path: Path) -> None:
    codex = ScriptedCodex(tmp_path, [])
    done = in_shell('exec "$@" <&-', ["--codex", str(codex.path)], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.e2e
def test_the_agent_of_the_demonstration_says_that_it_has_no_output(tmp_path: Path) -> None:
    done = in_shell('exec "$@" >&-', ["demo", "--agent"], tmp_path)
    assert done.returncode == 1
    assert "standard output is closed" in done.stderr.decode()


def test_a_current_directory_that_is_gone_is_said(tmp_path: Path) -> None:
    gone = shlex.quote(str(tmp_path / "gone"))
    line = f'mkdir {gone} && cd {gone} && rmdir {gone} && exec "$@"'
    done = in_shell(line, ["run", *AGENT, "hello"], tmp_path)
    assert done.returncode == 2
    (told,) = done.stderr.decode().splitlines()
    assert told.endswith("the current directory is gone; go to one that there is")
    done = in_shell(line, ["fleet", "show", "out"], tmp_path)
    assert done.returncode == 2
    (told,) = done.stderr.decode().splitlines()
    assert told.endswith("the current directory is gone")
    done = in_shell(line, ["--version", "--codex", "./codex"], tmp_path)
    assert done.returncode == 1
    assert "names './codex', and the current directory is gone" in done.stdout.decode()


@pytest.mark.skipif(sys.platform == "darwin", reason="each name is UTF-8 there")
def test_a_current_directory_whose_name_no_agent_takes_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "caf\udce9"
    odd.mkdir()
    done = in_shell(
        f'cd {shlex.quote(str(tmp_path))}/caf* && exec "$@"', ["run", *AGENT, "x"], tmp_path
    )
    assert done.returncode == 2
    (told,) = done.stderr.decode().splitlines()
    assert "the working directory (cwd) is not UTF-8: no agent takes it" in told


async def test_a_machine_without_loopback_is_called_so_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_checks, "has_loopback", lambda: False)
    monkeypatch.setattr(demo, "has_loopback", lambda: False)
    finding = await doctor_checks.check_turn("codex", Deadline(1))
    assert (finding.level, finding.text) == ("problem", doctor_checks.NO_LOOPBACK)
    assert demo.demo_agent(None) == 1
    assert doctor_checks.HOW_TO_ENABLE_LOOPBACK in capsys.readouterr().err
