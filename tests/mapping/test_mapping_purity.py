"""The mapping is pure: nothing in it can do IO, wait, or read a clock."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import codex_acp.mapping

PACKAGE = Path(codex_acp.mapping.__file__).parent

FORBIDDEN = {
    "anyio",
    "asyncio",
    "datetime",
    "http",
    "io",
    "logging",
    "os",
    "pathlib",
    "queue",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}
FORBIDDEN_OF_OURS = ("adapter", "cli", "runtime", "testing", "transcript", "transport")
CALLS = {"open", "print", "input", "exec", "eval"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_of_the_mapping_can_do_io(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    names = imported(tree)
    ours = {name.split(".")[1] for name in names if name.startswith("codex_acp.")}
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert not {name.split(".")[0] for name in names} & FORBIDDEN
    assert not ours & set(FORBIDDEN_OF_OURS)
    assert not called & CALLS
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))
