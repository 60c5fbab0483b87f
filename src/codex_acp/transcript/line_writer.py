"""Lines to a descriptor, written by a thread of its own: whoever hands one over is not held up.

A pipe that nobody reads and a stopped network disk take a write and never return from it. Owns
the thread, the bound on what waits, and the count of what is lost; a line is whole, or the next
one begins anew. Must not know what the lines say.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Whether all that was handed over is written, or lost, by then."""
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
        """Whether the thread runs now; after a fork it does not, nor can one start at the end."""
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
        """One system call in all but the worst case, so that lines of two processes do not mix."""
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
