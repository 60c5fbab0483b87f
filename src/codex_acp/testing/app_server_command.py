"""An executable file that stands in for the Codex binary and plays a script.

Owns the file; what it runs is ``app_server``. Usable as ``--codex PATH`` or ``CODEX_PATH``.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codex_acp.testing.app_server_defaults import CODEX_VERSION
from codex_acp.testing.app_server_record import AppServerRecord
from codex_acp.testing.app_server_script import AppServerScriptLike, as_app_server_script

if TYPE_CHECKING:
    import os


class ScriptedCodex:
    """Writes the executable, its script and its record into ``directory``, which must exist.

    ``codex = ScriptedCodex(tmp_path, [...])``, then start ``codex.path`` with ``app-server``,
    and read ``codex.record()`` when the process has ended. ``--version`` prints ``version``.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        script: AppServerScriptLike,
        *,
        name: str = "codex",
        version: str = CODEX_VERSION,
    ) -> None:
        base = Path(directory).resolve()
        self.path: Path = base / name
        self.script_path: Path = base / f"{name}-script.jsonl"
        self.record_path: Path = base / f"{name}-record.jsonl"
        text = as_app_server_script(script).to_jsonl()
        self.script_path.write_text(text, encoding="utf-8")
        command = [
            sys.executable,
            "-P",  # the working directory is the test's: no module of it may be imported
            "-m",
            "codex_acp.testing.app_server",
            f"--record={self.record_path}",
            f"--version-text={version}",
            str(self.script_path),
            "--",
        ]
        # The tests of an installed package and of a checkout both find it.
        source = shlex.quote(str(Path(__file__).resolve().parents[2]))
        self.path.write_text(
            "#!/bin/sh\n"
            f"PYTHONPATH={source}${{PYTHONPATH:+:$PYTHONPATH}}\n"
            "export PYTHONPATH\n"
            f'exec {shlex.join(command)} "$@"\n',
            encoding="utf-8",
        )
        self.path.chmod(0o755)

    def __repr__(self) -> str:
        return f"ScriptedCodex({str(self.path)!r})"

    def record(self) -> AppServerRecord:
        """The messages that the process saw so far; of several processes, one after the other."""
        return AppServerRecord.read(self.record_path)
