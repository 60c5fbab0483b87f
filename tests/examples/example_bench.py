"""How an example is run: as a user would run it, with a scripted model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codex_acp.testing import CodexHome, ModelResponse, ScriptedModel, Step

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WAIT_SECONDS = 120


@contextmanager
def codex(
    *script: ModelResponse | Sequence[Step], **home: Any
) -> Iterator[tuple[CodexHome, ScriptedModel]]:
    """A home whose model says ``script``; ``home`` are the arguments of `CodexHome`."""
    with ScriptedModel(script) as model, CodexHome(model.base_url, **home) as made:
        yield made, model


def outcome(
    name: str, home: CodexHome, *args: str, said: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """How an example ends to which a person says ``said``."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *args],
        cwd=home.workspace,
        env={**home.env, **(env or {})},
        input=said,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def run(
    name: str, home: CodexHome, *args: str, said: str = "", env: Mapping[str, str] | None = None
) -> str:
    """What an example prints; it must end well and say nothing to stderr."""
    done = outcome(name, home, *args, said=said, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def untested(pattern: str, test_file: str) -> list[str]:
    """The examples of a kind that ``test_file`` does not name."""
    source = Path(test_file).read_text(encoding="utf-8")
    names = [path.name for path in EXAMPLES.glob(pattern)]
    assert names
    return [name for name in names if f'"{name}"' not in source]
