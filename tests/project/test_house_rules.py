"""Rules of the house that no tool checks: catch-all arms, sizes, placeholders, machine paths."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import blocks

ROOT = Path(__file__).resolve().parents[2]
HANDWRITTEN = sorted(
    p
    for folder in ("src", "codegen", "docs", "tests", "benchmarks", "examples")
    for p in (ROOT / folder).rglob("*.py")
    if "_generated" not in p.parts
)
SOURCES = [p for p in HANDWRITTEN if p.is_relative_to(ROOT / "src")]

SUB_AGENT = re.compile(r"/root/(counter|helper)\b")
"""Codex names the agents of a thread like files below the first one."""

PUBLIC_PARTICIPLES = {f"src/codex_acp/runtime/agent_session.py:{n}" for n in ("ended", "reported")}
"""Names of `ConfigOptions`, which is public."""

MAX_FUNCTION_LINES = 60
"""The aim is fifty; ten more for a docstring with its sources."""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def _nodes() -> list[tuple[str, ast.AST]]:
    """Every function and match of our sources' syntax trees, with the name of its file."""
    wanted = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Match)
    trees = [(_name(path), ast.walk(_tree(path))) for path in SOURCES]
    return [(name, node) for name, nodes in trees for node in nodes if isinstance(node, wanted)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_a_function_is_short() -> None:
    offenders = [
        f"{name}:{node.lineno}: {node.name} has {length} lines"
        for name, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno) > MAX_FUNCTION_LINES
    ]
    assert offenders == []


def test_a_catch_all_arm_only_asserts_that_it_is_never_reached() -> None:
    offenders = [
        f"{name}:{case.pattern.lineno}"
        for name, node in _nodes()
        if isinstance(node, ast.Match)
        for case in node.cases
        if isinstance(case.pattern, ast.MatchAs)
        and case.pattern.pattern is None
        and "assert_never" not in ast.unparse(case.body[0])
    ]
    assert offenders == []


def test_a_docstring_begins_with_a_verb_or_a_noun_and_not_with_a_clause() -> None:
    offenders = [
        f"{_name(path)}:{node.lineno}: {node.value.value[:40]!r}"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.match(r"\s*(What|Who|Whose|See)\b", node.value.value)
    ]
    assert offenders == []


def test_a_docstring_has_no_fragment_that_begins_with_of() -> None:
    """A clause like "; of a larger one, the size" leaves noun and verb to the reader."""
    offenders = [
        f"{_name(path)}:{node.lineno}: {node.value.value[:60]!r}"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.search(r";\s+of\b|,\s+of which\b", node.value.value)
    ]
    assert offenders == []


def test_a_callback_with_two_texts_or_numbers_has_an_alias_that_says_which_is_which() -> None:
    callable_ = re.compile(r"Callable\[\[[^]]*\b(str|int)\b[^]]*, \1\b")
    offenders = [
        f"{name}:{node.lineno}: {node.name}({argument.arg}: {annotation})"
        for name, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None
        and callable_.search(annotation := ast.unparse(argument.annotation))
    ]
    assert offenders == []


def test_a_method_that_acts_is_not_named_by_a_participle_alone() -> None:
    """``closed()`` reads as a question; ``note_closed()`` or ``on_closed()`` does not."""
    offenders = [
        f"{name}:{node.lineno}: {node.name}"
        for name, node in _nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and re.fullmatch(r"[a-z]+[^e]ed|lost|gone|sent", node.name)
        and isinstance(node.returns, ast.Constant)
        and f"{name}:{node.name}" not in PUBLIC_PARTICIPLES
    ]
    assert offenders == []


def test_a_private_class_has_a_noun_in_its_name() -> None:
    """``_PendingPrompt`` says what is pending; ``_Pending`` does not."""
    pattern = re.compile(
        r"_((?!Shared)[A-Z][a-z]+[^e]ed|Kept|Lost|Late|Lazy|Patient|Pending|Waiting|Written)"
    )
    offenders = [
        f"{_name(path)}:{node.lineno}: {node.name}"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ClassDef) and pattern.fullmatch(node.name)
    ]
    assert offenders == []


def test_every_module_says_what_it_owns() -> None:
    assert [_name(p) for p in SOURCES if not ast.get_docstring(_tree(p))] == []


def test_nothing_is_left_unfinished() -> None:
    pattern = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImpl" + r"ementedError")
    found = [_name(p) for p in HANDWRITTEN if pattern.search(p.read_text())]
    assert found == []


def test_our_package_is_started_without_the_working_directory_on_its_path() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    offenders = [
        _name(path)
        for path in (*SOURCES, *pages)
        for text in [path.read_text()]
        for found in re.finditer(r"-m\W+codex_acp", text)
        if "-P" not in text[max(0, found.start() - 120) : found.start()]
    ]
    assert offenders == []


def test_no_path_of_a_machine_is_committed() -> None:
    pattern = re.compile(r"/(root|home/[a-z]+|work|Users/[A-Za-z]+)/")
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.split(b"\0")
    for raw in files:
        path = ROOT / raw.decode()
        if raw and path.is_file() and not path.is_relative_to(ROOT / "schema"):
            if path == Path(__file__) or "_generated" in path.parts:  # the schemas' own texts
                continue
            match = pattern.search(SUB_AGENT.sub("", path.read_text(errors="replace")))
            assert match is None, f"{_name(path)}: {match}"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_style_is_clean(command: list[str]) -> None:
    _succeeds(["ruff", *command])


@pytest.mark.slow
def test_types_are_clean_and_those_of_the_documentation_are_too(tmp_path: Path) -> None:
    """One run for all: the Python of the pages is checked as if it were in the project."""
    for block in blocks("python"):
        name = re.sub(r"\W", "_", str(block))
        (tmp_path / f"{name}.py").write_text(block.text, encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    # A fresh clone has no cache, and to write one takes a fifth of the run.
    cache = [] if (ROOT / ".mypy_cache").exists() else ["--cache-dir", os.devnull]
    _succeeds(["mypy", *cache, *settings["files"], str(tmp_path)])


def _succeeds(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
