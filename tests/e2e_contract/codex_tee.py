"""Stands between the adapter's process and Codex, and writes down what passes.

``python codex_tee.py RECORD CODEX ARGUMENT...``; `tee_command` makes an executable of that, to be
named by ``CODEX_PATH``. A line of the record is ``{"by": "adapter" | "codex", "message": {...}}``.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Literal

from tests.e2e_contract.codex_wire import CodexWire


def tee_command(directory: Path, codex: str) -> tuple[Path, Path]:
    """The executable, and the record that it will write."""
    record, command = directory / "codex-wire.jsonl", directory / "codex"
    words = [sys.executable, str(Path(__file__).resolve()), str(record), codex]
    path = shlex.quote(str(Path(__file__).resolve().parents[2]))
    command.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {shlex.join(words)} "$@"\n')
    command.chmod(0o755)
    return command, record


def wire_of(record: Path) -> CodexWire:
    """What the record says."""
    wire = CodexWire()
    for line in record.read_bytes().splitlines():
        entry = json.loads(line)
        wire.add(entry["by"], json.dumps(entry["message"]).encode())
    return wire


def _copy(
    by: Literal["adapter", "codex"], source: IO[bytes], sink: IO[bytes], record: IO[bytes]
) -> None:
    for line in source:
        # Written down first: whoever has seen a message finds it in the record.
        record.write(json.dumps({"by": by, "message": json.loads(line)}).encode() + b"\n")
        try:
            sink.write(line)
            sink.flush()
        except BrokenPipeError:
            return
    sink.close()


def main(record_path: str, *argv: str) -> int:
    """Run Codex; its exit status."""
    with open(record_path, "ab", buffering=0) as record:  # noqa: PTH123 - unbuffered
        codex = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert codex.stdin
        assert codex.stdout
        down = threading.Thread(
            target=_copy, args=("adapter", sys.stdin.buffer, codex.stdin, record), daemon=True
        )
        down.start()
        _copy("codex", codex.stdout, sys.stdout.buffer, record)
        status = codex.wait()
    os._exit(status % 256)  # the thread has the lock of standard input's buffer for good


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
