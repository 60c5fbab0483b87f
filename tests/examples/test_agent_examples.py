"""The examples that run agents: each runs as a user would run it, with a scripted model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codex_acp.testing import (
    CodexHome,
    Gate,
    ModelResponse,
    ScriptedModel,
    Text,
    exec_command,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
WAIT_SECONDS = 120


@contextmanager
def codex(*script: ModelResponse) -> Iterator[CodexHome]:
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        yield home


def run(name: str, home: CodexHome, *args: str, given: str = "") -> str:
    """What an example prints; it must end well and say nothing to stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *args],
        cwd=home.workspace,
        env=home.env,
        input=given,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_agent_example_has_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    names = [path.name for path in EXAMPLES.glob("agent_*.py")]
    assert names
    assert [name for name in names if f'"{name}"' not in source] == []


def test_running_codex_shows_its_answer() -> None:
    with codex(ModelResponse(Text("Nothing ", "at all."))) as home:
        printed = run("agent_run_codex.py", home)
    assert printed == "Nothing at all.\nThe prompt ended with end_turn.\n"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_permissions_are_decided_by_the_person(answer: str) -> None:
    script = (
        ModelResponse(exec_command("echo made > made.txt", justification="to make it")),
        ModelResponse(Text("That is that.")),
    )
    with codex(*script) as home:
        printed = run("agent_permissions.py", home, "Make it.", given=f"{answer}\n")
        assert (home.workspace / "made.txt").exists() is (answer == "y")
    assert "It wants to: " in printed
    assert "(execute)" in printed


def test_any_command_is_an_agent() -> None:
    command = shlex.join([sys.executable, "-P", "-m", "codex_acp"])
    with codex(ModelResponse(Text("Nothing at all."))) as home:
        printed = run("agent_any_command.py", home, command, "What is here?")
    assert printed.startswith("agent: codex-acp-sdk")
    assert printed.endswith("Nothing at all.\n(end_turn)\n")


def test_a_conversation_is_stored_under_its_key(tmp_path: Path) -> None:
    store = tmp_path / "sessions.json"
    script = (ModelResponse(Text("Noted.")), ModelResponse(Text("Seven.")))
    with codex(*script) as home:
        first = run("agent_resume.py", home, str(store), "It is seven.")
        (record,) = json.loads(store.read_text(encoding="utf-8"))["sessions"]
        second = run("agent_resume.py", home, str(store), "What is it?")
    assert first == "opened by new, 0 earlier updates\nNoted.\n"
    assert record["key"] == "example"
    assert second.endswith("Seven.\n")


def test_a_prompt_that_takes_too_long_is_cancelled_and_shows_what_there_is() -> None:
    with codex(ModelResponse(Text("One, two, "), Gate("never"))) as home:
        printed = run("agent_cancel.py", home, "3", "Count.")
    assert printed.endswith("\n(cancelled)\n")
