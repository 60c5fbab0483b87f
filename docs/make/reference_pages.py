"""The pages of the API reference: the public names of each module, for mkdocstrings to fill."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from itertools import pairwise
from pathlib import Path

MODULES = {
    "codex": "Codex from Python",
    "codex.sync": "Codex from Python, without async",
    "runtime": "Any agent from Python",
    "fleet": "Fleets of tasks",
    "acp": "Both sides of ACP",
    "bridge": "Codex as ACP without IO",
    "testing": "Tests without an account",
    "transcript": "The transcript",
    "errors": "Exceptions",
}
"""Title of each public module, by its name below ``codex_acp``."""


def pages() -> dict[str, str]:
    """Return a page for each public module, and a page that lists the modules."""
    made = {f"reference/{name}.md": _page(name, title) for name, title in MODULES.items()}
    rows = [f"| [`codex_acp.{n}`]({n}.md) | {title} |" for n, title in MODULES.items()]
    lines = [
        "# API reference",
        "",
        "These pages come from the docstrings. The protocols' models are not listed:",
        "`codex_acp.codex.types` and `codex_acp.acp.types` have every class of the schemas by its",
        "name, with its documentation, which an editor shows.",
        "",
        "| module | for |",
        "|---|---|",
        *rows,
    ]
    return {**made, "reference/index.md": "\n".join(lines) + "\n"}


def _page(name: str, title: str) -> str:
    module = importlib.import_module(f"codex_acp.{name}")
    lines = [f"# {title}: `codex_acp.{name}`", ""]
    lines += ["From the docstrings. Import the names from this module.", ""]
    for public in sorted(module.__all__, key=_by_kind):
        value = getattr(module, public)
        home = getattr(value, "__module__", None)
        if inspect.ismodule(value) or not (inspect.isclass(value) or inspect.isfunction(value)):
            lines += [f"## `{public}`", "", f"`from codex_acp.{name} import {public}`", ""]
            told = [inspect.getdoc(value) or ""] if inspect.ismodule(value) else []
            lines += [*(told or _below(module.__name__, public)), ""]
        elif "._generated" in str(home) or value is dict:  # a TypedDict for type checkers only
            lines += [f"## `{public}`", "", "A generated table type: one row for each method.", ""]
        else:
            lines += [f"::: {home}.{value.__qualname__}", ""]
    return "\n".join(lines)


def _below(module: str, name: str) -> list[str]:
    """Return the string that stands below an alias or a value where it is defined."""
    found = importlib.util.find_spec(module)
    assert found is not None
    source = Path(str(found.origin))
    stub = source.with_suffix(".pyi")  # of a module whose names load lazily
    tree = ast.parse((stub if stub.exists() else source).read_text())
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module not in (None, module)
            and any(name == (alias.asname or alias.name) for alias in node.names)
        ):
            return _below(str(node.module), name)
    for node, below in pairwise(tree.body):
        target = getattr(node, "target", None) or next(iter(getattr(node, "targets", ())), None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or getattr(target, "id", "") != name:
            continue
        match below:
            case ast.Expr(value=ast.Constant(value=str(text))):
                return [inspect.cleandoc(text)]
    return []


def _by_kind(name: str) -> tuple[bool, str]:
    """Return a sort key: classes first, then functions, each by name."""
    return not name[:1].isupper(), name.lower()
