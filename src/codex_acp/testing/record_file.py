"""A file of JSON lines that a scripted process leaves for the test that started it.

Owns how it is written and read: each line at once, so that a killed process keeps what it had.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike


class RecordWriter:
    """Appends to the file, from any thread; without a path it does nothing."""

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        if path is not None:
            # Open as long as the process lives: there may be tens of thousands of lines.
            self._file = Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115

    def write(self, at: str, **members: object) -> None:
        """Append one line; ``at`` says where in the process it comes from."""
        if self._file is not None:
            line = json.dumps({"at": at, **members}) + "\n"
            with self._lock:
                self._file.write(line)


def read_record(path: str | PathLike[str]) -> tuple[Mapping[str, object], ...]:
    """The lines written so far; one that is cut off is left out, a missing file has none."""
    file = Path(path)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = text.split("\n")[:-1]
    return tuple(json.loads(line) for line in lines)
