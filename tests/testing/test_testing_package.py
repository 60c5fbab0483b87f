"""The public names of ``codex_acp.testing``."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import codex_acp.testing


def names_for_type_checkers() -> list[str]:
    """What the package imports under ``TYPE_CHECKING``."""
    tree = ast.parse(Path(codex_acp.testing.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names]


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    assert sorted(names_for_type_checkers()) == sorted(dir(codex_acp.testing))


@pytest.mark.parametrize("name", dir(codex_acp.testing))
def test_every_public_name_loads(name: str) -> None:
    assert getattr(codex_acp.testing, name) is not None
    assert name in dir(codex_acp.testing)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    name = "nothing_here"
    with pytest.raises(AttributeError, match=name):
        getattr(codex_acp.testing, name)


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has after ``code``."""
    program = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=20
    )
    return set(done.stdout.split())


def test_the_package_loads_nothing_by_itself() -> None:
    ours = {name for name in loaded_by("import codex_acp.testing") if "codex_acp." in name}
    assert ours == {"codex_acp.testing", "codex_acp._lazy", "codex_acp._version"}


@pytest.mark.parametrize(
    "module", ["app_server", "mcp_server", "app_server_command", "scripted_model", "codex_home"]
)
def test_what_runs_as_a_process_or_without_a_loop_loads_no_framework(module: str) -> None:
    loaded = loaded_by(f"import codex_acp.testing.{module}")
    assert not loaded & {"pydantic", "anyio", "asyncio"}
