"""The end of a child's stderr, and its lines. Imports nothing: it is loaded before the spawn."""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Callable

TAIL_SIZE = 8 * 1024
"""Bytes kept for error messages: enough for a panic with its backtrace."""

LINE_SIZE = 8 * 1024
"""Bytes of a line that the callback gets, so that memory is bounded."""


class StderrTail:
    """Keeps the last 8 KiB, and gives each whole line to ``on_line`` if there is one."""

    __slots__ = ("_is_cut", "_line", "_on_line", "_skips", "_tail")

    def __init__(self, on_line: Callable[[str], None] | None) -> None:
        self._on_line = on_line
        self._tail = b""
        self._is_cut = False
        self._line = b""
        self._skips = False

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._is_cut = self._is_cut or len(self._tail) + len(data) > TAIL_SIZE
        self._tail = (
            (self._tail + data)[-TAIL_SIZE:] if len(data) < TAIL_SIZE else data[-TAIL_SIZE:]
        )
        if self._on_line is None:
            return
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            self._give(line)
        if len(self._line) > LINE_SIZE:
            self._give(self._line)
            self._skips = True
        if self._skips:
            self._line = b""

    def end(self) -> None:
        """The stream has ended; the rest is a line, too."""
        if self._line:
            self._give(self._line)
            self._line = b""

    def text(self) -> str:
        """The tail as plain text, with what is not UTF-8 replaced.

        From the beginning of a line on: who takes secrets out does not know the half of one.
        """
        tail = self._tail
        if self._is_cut:
            tail = tail.partition(b"\n" if b"\n" in tail[:-1] else b" ")[2]
        return _decoded(tail).strip()

    def _give(self, line: bytes) -> None:
        skips, self._skips = self._skips, False  # the rest of a line that was given before
        if self._on_line is None or skips:
            return
        if len(line) > LINE_SIZE:
            line = line[:LINE_SIZE].rpartition(b" ")[0]
        try:
            self._on_line(_decoded(line.rstrip(b"\r")))
        except Exception:
            import logging

            logging.getLogger(__name__).exception("the callback for a line of stderr failed")


def _decoded(data: bytes) -> str:
    from codex_acp.transport.plain_text import plain_text

    return plain_text(data.decode(errors="replace"))
