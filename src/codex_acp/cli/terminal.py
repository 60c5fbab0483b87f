"""The terminal that a person sits at: its size, what is typed there, whether it has styles.

Must not know what is shown or asked.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["LineReader", "size_of", "wants_colours"]

READ_SIZE: Final = 4096

USUAL_SIZE: Final = os.terminal_size((80, 24))
"""Of a terminal that does not say how large it is."""


class LineReader:
    """Lines that a person types; without a thread, so that a settled question leaves none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd

    async def line(self) -> str | None:
        """The next line, without its end; None for the end of input (Ctrl-D).

        Several that were pasted at once are one, which answers nothing.
        """
        loop = asyncio.get_running_loop()
        data = b""
        while not data.endswith(b"\n"):
            ready = asyncio.Event()
            loop.add_reader(self._fd, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._fd)
            try:
                more = os.read(self._fd, READ_SIZE)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return data.decode(errors="replace") or None
            data += more
        return data.decode(errors="replace").rstrip("\r\n")

    def drop(self) -> None:
        """Forget what was typed already: before a question is seen, nothing answers it."""
        import termios

        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)


def size_of(stream: TextIO) -> os.terminal_size:
    """Columns and rows of the terminal that ``stream`` writes to."""
    with suppress(OSError, ValueError, AttributeError):
        size = os.get_terminal_size(stream.fileno())
        if size.columns > 0 and size.lines > 0:
            return size
    return USUAL_SIZE


def wants_colours(out: TextIO) -> bool:
    """On a terminal that knows them, unless the person said otherwise (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
