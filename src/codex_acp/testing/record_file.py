"""Write and read a file of JSON lines, which a scripted process leaves for its test.

Each line is written at once, so that a killed process leaves its lines. Uses no buffered file:
Python aborts at its exit if a thread still holds the lock of a buffer.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike


class RecordWriter:
    """Appends lines to a file, from any thread. Without a path, writes nothing."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None
        if path is not None:
            # The file stays open, because there may be tens of thousands of lines.
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def write(self, at: str, **members: object) -> None:
        """Append one line; ``at`` is the kind of line, such as ``in`` and ``out`` for messages."""
        if self._file is not None:
            line = json.dumps({"at": at, **members}).encode() + b"\n"
            with self._lock:
                write_all(self._file, line)


def write_all(file: int, data: bytes) -> None:
    """Write all data to a descriptor: one `os.write` may write only a part of the data."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def read_record(path: str | PathLike[str]) -> tuple[Mapping[str, object], ...]:
    """Return the lines so far, without an unfinished last line; none if the file is missing."""
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = text.split("\n")[:-1]
    return tuple(json.loads(line) for line in lines)
