"""The examples that run agents: each runs as a user would run it, with a scripted model."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from codex_acp.testing import Gate, ModelResponse, Text, exec_command
from tests.examples.example_bench import codex, run, untested

pytestmark = pytest.mark.e2e


def test_every_agent_example_has_a_test() -> None:
    assert untested("agent_*.py", __file__) == []


def test_running_codex_shows_its_answer() -> None:
    with codex(ModelResponse(Text("Nothing ", "at all."))) as (home, _model):
        printed = run("agent_run_codex.py", home)
    assert printed == "Nothing at all.\nThe prompt ended with end_turn.\n"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_permissions_are_decided_by_the_person(answer: str) -> None:
    script = (
        ModelResponse(exec_command("echo made > made.txt", justification="to make it")),
        ModelResponse(Text("That is that.")),
    )
    with codex(*script) as (home, _model):
        printed = run("agent_permissions.py", home, "Make it.", said=f"{answer}\n")
        assert (home.workspace / "made.txt").exists() is (answer == "y")
    assert "It wants to: " in printed
    assert "(execute)" in printed


def test_any_command_is_an_agent() -> None:
    command = shlex.join([sys.executable, "-P", "-m", "codex_acp"])
    with codex(ModelResponse(Text("Nothing at all."))) as (home, _model):
        printed = run("agent_any_command.py", home, command, "What is here?")
    assert printed.startswith("agent: codex-acp-sdk")
    assert printed.endswith("Nothing at all.\n(end_turn)\n")


def test_a_conversation_is_stored_under_its_key(tmp_path: Path) -> None:
    store = tmp_path / "sessions.json"
    script = (ModelResponse(Text("Noted.")), ModelResponse(Text("Seven.")))
    with codex(*script) as (home, _model):
        first = run("agent_resume.py", home, str(store), "It is seven.")
        (record,) = json.loads(store.read_text(encoding="utf-8"))["sessions"]
        second = run("agent_resume.py", home, str(store), "What is it?")
    assert first == "opened by new, 0 earlier updates\nNoted.\n"
    assert record["key"] == "example"
    assert second.endswith("Seven.\n")


def test_a_prompt_that_takes_too_long_is_cancelled_and_shows_what_there_is() -> None:
    with codex(ModelResponse(Text("One, two, "), Gate("never"))) as (home, _model):
        printed = run("agent_cancel.py", home, "3", "Count.")
    assert printed.endswith("\n(cancelled)\n")
