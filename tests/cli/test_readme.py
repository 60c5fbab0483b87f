"""The README: its commands are those that CI runs, and its examples work as they stand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codex_acp.cli.arguments import demo_parser, serve_parser
from codex_acp.cli.logs import LEVEL_VARIABLE, LEVELS
from codex_acp.codex.connection.codex_binary import CODEX_PATH_VARIABLE
from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.cli.command import WAIT_SECONDS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

DEMO = (
    "python3 -m venv .venv && .venv/bin/pip install -q '.[codex]'"
    " && .venv/bin/codex-acp-sdk demo --yes"
)
TESTS = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[codex,dev]'"
    " && .venv/bin/python -m pytest -n auto"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run_example(code: str, home: CodexHome) -> str:
    """What the example prints, run where the user's own Codex would be the scripted one."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=home.workspace,
        env=home.env,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_two_commands_stand_there_in_this_order() -> None:
    assert [block.strip() for block in blocks("sh")[:2]] == [DEMO, TESTS]


def test_ci_runs_exactly_the_test_command() -> None:
    assert TESTS in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_there_is_an_example_of_each_library() -> None:
    assert len(blocks("python")) == 4


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("number", "last_line"),
    [
        (0, "The turn has completed."),
        (1, "The prompt ended with end_turn."),
        (2, "The prompt ended with end_turn."),
    ],
    ids=["codex client", "runtime", "acp client"],
)
def test_a_client_example_shows_the_answer(number: int, last_line: str) -> None:
    with (
        ScriptedModel([[Text("Nothing ", "at all.")]]) as model,
        CodexHome(model.base_url) as home,
    ):
        printed = run_example(blocks("python")[number], home)
        assert model.requests[0].last_user_text == "What is in this directory?"
    assert printed == f"Nothing at all.\n{last_line}\n"


@pytest.mark.e2e
def test_the_example_of_a_test_is_a_test_that_passes(tmp_path: Path) -> None:
    (tmp_path / "test_example.py").write_text(blocks("python")[3], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_examples_pass_the_type_checker(tmp_path: Path) -> None:
    for number, code in enumerate(blocks("python")):
        (tmp_path / f"example_{number}.py").write_text(code, encoding="utf-8")
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *config, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_editors_settings_are_json_that_starts_the_command() -> None:
    settings = [json.loads(block) for block in blocks("json")]
    assert len(settings) == 2
    for setting in settings:
        (server,) = setting["agent_servers"].values()
        assert server["command"].endswith("codex-acp-sdk")
        serve_parser().parse_args(server["args"])


def test_every_option_variable_and_level_is_named() -> None:
    options = re.findall(r"--[a-z-]+", serve_parser().format_help() + demo_parser().format_help())
    for name in (*set(options) - {"--help"}, CODEX_PATH_VARIABLE, LEVEL_VARIABLE, *LEVELS):
        assert re.search(rf"`[^`\n]*{name}[^`\n]*`", README), name


def test_every_session_of_nox_that_is_named_exists() -> None:
    named = re.findall(r"^\| `(\w+)` \| [a-z]", README.partition("## Development")[2], re.MULTILINE)
    assert len(named) == 9
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for session in named:
        assert f"\ndef {session}(session: nox.Session)" in noxfile


def test_the_links_within_the_page_have_a_target() -> None:
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#([^)]*)\)", README)
    assert links
    assert set(links) <= anchors


def test_the_licence_is_there() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split("\n", 1)[0].strip() == "Apache License"
    assert "END OF TERMS AND CONDITIONS" in text
