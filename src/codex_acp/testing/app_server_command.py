"""An executable file that stands in for the Codex binary and plays a script.

Owns the file; what it runs is ``app_server``. Usable as ``--codex PATH`` or ``CODEX_PATH``.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from codex_acp.testing.app_server_script import (
    CODEX_VERSION,
    AppServerScriptLike,
    as_app_server_script,
)
from codex_acp.testing.record_file import read_record

if TYPE_CHECKING:
    import os
    from os import PathLike

    from codex_acp.testing.app_server_script import JsonObject, RequestId


@dataclass(frozen=True, slots=True)
class AppServerRecord:
    """Messages that a scripted app-server process saw; ``lines`` holds the record as it was
    written."""

    lines: tuple[JsonObject, ...]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> AppServerRecord:
        """Read what has been written so far; a last line that is cut off is left out."""
        return cls(read_record(path))

    @property
    def argv(self) -> list[str]:
        """The arguments of the newest process, without the program."""
        starts = [line["argv"] for line in self.lines if line["at"] == "start"]
        return cast("list[str]", starts[-1]) if starts else []

    @property
    def received(self) -> list[JsonObject]:
        """Every message of the client."""
        return self._messages("in")

    @property
    def sent(self) -> list[JsonObject]:
        """Every message to the client."""
        return self._messages("out")

    def requests(self, method: str) -> list[JsonObject]:
        """The client's messages of this method."""
        return [message for message in self.received if message.get("method") == method]

    def answers_to(self, request_id: RequestId) -> list[JsonObject]:
        """The client's answers with exactly this id; ``0`` and ``"0"`` are told apart."""
        key = (type(request_id), request_id)
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == "answer" and (type(line["id"]), line["id"]) == key
        ]

    @property
    def end(self) -> JsonObject | None:
        """The last line of a process that ended by itself, None of one that was killed."""
        last = self.lines[-1] if self.lines else None
        return last if last is not None and last["at"] == "end" else None

    @property
    def finished(self) -> bool:
        """Whether the process ended by itself with every entry played and nothing unexpected."""
        return self.end is not None and not self.end["remaining"] and not self.end["unexpected"]

    def _messages(self, at: str) -> list[JsonObject]:
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == at and "message" in line
        ]


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
