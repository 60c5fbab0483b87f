"""``login``: what a client runs in a terminal, by adding one word to the command it knows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.adapter_bench import COMMAND


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    """A Codex that says how it was called."""
    path = tmp_path / "codex"
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    path.chmod(0o755)
    return path


def run(*arguments: str, codex: Path | str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "CODEX_PATH": str(codex)}
    return subprocess.run(
        [COMMAND, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["login"], ["login"]),
        (["login", "--device-auth"], ["login", "--device-auth"]),
        (["serve", "login"], ["login"]),
        (["--log-level", "INFO", "login"], ["login"]),
        (["serve", "-c", "a=1", "login", "status"], ["login", "-c", "a=1", "status"]),
    ],
)
def test_login_becomes_codex_login_with_what_follows(
    arguments: list[str], passed: list[str], codex: Path
) -> None:
    done = run(*arguments, codex=codex)

    assert done.stdout.split() == passed
    assert done.returncode == 7, "the exit code is Codex's: 0 alone means success to a client"


def test_login_without_a_codex_fails_and_says_what_to_do(tmp_path: Path) -> None:
    done = run("login", codex=tmp_path / "missing")

    assert done.returncode == 1
    assert "CODEX_PATH" in done.stderr
