"""Without a login: the command that logs in is named, and run in place where a person agrees."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.cli.command import COMMAND, WAIT_SECONDS
from tests.cli.on_terminal import OnTerminal

pytestmark = pytest.mark.e2e

OFFER = "Codex is not logged in. Run `codex-acp-sdk login` now? [Y/n] "


@pytest.fixture
def env(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Codex with nobody logged in; what stands in for ``codex login`` brings the settings of the
    scripted model, which needs none."""
    real = import_module("codex_cli_bin").bundled_codex_path()
    with ScriptedModel([[Text("Welcome.")]]) as model, CodexHome(model.base_url) as home:
        home.config_file.rename(home.root / "later.toml")
        home.config_file.touch()
        codex = tmp_path / "codex"
        codex.write_text(
            f'#!/bin/sh\nif [ "$1" = login ]; then cp "{home.root}/later.toml" '
            f'"{home.config_file}"; echo done; exit 0; fi\nexec "{real}" "$@"\n'
        )
        codex.chmod(0o755)
        yield home.env | {"TERM": "xterm", "NO_COLOR": "1", "CODEX_PATH": str(codex)}


@pytest.mark.parametrize(("typed", "code"), [("\n", 0), ("what\ny\n", 0), ("n\n", 1), ("\x04", 1)])
def test_a_login_is_offered_and_the_prompt_goes_on(
    env: dict[str, str], typed: str, code: int
) -> None:
    with OnTerminal(env, "Hello.", stdout_too=True) as terminal:
        for times, line in enumerate(typed.splitlines(keepends=True), 1):
            terminal.until(OFFER, times=times)
            terminal.type(line)
        terminal.rest()
        assert terminal.end()[0] == code
    assert ("Welcome." in terminal.screen) == (code == 0)
    if code:
        assert "error: Codex is not logged in; run `codex-acp-sdk login`" in terminal.screen


@pytest.mark.parametrize(
    ("command", "number", "again"),
    [
        ("run", signal.SIGTERM, False),
        ("run", signal.SIGHUP, False),
        ("chat", signal.SIGINT, False),
        ("run", signal.SIGTERM, True),
    ],
)
def test_a_signal_ends_the_login(
    env: dict[str, str], tmp_path: Path, command: str, number: signal.Signals, again: bool
) -> None:
    left = tmp_path / "left"
    left.touch()
    ignoring = "trap '' TERM; " if again else ""
    Path(env["CODEX_PATH"]).write_text(
        f'#!/bin/sh\nif [ "$1" = login ]; then {ignoring}echo log in; exec tail -f "{left}"; fi\n'
        f'exec "{import_module("codex_cli_bin").bundled_codex_path()}" "$@"\n'
    )
    with OnTerminal(env, "Hello.", command=command, stdout_too=True) as terminal:
        terminal.until(OFFER)
        terminal.type("y\n")
        terminal.until("log in\r\n")
        terminal.process.send_signal(number)
        if again:
            time.sleep(0.1)  # this login ignores SIGTERM, and is still waited for
            terminal.process.send_signal(number)
        terminal.rest()  # a login that is left would keep the terminal open
        assert terminal.end()[0] == 128 + number


def test_where_nobody_can_be_asked_the_command_is_named(env: dict[str, str]) -> None:
    done = subprocess.run(
        [*COMMAND, "run", "Hello."],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == (
        b"error: Codex is not logged in; run `codex-acp-sdk login`, then try again\n"
    )
