"""The transcript as a file of JSON lines.

Owns the file, and what is said when it takes no more. Must not know events; the codec writes
them. Rotating files is the system's business.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from codex_acp.errors import MisuseError
from codex_acp.transcript.codec import to_json
from codex_acp.transcript.line_writer import LineWriter
from codex_acp.transcript.private_file import open_private

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.transcript.events import Entry

_log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE: Final = "CODEX_ACP_TRANSCRIPT"
"""Names the transcript where no ``--transcript`` was given."""

HAND_OVER_SECONDS: Final = 1.0
"""How long a line may hold up the program, once: a disk that takes longer has stopped."""

CLOSE_SECONDS: Final = 0.25
"""For what still waits when the program ends."""


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

    Where the system does not take a line within a second (a pipe that is not read, a network disk
    that has stopped), that is logged, and entries wait in memory from then on until it has.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        try:
            self._fd = open_private(self._path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise MisuseError(
                f"the transcript {self._path} cannot be written: {reason}; "
                "name a file that you may write, in a folder that exists"
            ) from error
        torn = _ends_inside_a_line(self._path)
        self._lines = LineWriter(self._fd, str.encode, self._tell_loss, torn=torn)
        self._unwritable = 0
        self._late = False
        self._closed = False

    def __repr__(self) -> str:
        return f"TranscriptWriter({str(self._path)!r})"

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    @property
    def lost(self) -> int:
        """How many entries could not be written."""
        return self._unwritable + self._lines.lost

    def write(self, entry: Entry) -> None:
        """Append one line; a subscriber of the transcript. Never raises for what the disk does."""
        if self._closed:
            return
        try:
            text = json.dumps(to_json(entry.event, entry.time), allow_nan=False)
        except (ValueError, RecursionError) as error:
            self._unwritable += 1
            if self.lost == 1:
                self._tell_loss(type(error).__name__)
            return
        # ASCII: control and bidirectional characters are seen, lone surrogates do not fail.
        self._lines.put(text + "\n")
        was_late = self._late
        self._late = not self._lines.wait(0 if was_late else HAND_OVER_SECONDS)
        if self._late and not was_late:
            _log.warning(
                "the transcript %s takes no line; what comes now waits in memory and may be lost",
                self._path,
            )

    def close(self) -> None:
        """Close the file; again is fine, and later entries are ignored."""
        if self._closed:
            return
        self._closed = True
        if self._lines.close(CLOSE_SECONDS):
            os.close(self._fd)
        if self.lost:
            _log.warning("the transcript %s lacks %d entries", self._path, self.lost)

    def _tell_loss(self, reason: str) -> None:
        _log.error(
            "a line of the transcript %s was lost (%s); others are tried, but not reported again",
            self._path,
            reason,
        )


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
