"""The package: a few names that load when they are used, and nothing before."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import codex_acp.runtime


def test_importing_it_loads_no_model_no_pydantic_and_no_event_loop() -> None:
    code = "import sys, json; import codex_acp.runtime; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    loaded = set(json.loads(done.stdout))
    assert not {"pydantic", "pydantic_core", "anyio", "asyncio"} & loaded


def test_what_type_checkers_see_is_what_there_is() -> None:
    source = Path(codex_acp.runtime.__file__).read_text(encoding="utf-8")
    seen = {
        alias.asname
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    names = set(dir(codex_acp.runtime))
    assert seen == names
    for name in names:
        assert getattr(codex_acp.runtime, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = codex_acp.runtime.Nonsense  # type: ignore[attr-defined] # that is what is tested
