"""Pure code may import the events: nothing with IO comes along."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import codex_acp.transcript

FOLDER = Path(codex_acp.transcript.__file__).parent
PURE = ("events", "redaction", "secrets")
IO_MODULES = {
    "anyio", "asyncio", "os", "subprocess", "time", "random", "logging", "socket", "threading",
    "pathlib", "io", "sys", "signal", "secrets", "datetime",
}  # fmt: skip


@pytest.mark.parametrize("module", PURE)
def test_events_and_redaction_are_pure(module: str) -> None:
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.Import):
            assert not {a.name.split(".")[0] for a in node.names} & IO_MODULES
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in IO_MODULES
            assert node.module not in {f"codex_acp.transcript.{m}" for m in ("log", "writer")}


def test_the_events_and_the_log_load_no_event_loop_and_nothing_that_only_a_listener_needs() -> None:
    code = (
        "import json, sys; import codex_acp.transcript.events; "
        "from codex_acp.transcript import Transcript; print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout))
    assert "codex_acp.transcript.log" in loaded
    late = {f"codex_acp.transcript.{name}" for name in ("stream", "redaction", "writer")}
    assert not ({"anyio", "asyncio", "pydantic"} | late) & loaded
