"""The terminal that a person sits at: its size, what is typed there, whether it has styles.

Must not know what is shown or asked.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import TextIO

READ_SIZE: Final = 4096

USUAL_SIZE: Final = os.terminal_size((80, 24))
"""Of a terminal that does not say how large it is."""


REDRAW_SECONDS: Final = 0.2
"""After the terminal has changed: while a window is made larger it changes all the time."""


class Redraw(Exception):
    """The terminal has changed, or this program was stopped and goes on: what is asked has to be
    drawn again."""


class LineReader:
    """Lines that a person types; without a thread, so that a settled question leaves none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._ready: asyncio.Event | None = None
        self._changed = False

    async def line(self) -> str | None:
        """The next line, without its end; None for the end of input (Ctrl-D). Raises Redraw.

        Several that were pasted at once are one, which answers nothing.
        """
        loop = asyncio.get_running_loop()
        data = b""
        while not data.endswith(b"\n"):
            self._ready = ready = asyncio.Event()
            loop.add_reader(self._fd, ready.set)
            try:
                await ready.wait()
            finally:
                self._ready = None
                loop.remove_reader(self._fd)
            if self._changed:
                self._changed = False
                raise Redraw
            try:
                more = os.read(self._fd, READ_SIZE)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return data.decode(errors="replace") or None
            data += more
        return data.decode(errors="replace").rstrip("\r\n")

    async def change(self) -> None:
        """Wait until the window changes its size, or this program is continued; read nothing."""
        self._ready = ready = asyncio.Event()
        try:
            await ready.wait()
        finally:
            self._ready = None
            self._changed = False

    def noticing_changes(self) -> AbstractContextManager[None]:
        """`line` raises Redraw when the window changes its size, or this program is continued, and
        `change` returns."""
        return self._noticing()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers: tuple[signal.Signals, ...] = (signal.SIGWINCH, signal.SIGCONT)
        try:
            for number in numbers:
                loop.add_signal_handler(number, loop.call_later, REDRAW_SECONDS, self._change)
        except (ValueError, RuntimeError):  # not the main thread, which alone hears of signals
            numbers = ()
        try:
            yield
        finally:
            self._changed = False
            for number in numbers:
                loop.remove_signal_handler(number)

    def drop(self) -> None:
        """Forget what was typed already: before a question is seen, nothing answers it."""
        import termios

        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)

    def _change(self) -> None:
        if self._ready is not None:
            self._changed = True
            self._ready.set()


def size_of(stream: TextIO) -> os.terminal_size:
    """Columns and rows of the terminal that ``stream`` writes to."""
    with suppress(OSError, ValueError, AttributeError):
        size = os.get_terminal_size(stream.fileno())
        if size.columns > 0 and size.lines > 0:
            return size
    return USUAL_SIZE


def rows_of(text: str, stream: TextIO, *, indent: int = 0) -> list[str]:
    """One line of text as it is written: on a terminal broken between words, and what goes on
    indented; a word that is longer than a row, such as an address, stays whole."""
    if not stream.isatty():
        return [text]
    return wrap(
        text,
        size_of(stream).columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [text]


def wants_colours(out: TextIO) -> bool:
    """On a terminal that knows them, unless the person said otherwise (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
