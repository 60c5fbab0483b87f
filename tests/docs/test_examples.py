"""The Python of the pages: whole programs are run with a scripted model.

That it type-checks is a test of `tests/project/test_house_rules.py`, in its one run of mypy.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.cli.command import WAIT_SECONDS
from tests.docs.pages import ROOT, Block, blocks

PROGRAMS = blocks("python")

ANSWERS = {
    "docs/tutorials/codex-from-python.md-3": '{"files": ["a"], "summary": "Nothing at all."}'
}
"""What the model says where a program wants more than text."""

QUESTION = "What is in this directory?"


@pytest.mark.parametrize("block", blocks("py"), ids=str)
def test_a_fragment_is_python(block: Block) -> None:
    """Rows, arms and methods of the recipes, each put where it may stand."""
    lines = block.text.rstrip().splitlines()
    body = "\n".join(f"    {line}" for line in lines)
    places = ("{}", "x = (\n{}\n)", "x = {{\n{}\n}}", "f(\n{}\n)", "match x:\n{}")
    for place in places:
        try:
            ast.parse(place.format(block.text if place == "{}" else body))
        except SyntaxError:
            continue
        return
    pytest.fail(block.text)


@pytest.mark.e2e
@pytest.mark.parametrize("block", [b for b in PROGRAMS if QUESTION in b.text], ids=str)
def test_a_program_shows_the_answer(block: Block) -> None:
    answer = ANSWERS.get(str(block), "Nothing at all.")
    with ScriptedModel([[Text(answer)]]) as model, CodexHome(model.base_url) as home:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block.text],
            cwd=home.workspace, env=home.env, input="n\n",
            capture_output=True, text=True, timeout=WAIT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert model.requests[0].last_user_text == QUESTION
    first, *rest = done.stdout.splitlines()
    assert first == "Nothing at all."
    assert rest in ([], ["The turn has completed."], ["The prompt ended with end_turn."])


@pytest.mark.e2e
def test_the_examples_of_tests_are_tests_that_pass(tmp_path: Path) -> None:
    examples = [b for b in PROGRAMS if "def test_" in b.text]
    for number, block in enumerate(examples):
        (tmp_path / f"test_{number}.py").write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout
    assert f"{len(examples)} passed" in done.stdout


def test_every_program_is_run() -> None:
    """What neither asks the question nor is a test would only be type-checked."""
    left = [b.text for b in PROGRAMS if QUESTION not in b.text and "def test_" not in b.text]
    same = (ROOT / "examples" / "acp_agent.py").read_text().partition('"""\n\n')[2]
    assert left == [same.removeprefix("from __future__ import annotations\n\n")], (
        "run by its own test"
    )
