"""Show the steps of `refresh` on standard error, with their times; run commands."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from codegen.errors import FetchFailed

_TICK_SECONDS = 0.2
_TAIL = 1500
"""Most characters of a failed command's output that are shown."""
_ERASE_LINE = "\r\x1b[2K"


class Progress:
    """Shows numbered steps: on a terminal with a last line that changes, else one line a step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._number = 0
        self._text = ""
        self._started_at = 0.0

    @contextmanager
    def step(self, text: str, otherwise: str = "failed") -> Iterator[None]:
        """Run one step: show ``text``, then "done", or ``otherwise`` after an exception."""
        self._number += 1
        self._text, self._started_at = text, time.monotonic()
        self.tick("")
        try:
            yield
        except BaseException:
            self._end(otherwise)
            raise
        self._end("done")

    def tick(self, more: str) -> None:
        """On a terminal, show the time and ``more``, which tells how far the step is."""
        if self._is_terminal:
            self._stream.write(f"{_ERASE_LINE}{self._line()} {more} {self._seconds()}")
            self._stream.flush()

    def _end(self, outcome: str) -> None:
        start = _ERASE_LINE if self._is_terminal else ""
        self._stream.write(f"{start}{self._line()} {outcome}, {self._seconds()}\n")
        self._stream.flush()

    def _line(self) -> str:
        return f"[{self._number}] {self._text} …"

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._started_at:.0f} s"


def run(
    command: Sequence[str],
    progress: Progress,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    growing: Path | None = None,
) -> str:
    """Run a command; return its standard output. The progress shows the size of ``growing``.

    Raises FetchFailed with the end of the output if the command cannot be started, fails, or takes
    longer than ``timeout`` seconds.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env
            )
        except OSError as error:
            raise FetchFailed(f"{command[0]} cannot be started: {error}") from None
        try:
            code = _wait(process, progress, timeout, growing)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        err.seek(0)
        text = out.read().decode("utf-8", "replace")
        if code != 0:
            tail = (text + err.read().decode("utf-8", "replace")).strip()[-_TAIL:]
            fault = "took too long" if code is None else f"failed with exit code {code}"
            raise FetchFailed(f"{' '.join(command)} {fault}:\n{tail}")
        return text


def _wait(
    process: subprocess.Popen[bytes], progress: Progress, timeout: float, growing: Path | None
) -> int | None:
    """Wait for the process; return its exit code, or None after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            return process.wait(_TICK_SECONDS)
        except subprocess.TimeoutExpired:
            progress.tick("" if growing is None else f"{_size(growing) / 1e6:.0f} MB")
    return None


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except OSError:  # the file was moved away meanwhile
                continue
    return total
