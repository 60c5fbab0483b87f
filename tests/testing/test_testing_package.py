"""What ``codex_acp.testing`` loads."""

from __future__ import annotations

import subprocess
import sys

import pytest


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


@pytest.mark.parametrize("module", ["app_server", "mcp_server", "scripted_model", "codex_home"])
def test_what_runs_as_a_process_or_without_a_loop_loads_no_framework(module: str) -> None:
    loaded = loaded_by(f"import codex_acp.testing.{module}")
    assert not loaded & {"pydantic", "anyio", "asyncio"}
