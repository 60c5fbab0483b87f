"""The transcript as a file of JSON lines.

Owns the file, and what is said when it takes no more. Must not know events; `to_json` writes
them. Rotating files is the system's business.
"""

from __future__ import annotations

import json
import logging
import os
import select
import stat
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from codex_acp._files import open_private
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.transcript.events import Entry

MAX_WAITING: Final = 1024 * 1024
"""Characters that may wait; with the first of a line that is longer, that one alone."""


class _Waiting(NamedTuple):
    """One line that waits, and how many were lost before it for want of room."""

    line: str
    lost_before: int


class LineWriter:
    """Appends to ``fd``, which it does not close. The thread starts with the first line.

    ``encode`` makes the bytes of a line, its end included, on the thread. ``on_loss`` hears once,
    with the reason, when a line is lost, on whichever thread that is. ``gap`` makes a line that
    is written where so many are missing. ``torn``: what is in the file does not end with a line.
    To be closed while the descriptor is open; nothing waits for the thread at the program's end.
    """

    def __init__(
        self,
        fd: int,
        encode: Callable[[str], bytes],
        on_loss: Callable[[str], None],
        *,
        gap: Callable[[int], str] | None = None,
        torn: bool = False,
    ) -> None:
        self._fd = fd
        self._encode = encode
        self._on_loss = on_loss
        self._gap = gap
        self._torn = torn
        self._changed = threading.Condition()  # reentrant: the garbage collector may log
        self._waiting: deque[_Waiting] = deque()
        self._size = 0
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._overflowed = 0
        """Lines that found no room since the last that did."""
        self._failed = 0
        """Lines that could not be written since the last that could."""
        self._told = False
        self.lost: int = 0
        """How many lines were lost so far."""

    def put(self, line: str) -> None:
        """Hand over a line; it is lost if too much waits. Never waits for the descriptor."""
        with self._changed:
            if self._closed:
                return
            full = self._waiting and self._size + len(line) > MAX_WAITING
            if full or not self._runs():
                self._overflowed += 1
                self.lost += 1
            else:
                self._waiting.append(_Waiting(line, self._overflowed))
                self._overflowed = 0
                self._size += len(line)
                self._changed.notify_all()
                return
        self._tell("nobody takes them")

    def wait(self, seconds: float) -> bool:
        """Wait until all that was handed over is written, or lost; return whether it is by then."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy and not self._waiting, seconds)

    def close(self, seconds: float) -> bool:
        """Take no more lines; whether those that wait were written by then, else they are lost.

        If not, the thread still holds the descriptor.
        """
        done = self.wait(seconds)
        with self._changed:
            self._closed = True
            if not done:
                self.lost += len(self._waiting) + self._busy
                self._waiting.clear()
            self._changed.notify_all()
        return done

    def _runs(self) -> bool:
        """Start the thread if it does not run, as after a fork; at the end none can start."""
        if self._thread is not None and self._thread.is_alive():
            return True
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="line writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
        return self._thread is not None

    # On the thread.

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            line, lost = waiting
            lost += self._failed
            try:
                gap = self._gap(lost) if lost and self._gap is not None else ""
                self._append(b"".join(self._encode(text) for text in (gap, line) if text))
            except Exception as error:  # noqa: BLE001 - a line that fails must not end the others
                self._failed = lost + bool(line)
                with self._changed:
                    self.lost += bool(line) and not self._closed
                self._tell(getattr(error, "strerror", None) or type(error).__name__)
            else:
                self._failed = 0

    def _next(self) -> _Waiting | None:
        """Return the next line to write; an empty one where only losses are to be noted."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._waiting and not self._closed:
                if self._overflowed and self._gap is not None:
                    self._waiting.append(_Waiting("", self._overflowed))
                    self._overflowed = 0
                else:
                    self._changed.wait()
            if not self._waiting:
                return None
            self._busy = True
            waiting = self._waiting.popleft()
            self._size -= len(waiting.line)
            return waiting

    def _append(self, line: bytes) -> None:
        """Write in one system call if possible: lines of two processes do not mix then."""
        data = b"\n" + line if self._torn else line
        while data:
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                room = select.poll()
                room.register(self._fd, select.POLLOUT)
                room.poll()
                continue
            data = data[written:]
            self._torn = bool(data)

    def _tell(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._on_loss(reason)


_log = logging.getLogger(__name__)
ENVIRONMENT_VARIABLE: Final = "CODEX_ACP_TRANSCRIPT"
"""Names the transcript where no ``--transcript`` was given."""
HAND_OVER_SECONDS: Final = 1.0
"""How long a line may hold up the program, once: a disk that takes longer has stopped."""
CLOSE_SECONDS: Final = 0.25
"""For what still waits when the program ends."""


def transcript_path(argument: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return where to write: ``--transcript`` wins over ``CODEX_ACP_TRANSCRIPT``.

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
        """Return the writer itself."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close it."""
        self.close()

    @property
    def lost(self) -> int:
        """Return how many entries could not be written."""
        return self._unwritable + self._lines.lost

    def write(self, entry: Entry) -> None:
        """Append one line; a subscriber of the transcript. Never raises for what the disk does."""
        if self._closed:
            return
        from codex_acp.transcript.events import to_json  # a log is written without a transcript

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
    """Return whether a process died while it wrote: the next line must not join its rest."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size == 0:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
