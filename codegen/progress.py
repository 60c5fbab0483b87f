"""What `refresh` shows while it works, on standard error: the step, its time, and what it loads."""

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
"""Characters of a failed command's output that are shown."""


class Progress:
    """Numbered steps. On a terminal the last line lives; elsewhere each step is one line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._number = 0
        self._text = ""
        self._began = 0.0

    @contextmanager
    def step(self, text: str, otherwise: str = "failed") -> Iterator[None]:
        """One step: what is said before it, and that it is done, or ``otherwise``, after it."""
        self._number += 1
        self._text, self._began = text, time.monotonic()
        self.tick("")
        try:
            yield
        except BaseException:
            self._end(otherwise)
            raise
        self._end("done")

    def tick(self, more: str) -> None:
        """The step goes on; ``more`` is how far it is. Shows nothing unless on a terminal."""
        if self._live:
            self._stream.write(f"\r\x1b[2K{self._line()} {more} {self._seconds()}")
            self._stream.flush()

    def _end(self, how: str) -> None:
        start = "\r\x1b[2K" if self._live else ""
        self._stream.write(f"{start}{self._line()} {how}, {self._seconds()}\n")
        self._stream.flush()

    def _line(self) -> str:
        return f"[{self._number}] {self._text} …"

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"


def run(
    command: Sequence[str],
    progress: Progress,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    growing: Path | None = None,
) -> str:
    """Standard output of a command. ``growing`` is a folder whose size tells how far it is.

    Raises FetchFailed with the end of its output if it is not there, fails, or takes longer than
    ``timeout`` seconds.
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
            said = (text + err.read().decode("utf-8", "replace")).strip()[-_TAIL:]
            what = "took too long" if code is None else f"failed with exit code {code}"
            raise FetchFailed(f"{' '.join(command)} {what}:\n{said}")
        return text


def _wait(
    process: subprocess.Popen[bytes], progress: Progress, timeout: float, growing: Path | None
) -> int | None:
    """The exit code, or None when the time is over."""
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
            except OSError:  # it was moved away in this moment
                continue
    return total
