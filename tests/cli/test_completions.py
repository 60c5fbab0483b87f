"""The scripts that complete the command, run by the shells that they are for."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from codex_acp.cli.commands import COMMANDS
from codex_acp.cli.main import main
from tests.cli.command import WAIT_SECONDS

ZSH_SETUP = (
    "autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-prompt ''; PS1=; "
    "eval \"$(<{script})\"; print rea''dy\n"
)


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one script a shell, and things to complete."""
    folder = tmp_path_factory.mktemp("completions")
    for shell in ("bash", "zsh", "fish"):
        with pytest.MonkeyPatch.context() as patch, (folder / shell).open("w") as out:
            patch.setattr("sys.stdout", out)
            assert main(["completions", shell]) == 0
    place = folder / "place"
    (place / "a folder").mkdir(parents=True)
    (place / "a file").touch()
    return folder


def of_bash(scripts: Path, line: str) -> list[str]:
    """What bash offers behind ``line``, whose words bash has cut as it does: ``=`` is a word."""
    words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith(" ") else [])
    listed = " ".join(f"'{word}'" for word in words)
    code = (
        f"source {scripts}/bash; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n"
        '_shtab_codex_acp_sdk; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-uc", code], cwd=scripts / "place",
        capture_output=True, text=True, check=True, timeout=WAIT_SECONDS,
    )  # fmt: skip
    return sorted(filter(None, done.stdout.split("\n")))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("codex-acp-sdk ", sorted(COMMANDS)),
        ("codex-acp-sdk --codex x --log-level DEBUG de", ["demo"]),
        ("codex-acp-sdk serve --log-f", ["--log-file"]),
        ("codex-acp-sdk --log-level WA", ["WARNING"]),
        ("codex-acp-sdk demo --y", ["--yes"]),
        ("codex-acp-sdk demo --codex a", ["a file", "a folder"]),
        ("codex-acp-sdk --trust a", ["a folder"]),
        ("codex-acp-sdk run --mo", ["--mode", "--model"]),
        ("codex-acp-sdk run --model ", []),
        ("codex-acp-sdk completions ", ["bash", "fish", "zsh"]),
        ("codex-acp-sdk help ro", ["routes"]),
        ("codex-acp-sdk fleet s", ["show"]),
        ("codex-acp-sdk fleet run a", ["a file", "a folder"]),
        ("codex-acp-sdk doctor --editor co", ["codecompanion"]),
        ("codex-acp-sdk transcript --html a", ["a file", "a folder"]),
    ],
)
def test_bash(scripts: Path, line: str, offered: list[str]) -> None:
    assert of_bash(scripts, line) == offered


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish(scripts: Path) -> None:
    lines = {
        "codex-acp-sdk ": set(COMMANDS),
        "codex-acp-sdk demo --y": {"--yes"},
        "codex-acp-sdk completions ": {"bash", "fish", "zsh"},
        "codex-acp-sdk --log-level W": {"WARNING"},
        "codex-acp-sdk --trust a": {"a folder/"},
    }
    for line, offered in lines.items():
        done = subprocess.run(
            ["fish", "--no-config", "-c", f'source {scripts}/fish; complete -C "{line}"'],
            cwd=scripts / "place", capture_output=True, text=True, check=True,
            timeout=WAIT_SECONDS, env={**os.environ, "HOME": str(scripts)},
        )  # fmt: skip
        assert done.stderr == ""
        assert {row.partition("\t")[0] for row in done.stdout.splitlines()} == offered, line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("codex-acp-sdk dem", "codex-acp-sdk demo "),
        ("codex-acp-sdk demo --y", "codex-acp-sdk demo --yes "),
        ("codex-acp-sdk --log-level WA", "codex-acp-sdk --log-level WARNING "),
        ("codex-acp-sdk completions f", "codex-acp-sdk completions fish "),
        ("codex-acp-sdk --trust a", "codex-acp-sdk --trust a\\ folder/"),
    ],
)
def test_zsh(scripts: Path, typed: str, completed: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(scripts / "place")
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen = ""
    try:
        os.write(terminal, ZSH_SETUP.format(script=scripts / "zsh").encode())
        deadline = time.monotonic() + WAIT_SECONDS
        sent = False
        while completed not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(terminal, 4096).decode(errors="replace")
            if not sent and "ready" in seen:
                sent = True
                os.write(terminal, f"{typed}\t".encode())
    finally:
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_a_shell_that_is_not_known_is_told_which_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["completions", "cmd.exe"])
    assert end.value.code == 2
    assert "fish" in capsys.readouterr().err
