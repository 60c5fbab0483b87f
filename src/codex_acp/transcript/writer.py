"""Write the transcript to a file of JSON lines, and lines of a log to a descriptor.

Warns if a line cannot be written. Must not know the fields of events, which `to_json` writes. Does
not rotate files.
"""

from __future__ import annotations

import json
import logging
import os
import select
import stat
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from codex_acp._files import open_private
from codex_acp._record import NamedTuple
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codex_acp.transcript.events import Entry

MAX_WAITING: Final = 1024 * 1024
"""Most characters of lines that wait; a single line of any length may wait."""


class _WaitingLine(NamedTuple):
    """A line that waits, and the number of lines that were lost before it."""

    line: str
    lost_before: int


class LineWriter:
    """Appends lines to the descriptor ``fd`` in a thread, which starts with the first line.

    ``encode`` returns the bytes of a line with its line break, in the thread. ``on_loss`` is called
    with the reason, on any thread, when the first line is lost. ``gap`` gets the number of lost
    lines, and returns a line to write in their place. ``torn``: the file ends inside a line. Does
    not close ``fd``: call `close` before you close ``fd``. The program may end before the thread.
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
        self._waiting: deque[_WaitingLine] = deque()
        self._size = 0
        """Characters of the waiting lines."""
        self._busy = False
        """Whether the thread writes a line now."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self._overflowed = 0
        """Number of lines for which there was no room, since the last line that was accepted."""
        self._failed = 0
        """Number of lines that could not be written, since the last line that was written."""
        self._has_reported = False
        """Whether ``on_loss`` was called."""
        self.lost: int = 0
        """Number of all lost lines."""

    def put(self, line: str) -> None:
        """Pass a line to the thread, or lose the line if too many lines wait. Never waits."""
        with self._changed:
            if self._closed:
                return
            is_full = self._waiting and self._size + len(line) > MAX_WAITING
            if is_full or not self._start():
                self._overflowed += 1
                self.lost += 1
            else:
                self._waiting.append(_WaitingLine(line, self._overflowed))
                self._overflowed = 0
                self._size += len(line)
                self._changed.notify_all()
                return
        self._report("nobody takes them")

    def wait(self, seconds: float) -> bool:
        """Wait until no line waits any more; return False after ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy and not self._waiting, seconds)

    def close(self, seconds: float) -> bool:
        """Accept no more lines, and wait until no line waits. Return False after ``seconds``: then
        the waiting lines are lost, and the thread still uses the descriptor."""
        done = self.wait(seconds)
        with self._changed:
            self._closed = True
            if not done:
                self.lost += len(self._waiting) + self._busy
                self._waiting.clear()
            self._changed.notify_all()
        return done

    def _start(self) -> bool:
        """Start the thread unless it runs; return False if no thread can start (at the exit)."""
        if self._thread is not None and self._thread.is_alive():
            return True
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="line writer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None
        return self._thread is not None

    # Called in the thread.

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            line, lost_before = waiting
            lost = lost_before + self._failed
            try:
                gap = self._gap(lost) if lost and self._gap is not None else ""
                self._append(b"".join(self._encode(text) for text in (gap, line) if text))
            except Exception as error:  # noqa: BLE001 - a line that fails must not end the others
                newly_lost = 1 if line else 0  # an empty line only reports losses
                self._failed = lost + newly_lost
                with self._changed:
                    if not self._closed:
                        self.lost += newly_lost
                self._report(getattr(error, "strerror", None) or type(error).__name__)
            else:
                self._failed = 0

    def _next(self) -> _WaitingLine | None:
        """Wait for a line and return it, or an empty line if lines were lost and no line waits.
        Return None after `close`."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not self._waiting and not self._closed:
                if self._overflowed and self._gap is not None:
                    self._waiting.append(_WaitingLine("", self._overflowed))
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
        """Write in one system call if possible, so that the lines of two processes do not mix."""
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

    def _report(self, reason: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._on_loss(reason)


_log = logging.getLogger(__name__)
ENVIRONMENT_VARIABLE: Final = "CODEX_ACP_TRANSCRIPT"
"""Variable with the path of the transcript, if ``--transcript`` is not given."""
HAND_OVER_SECONDS: Final = 1.0
"""Seconds that `TranscriptWriter.write` waits for the system, unless the last line was late."""
CLOSE_SECONDS: Final = 0.25
"""Seconds to write the waiting lines when the program ends."""


def transcript_path(argument: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the path from ``--transcript``, or else from ``CODEX_ACP_TRANSCRIPT``; None if neither
    is set. An empty variable counts as not set."""
    from pathlib import Path  # here and below, because a log uses only `LineWriter`

    if argument is not None:
        return Path(argument)
    name = environ.get(ENVIRONMENT_VARIABLE)
    return Path(name) if name else None


class TranscriptWriter:
    """Appends entries to ``path``, one line each. The system has the line when `write` returns.

    Only the owner can read a new file; its folder must exist. Raises MisuseError if the file cannot
    be opened. A line that cannot be written is lost and raises nothing: the first loss is logged,
    and at the end the number of lost lines. Several processes may append to one file.

    If the system does not accept a line within a second (nobody reads a pipe, a disk hangs), this
    is logged. Then entries wait in memory until the system accepts lines again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from pathlib import Path

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
        self._lines = LineWriter(self._fd, str.encode, self._log_loss, torn=torn)
        self._unwritable = 0
        self._is_late = False
        """Whether the system did not accept the last line in time."""
        self._closed = False

    def __repr__(self) -> str:
        return f"TranscriptWriter({str(self._path)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def lost(self) -> int:
        """Return the number of entries that could not be written."""
        return self._unwritable + self._lines.lost

    def write(self, entry: Entry) -> None:
        """Append one line; pass this method to `Transcript.subscribe`. Never raises."""
        if self._closed:
            return
        from codex_acp.transcript.events import to_json

        try:
            text = json.dumps(to_json(entry.event, entry.time), allow_nan=False)
        except (ValueError, RecursionError) as error:
            self._unwritable += 1
            if self.lost == 1:
                self._log_loss(type(error).__name__)
            return
        # ASCII: control and bidirectional characters and lone surrogates are escaped.
        self._lines.put(text + "\n")
        was_late = self._is_late
        self._is_late = not self._lines.wait(0 if was_late else HAND_OVER_SECONDS)
        if self._is_late and not was_late:
            _log.warning(
                "the transcript %s takes no line; what comes now waits in memory and may be lost",
                self._path,
            )

    def close(self) -> None:
        """Close the file; later entries are ignored. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._lines.close(CLOSE_SECONDS):
            os.close(self._fd)
        if self.lost:
            _log.warning("the transcript %s lacks %d entries", self._path, self.lost)

    def _log_loss(self, reason: str) -> None:
        _log.error(
            "a line of the transcript %s was lost (%s); others are tried, but not reported again",
            self._path,
            reason,
        )


def _ends_inside_a_line(path: Path) -> bool:
    """Return whether the file ends inside a line, because a process ended while it wrote."""
    try:
        if not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size == 0:
            return False
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
