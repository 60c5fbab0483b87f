"""SECURITY.md: each test that it names is there, and each attacker of the marker has a part."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.attack_table import ATTACKERS

ROOT = Path(__file__).resolve().parents[2]

PAGE = (ROOT / "SECURITY.md").read_text()

NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_a_test_that_it_names_is_there(file: str, test: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    marks = {f.name: any("attack" in ast.unparse(d) for d in f.decorator_list) for f in functions}
    assert test in marks
    of_all = any("mark.attack" in ast.unparse(node) for node in tree.body if _is_marks(node))
    assert marks[test] or of_all, "it does not run with `nox -s attacks`"


def _is_marks(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node).startswith(("pytestmark", "ROUNDS"))


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_each_attacker_has_a_part_with_tests(attacker: str) -> None:
    _, heading, rest = PAGE.partition(f"\n### {attacker[0].upper()}{attacker[1:]}\n")
    assert heading
    assert "::test_" in rest.partition("\n### ")[0]


def test_it_names_no_test_in_another_spelling() -> None:
    assert PAGE.count("::") == len(re.findall(r"`[\w/]+\.py::test_\w+`", PAGE))
