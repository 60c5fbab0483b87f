"""Importing loads nothing that is not needed yet."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def _loaded(statement: str) -> set[str]:
    """Names of the modules that are loaded after ``statement`` in a fresh interpreter."""
    code = f"import sys, json\nbefore = set(sys.modules)\n{statement}\n"
    code += "print(json.dumps(sorted(set(sys.modules) - before)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "statement",
    [
        "import codex_acp",
        "import codex_acp.codex",
        "import codex_acp.acp",
        "import codex_acp.testing",
        "import codex_acp.mapping",
        "import codex_acp.adapter",
        "import codex_acp.codex.launch",
        "import codex_acp.cli.main",
    ],
)
def test_a_package_loads_no_model_no_pydantic_and_no_event_loop(statement: str) -> None:
    heavy = {"pydantic", "pydantic_core", "anyio", "asyncio"}
    loaded = _loaded(statement)
    assert not heavy & loaded
    assert not [name for name in loaded if "._generated.models." in name]


def test_the_package_itself_loads_two_modules() -> None:
    ours = {"codex_acp", "codex_acp._version"}
    assert {n for n in _loaded("import codex_acp") if n.startswith("codex_acp")} == ours


def test_a_registry_loads_no_model() -> None:
    loaded = _loaded("import codex_acp.codex._generated.methods")
    assert not [n for n in loaded if n.startswith("codex_acp.codex._generated.models.")]


def test_answering_initialize_loads_no_model_of_a_turn() -> None:
    loaded = _loaded("import codex_acp.adapter.serve")
    models = {
        n.rsplit(".", 1)[1] for n in loaded if "._generated.models." in n or ".v1.models." in n
    }
    assert models <= {"handshake"}
