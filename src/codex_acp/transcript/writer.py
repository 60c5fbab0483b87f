"""The transcript as a file of JSON lines.

Owns the file: how it is opened, that a line is whole, what happens when the disk is full. Must
not know events; the codec writes them. Rotating files is the system's business.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.errors import MisuseError
from codex_acp.transcript.codec import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from codex_acp.transcript.events import Entry

__all__ = ["ENVIRONMENT_VARIABLE", "TranscriptWriter", "transcript_path"]

_log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE: Final = "CODEX_ACP_TRANSCRIPT"
"""Names the transcript where no ``--transcript`` was given."""

_MODE: Final = 0o600
"""Permissions of a new file: who asked what of whom is the user's alone."""


def transcript_path(argument: str | None, environ: Mapping[str, str]) -> Path | None:
    """Where to write the transcript: ``--transcript`` wins over ``CODEX_ACP_TRANSCRIPT``.

    None if neither is set; an empty variable counts as not set.
    """
    if argument is not None:
        return Path(argument)
    name = environ.get(ENVIRONMENT_VARIABLE)
    return Path(name) if name else None


class TranscriptWriter:
    """Appends entries to ``path``, one line each, handed to the system before `write` returns.

    A new file is readable by its owner alone; its folder must exist. Raises MisuseError if the
    file cannot be opened. A line that cannot be written later is lost and never raises: the first
    is logged, and on closing how many there were. Several processes may append to one file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        # Without O_NONBLOCK a pipe that nobody reads would hold up the whole program.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        try:
            self._fd = os.open(self._path, flags, _MODE)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            message = (
                f"the transcript {self._path} cannot be written: {reason}; "
                "name a file that you may write, in a folder that exists"
            )
            raise MisuseError(message) from error
        self._torn = _ends_inside_a_line(self._path)
        self._lost = 0
        self._closed = False

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @property
    def lost(self) -> int:
        """How many entries could not be written."""
        return self._lost

    def write(self, entry: Entry) -> None:
        """Append one line; a subscriber of the transcript. Never raises for what the disk does."""
        if self._closed:
            return
        try:
            text = json.dumps(to_json(entry.event, entry.time), allow_nan=False)
            # ASCII: control and bidirectional characters are seen, lone surrogates do not fail.
            self._append(text.encode("ascii") + b"\n")
        except (OSError, ValueError, RecursionError) as error:
            self._lost += 1
            if self._lost == 1:
                reason = getattr(error, "strerror", None) or type(error).__name__
                _log.error(
                    "a line of the transcript %s was lost (%s); others are tried, "
                    "but not reported again",
                    self._path,
                    reason,
                )

    def close(self) -> None:
        """Close the file; again is fine, and later entries are ignored."""
        if self._closed:
            return
        self._closed = True
        os.close(self._fd)
        if self._lost:
            _log.warning("the transcript %s lacks %d entries", self._path, self._lost)

    def _append(self, line: bytes) -> None:
        """One system call in all but the worst case, so that lines of two processes do not mix."""
        data = b"\n" + line if self._torn else line
        while data:
            written = os.write(self._fd, data)
            data = data[written:]
            self._torn = bool(data)


def _ends_inside_a_line(path: Path) -> bool:
    """Whether an earlier process died while it wrote; the next line must not join its rest."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size == 0:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
