"""What is public, as ARCHITECTURE.md says it: every name is there, and users are shown no other."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]

PUBLIC = (
    "codex_acp", "codex_acp.acp", "codex_acp.acp.types", "codex_acp.acp.unstable",
    "codex_acp.acp.v2", "codex_acp.bridge", "codex_acp.codex", "codex_acp.codex.sync",
    "codex_acp.codex.types",
    "codex_acp.errors", "codex_acp.fleet", "codex_acp.runtime", "codex_acp.testing",
    "codex_acp.transcript",
)  # fmt: skip
"""The modules whose ``__all__`` is public."""


def test_the_architecture_says_what_is_public() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("## What is public")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(codex_acp[\w.]*)`", section)) == set(PUBLIC)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in getattr(found, "__all__", ()) if not hasattr(found, name)] == []


def test_what_is_private_has_no_list_of_public_names() -> None:
    files = (ROOT / "src" / "codex_acp").rglob("*.py")
    listing = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in files
        if "_generated" not in path.parts
        and re.search(r"^ *__all__\b", path.read_text(encoding="utf-8"), re.M)
    }
    assert listing <= {*PUBLIC}


def _shown() -> Iterator[tuple[str, str]]:
    """(file, Python code) of all that users are shown."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield path.name, path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"^ *```python\n(.*?)^ *```", path.read_text(), re.M | re.S):
            yield path.name, dedent(block)


def _imports(code: str) -> Iterator[tuple[str, str]]:
    """(module, name) of what is imported of this library."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (("", alias.name) for alias in node.names if _ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and _ours(str(node.module)):
            yield from ((str(node.module), alias.name) for alias in node.names)


def _ours(module: str) -> bool:
    return module.partition(".")[0] == "codex_acp"


def _is_public(module: str, name: str) -> bool:
    if f"{module}.{name}".strip(".") in PUBLIC:
        return True
    found = importlib.import_module(module) if module in PUBLIC else None
    # `codex_acp.codex.types` has every class of the protocol, and no list of them.
    return found is not None and name in getattr(found, "__all__", [name])


def test_users_are_shown_public_names_only() -> None:
    shown = [(file, *found) for file, code in _shown() for found in _imports(code)]
    assert shown
    assert [use for use in shown if not _is_public(*use[1:])] == []
