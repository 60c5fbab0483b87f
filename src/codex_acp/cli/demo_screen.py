"""What ``codex-acp-sdk demo`` writes: stages with the time, streamed text, lines of the wire.

Owns the layout. Plain ASCII of its own; colours only on a terminal. Must not know what the
stages mean.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from codex_acp.cli.terminal import wants_colours

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from codex_acp.transport.connection import Direction

__all__ = ["Screen", "printable"]

_MARGIN: Final = " " * 21 + "| "
"""In front of what the other side wrote; below the stages' own text."""

_WIDTH: Final = 98
"""Columns for streamed text, which is wrapped between deltas."""

_ARROWS: Final[dict[Direction, str]] = {"sent": "-->", "received": "<--"}
"""Seen from the client: to the agent, from the agent."""

_BOLD, _DIM, _RED, _GREEN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


class Screen:
    """Writes to ``out`` at once; ``wire`` says whether lines of the wire are shown."""

    def __init__(self, out: TextIO, *, wire: bool = False) -> None:
        self._out = out
        self._wire = wire
        self._colours = wants_colours(out)
        self._start = time.monotonic()
        self._column = 0
        self.lost = False
        """Whether nobody reads ``out`` any more; then nothing more is written."""
        self.on_lost: Callable[[], None] | None = None
        """Called once when that is noticed. It is never raised: a callback could not pass it on."""

    def restart_clock(self) -> None:
        """Count the time of the stages from now on."""
        self._start = time.monotonic()

    def plain(self, text: str) -> None:
        """A line as it is."""
        self._end_text()
        self._write(f"{self._clean(text)}\n")

    def stage(self, name: str, text: str) -> None:
        """A step that has just happened."""
        self._end_text()
        seconds = f"{time.monotonic() - self._start:8.3f}"
        name = self._styled(f"{name:<11}", _BOLD)
        self._write(f"{self._styled(seconds, _DIM)} {name} {self._clean(text)}\n")

    def quote(self, text: str) -> None:
        """Lines that somebody else wrote."""
        self._end_text()
        for line in text.splitlines():
            self._write(f"{_MARGIN}{self._clean(line)}\n")

    def stream(self, text: str) -> None:
        """A piece of text, behind the piece before it. With ``wire`` its line was shown."""
        if self._wire:
            return
        for line_number, line in enumerate(self._clean(text).split("\n")):
            if line_number or not self._column or self._column + len(line.rstrip()) > _WIDTH:
                self._end_text()
                self._write(_MARGIN)
                self._column = len(_MARGIN)
            self._column += len(line)
            self._write(line)

    def wire(self, direction: Direction, line: bytes) -> None:
        """A line of the connection, as it is."""
        if self._wire:
            text = self._clean(line.decode("utf-8", "backslashreplace").strip())
            self._write(f"{self._styled(f'{_ARROWS[direction]} {text}', _DIM)}\n")

    def verdict(self, ok: bool, text: str) -> None:
        """How it went."""
        self._end_text()
        word = self._styled("OK", _GREEN) if ok else self._styled("FAILED", _RED)
        self._write(f"\n{word}: {self._clean(text)}\n")

    def _end_text(self) -> None:
        if self._column:
            self._column = 0
            self._write("\n")

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._colours else text

    def _clean(self, text: str) -> str:
        return printable(text, self._out.encoding or "utf-8")

    def _write(self, text: str) -> None:
        if self.lost:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self.lost = True
            if self.on_lost is not None:
                self.on_lost()


def printable(text: str, encoding: str = "utf-8") -> str:
    """The text without what could steer a terminal, in characters that ``encoding`` has."""
    safe = "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )
    return safe.encode(encoding, "backslashreplace").decode(encoding)
