"""Play a script as the process ``codex app-server``, and make the executable file that starts it.

``python -P -m codex_acp.testing.app_server SCRIPT.jsonl [--record OUT.jsonl] [-- ARGUMENTS]``

``app_server_script`` defines the script's entries. ARGUMENTS are for the Codex binary. With
``--version`` the process prints a version and ends, without ``app-server`` it ends with status 2.
Uses only the standard library and no event loop, so that the process starts within tens of
milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never, cast

from codex_acp.errors import MisuseError
from codex_acp.testing.app_server_script import (
    CODEX_VERSION,
    AppServerPlayer,
    AppServerScript,
    CloseOutput,
    Exit,
    Output,
    Pause,
    RawLine,
    Send,
    StderrText,
    as_app_server_script,
    entry_to_json,
)
from codex_acp.testing.record_file import RecordWriter, read_record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import BinaryIO

    from codex_acp.jsonrpc import RequestId
    from codex_acp.testing.app_server_script import AppServerScriptLike, JsonObject


class _StreamPlayer:
    """Plays a script on two byte streams."""

    def __init__(self, script: AppServerScript, record: RecordWriter, output: BinaryIO) -> None:
        self._player = AppServerPlayer(script)
        self._record = record
        self._output = output
        self._output_open = True
        self._pending: list[bytes] = []

    def run(self, source: BinaryIO) -> int:
        """Play until the input ends or the script exits; return the exit status."""
        status = self._carry_out(self._player.start())
        while status is None:
            line = source.readline()
            if not line:
                self._record_end("the input ended")
                return 0
            if line.strip():
                status = self._carry_out(self._feed(line))
        self._record_end("the script exits")
        return status

    def _feed(self, line: bytes) -> list[Output]:
        """Record a line of the client, and feed its message to the player."""
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self._record.write("in", line=line.decode(errors="replace"))
            return []
        self._record.write("in", message=message)
        answers_before = len(self._player.answers)
        outputs = self._player.feed(message)
        for answer in self._player.answers[answers_before:]:
            self._record.write("answer", id=answer.id, name=answer.name, message=answer.message)
        return outputs

    def _carry_out(self, outputs: Sequence[Output]) -> int | None:
        """Carry out the outputs; return the exit status if one of them is an `Exit`."""
        for output in outputs:
            match output:
                case Send():
                    data = json.dumps(output.message, separators=(",", ":")).encode()
                    self._pending.append(data + b"\n")
                    self._record.write("out", message=output.message)
                case RawLine():
                    self._pending.append(output.raw.encode() + (b"\n" if output.newline else b""))
                case StderrText():
                    sys.stderr.write(output.stderr + "\n")
                    sys.stderr.flush()
                case Pause():
                    self._flush()
                    time.sleep(output.pause)
                case CloseOutput():
                    self._flush()
                    self._output_open = False
                    os.close(self._output.fileno())
                case Exit():
                    self._flush()
                    return output.exit
                case _:
                    assert_never(output)
        self._flush()
        return None

    def _flush(self) -> None:
        """Write the pending data in one write."""
        data, self._pending = b"".join(self._pending), []
        if data and self._output_open:
            try:
                self._output.write(data)
                self._output.flush()
            except BrokenPipeError:  # the client has ended, so the input ends, too
                self._output_open = False

    def _record_end(self, why: str) -> None:
        remaining = [entry_to_json(entry) for entry in self._player.remaining]
        self._record.write("end", why=why, remaining=remaining, unexpected=self._player.unexpected)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="codex_acp.testing.app_server")
    parser.add_argument("script", help="the script, JSON lines")
    parser.add_argument("--record", help="append what happens to this file, JSON lines")
    parser.add_argument("--version-text", default=CODEX_VERSION, help="the version to claim")
    parser.add_argument("codex_args", nargs="*", default=["app-server"], metavar="ARGUMENT")
    options = parser.parse_args(argv)
    if "--version" in options.codex_args:
        sys.stdout.write(f"codex-cli {options.version_text}\n")
        return 0
    if "app-server" not in options.codex_args:
        sys.stderr.write(f"scripted codex: only app-server is played: {options.codex_args}\n")
        return 2
    record = RecordWriter(options.record)
    record.write("start", argv=options.codex_args)
    try:
        script = AppServerScript.from_file(options.script)
        if script.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        status = _StreamPlayer(script, record, sys.stdout.buffer).run(sys.stdin.buffer)
    except (MisuseError, OSError) as error:
        sys.stderr.write(f"scripted codex: {error}\n")
        record.write("end", why=str(error), remaining=[{}], unexpected=[])  # so not `finished`
        return os.EX_SOFTWARE  # the script cannot be played
    while script.ignore_eof and status == 0:  # the input ended, or the script exited with 0
        signal.pause()  # until a signal ends the process
    return status


@dataclass(frozen=True, slots=True)
class AppServerRecord:
    """The lines that all processes of one script have recorded."""

    lines: tuple[JsonObject, ...]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> AppServerRecord:
        """Read the record so far, without an unfinished last line."""
        return cls(read_record(path))

    @property
    def argv(self) -> list[str]:
        """The arguments of the last process, without the program."""
        starts = [line["argv"] for line in self.lines if line["at"] == "start"]
        return cast("list[str]", starts[-1]) if starts else []

    @property
    def received(self) -> list[JsonObject]:
        """Messages from the client."""
        return self._messages("in")

    @property
    def sent(self) -> list[JsonObject]:
        """Messages to the client."""
        return self._messages("out")

    def requests(self, method: str) -> list[JsonObject]:
        """Return the client's requests and notifications with this ``method``."""
        return [message for message in self.received if message.get("method") == method]

    def answers_to(self, request_id: RequestId) -> list[JsonObject]:
        """Return the client's answers with this id; ``0`` and ``"0"`` are different ids."""
        key = (type(request_id), request_id)
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == "answer" and (type(line["id"]), line["id"]) == key
        ]

    @property
    def end(self) -> JsonObject | None:
        """The last line of a process that ended normally; None if it was killed."""
        last = self.lines[-1] if self.lines else None
        return last if last is not None and last["at"] == "end" else None

    @property
    def finished(self) -> bool:
        """Whether the process ended normally, with all entries played and no unexpected request."""
        return self.end is not None and not self.end["remaining"] and not self.end["unexpected"]

    def _messages(self, at: str) -> list[JsonObject]:
        return [
            cast("JsonObject", line["message"])
            for line in self.lines
            if line["at"] == at and "message" in line
        ]


class ScriptedCodex:
    """An executable in ``directory``, which must exist, that plays a script as the Codex binary.

    Make ``codex = ScriptedCodex(tmp_path, [...])``, start ``codex.path`` with ``app-server``, and
    read ``codex.record()`` when the process has ended. ``--version`` prints ``version``.
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
            "-P",  # do not import modules from the test's working directory
            "-m",
            "codex_acp.testing.app_server",
            f"--record={self.record_path}",
            f"--version-text={version}",
            str(self.script_path),
            "--",
        ]
        # The directory from which this package is imported, installed or in a checkout.
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
        """Return the record so far, of all processes."""
        return AppServerRecord.read(self.record_path)


if __name__ == "__main__":
    exit_status = main()
    sys.stderr.flush()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    # The script may have closed standard output; the usual exit would print an error.
    os._exit(exit_status)
