"""The table of what an older Codex does otherwise names tests that there are."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.codex_version import DIFFERENCES

TESTS = Path(__file__).parents[1]


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


ROWS = [
    (file, name)
    for files in DIFFERENCES.values()
    for file, tests in files.items()
    for name in tests
]


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_each_difference_is_of_a_test_that_there_is(file: str, name: str) -> None:
    assert name.partition("[")[0] in functions(file)
