"""Runs the command as a process, for the tests of this directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

WAIT_SECONDS = 240
"""Bound of every process here; the demonstration takes five seconds, on a busy machine twenty."""

COMMAND = (sys.executable, "-P", "-m", "codex_acp")


def environment(temporary: Path, **more: str) -> dict[str, str]:
    """This process's own, with an empty temporary directory and none of the command's variables."""
    env = {k: v for k, v in os.environ.items() if k not in ("CODEX_PATH", "CODEX_ACP_LOG")}
    return env | {"TMPDIR": str(temporary)} | more


def run(
    arguments: Sequence[str],
    env: dict[str, str],
    given: bytes = b"",
    command: Sequence[str] = COMMAND,
) -> subprocess.CompletedProcess[bytes]:
    """The finished process; ``given`` is its whole stdin."""
    return subprocess.run(
        [*command, *arguments],
        input=given,
        capture_output=True,
        env=env,
        timeout=WAIT_SECONDS,
        check=False,
    )
