"""The terminal that a person sits at: its size, what is typed there, and what is drawn on it.

Every row of a question begins with `MARK`, which is written out in all that others say
(`without_mark`) and reversed where the terminal can: control sequences of others never reach it.
Lines are cut into rows here, each with the mark and with the line's own prefix, so that no part of
what others wrote can look like a line of ours. Owns, too, how a command ends: by which signals, and
with which exit code. Must not know what is shown or asked.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias
from unicodedata import category, east_asian_width

from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import Self, TextIO

READ_SIZE: Final = 4096
USUAL_SIZE: Final = os.terminal_size((80, 24))
"""Of a terminal that does not say how large it is."""
REDRAW_SECONDS: Final = 0.2
"""After the terminal has changed: while a window is made larger it changes all the time."""


class Redraw(Exception):
    """The terminal has changed, or this program was continued: the question has to be drawn
    again."""


class LineReader:
    """Lines that a person types; without a thread, so that a settled question leaves none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._ready: asyncio.Event | None = None
        self._changed = False

    async def line(self) -> str | None:
        """Read the next line; None for Ctrl-D. Lines pasted at once are one, no answer. Raises
        Redraw."""
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

    @contextmanager
    def noticing_changes(self) -> Iterator[None]:
        """Have `line` raise Redraw, and `change` return, at a new size and when continued."""
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
    """Return columns and rows of the terminal that ``stream`` writes to."""
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
    """Return whether ``out`` is to have colours (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndSignals:
    """``with EndSignals() as ended:`` raises KeyboardInterrupt for these signals, too;
    ``ended.number`` is it."""

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        """Signal that the KeyboardInterrupt stands for."""
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number in _SIGNALS:
            before = self._before.pop(number)
            signal.signal(number, before if callable(before) else signal.SIG_DFL)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
            raise KeyboardInterrupt
        # asyncio has a way of its own to end on SIGINT, which lets tasks clean up.
        signal.raise_signal(signal.SIGINT)


# How a command ends: the exit codes that several have, and what one says that fails.

FAILED: Final = 1
"""It could not be done; an agent could not be started, died, or answered with an error."""
USAGE: Final = 2
"""Arguments that make no sense; the same as the parser's."""
SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""


def failed(command: str, error: object, code: int = USAGE) -> int:
    """Say on stderr what is wrong; the exit code."""
    sys.stderr.write(error_text(f"codex-acp-sdk {command}: error: {error}"))
    return code


def error_text(sentence: str) -> str:
    """Return a sentence as it is written to stderr: on a terminal broken between words."""
    return "".join(f"{row}\n" for line in sentence.split("\n") for row in rows_of(line, sys.stderr))


MARK: Final = "\u2503"
"""A heavy vertical line."""
PLAIN_MARK: Final = "#"
"""In place of it, for a terminal whose encoding does not have it."""
MAX_ROWS: Final = 1_000
"""Rows of a question that a person is led through; what is longer is not shown whole, and can
only be rejected."""
LEAST_COLUMNS: Final = 30
LEAST_ROWS: Final = 8
"""Of a window in which a question is asked: the longest prefix and prompt of ours have room."""
Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "cyan"]
_CODES: Final[dict[Style, str]] = {
    "": "", "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36",
}  # fmt: skip
_PICTURES: Final = range(0x1F000, 0x1FB00)
"""Emoji and the like: some terminals give two columns to those that Unicode calls narrow."""


class Line(NamedTuple):
    """A line of a question, of any length."""

    text: str
    """Of anybody: it is made visible when it is drawn."""
    prefix: str = ""
    """Ours, before each of its rows."""
    style: Style = ""
    continued: str | None = None
    """In place of the prefix, before all rows but its first; as long as that."""


class Pages(NamedTuple):
    """The rows of a question, a screenful each; ``whole`` unless there are more than `MAX_ROWS`."""

    pages: Sequence[Sequence[str]]
    rows: int
    whole: bool


class Frame:
    """The frame as it is drawn on ``stream``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        self._mark = MARK if self.encodable(MARK) == MARK else PLAIN_MARK
        self._hidden = {ord(self._mark): f"\u27e6U+{ord(self._mark):04X}\u27e7"}
        self.coloured: bool = wants_colours(stream)
        self._gutter = f"\x1b[7m{self._mark}\x1b[0m " if self.coloured else f"{self._mark} "

    def encodable(self, text: str) -> str:
        """Return ``text`` in characters that the stream has."""
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def without_mark(self, text: str) -> str:
        """Return ``text`` of others, in which our mark is written out."""
        return text.translate(self._hidden)

    def has_room(self) -> bool:
        """Return whether the window is large enough for a question."""
        size = size_of(self._stream)
        return size.columns >= LEAST_COLUMNS and size.lines >= LEAST_ROWS

    def pages(self, lines: Iterable[Line], last: Iterable[Line], prompts: Sequence[str]) -> Pages:
        """Cut ``lines`` and ``last`` into pages, below each of which the longest of ``prompts``
        fits."""
        size = size_of(self._stream)
        columns = max(LEAST_COLUMNS, size.columns) - 3  # the mark, a space, and the last column
        below = max(len(prompt) // columns + 1 for prompt in prompts)
        height = max(1, max(LEAST_ROWS, size.lines) - below - 1)
        body = list(itertools.islice(self._rows(lines, columns), MAX_ROWS + 1))
        if len(body) > MAX_ROWS:
            return Pages([body[:height]], len(body), whole=False)
        end = list(itertools.islice(self._rows(last, columns), MAX_ROWS + 1))
        pages = [body[at : at + height] for at in range(0, len(body), height)]
        if pages and len(pages[-1]) + len(end) <= height:
            pages[-1] = pages[-1] + end
        else:
            pages += [end[at : at + height] for at in range(0, len(end), height)]
        return Pages(pages, len(body) + len(end), whole=len(end) <= MAX_ROWS)

    def broken(self, sentence: str) -> str:
        """Return a sentence of ours as rows of any window, broken between words."""
        return "\n".join(rows_of(sentence, self._stream))

    def drawn(self, rows: Iterable[str]) -> str:
        """Return rows as they are written, each with the mark."""
        return "".join(f"{self._gutter}{row}\n" for row in rows)

    def prompt(self, text: str) -> str:
        """Return a line of ours that the person's answer follows."""
        return f"{self._gutter}{text}"

    def _rows(self, lines: Iterable[Line], columns: int) -> Iterator[str]:
        most = MAX_ROWS * columns + 1  # more than that is too much anyway
        for text, prefix, style, continued in lines:
            room = max(2, columns - len(prefix))  # a character takes two at most
            shown = self.encodable(self.without_mark(visible(text[:most])))
            for number, row in enumerate(wrapped(shown, room)):
                before = prefix if continued is None or not number else continued
                yield before + styled(row, style if self.coloured else "")


def styled(text: str, style: Style) -> str:
    """Return ``text``, which is visible already, in a style of ours."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text else text


def wrapped(text: str, columns: int) -> Iterator[str]:
    """Cut ``text`` into rows of at most so many columns on any terminal, between words where that
    leaves at least half of a row; nothing is lost."""
    start = used = 0
    word, before_word = 0, 0  # where the last word began, and the columns before it
    for at, char in enumerate(text):
        width = columns_of(char)
        if used + width > columns:
            if before_word * 2 < columns:
                word, before_word = at, used
            yield text[start:word]
            start, used = word, used - before_word
            before_word = 0
        used += width
        if char == " ":
            word, before_word = at + 1, used
    yield text[start:]


def columns_of(char: str) -> int:
    """Return the most columns that a character can take on any terminal; one that combines
    counts."""
    if char.isascii():
        return 1
    if ord(char) in _PICTURES or east_asian_width(char) in "WFA":
        return 2
    return 2 if category(char) == "Mc" else 1


# One line at the bottom of a terminal that says what runs, and for how long.

TICK_SECONDS: Final = 0.5
ERASED: Final = "\r\x1b[2K"
FRAMES: Final = "-\\|/"


class LiveLine:
    """``write`` puts text onto ``stream``, a terminal that knows control sequences; ``text``
    returns the words to show, safe already, or None."""

    def __init__(
        self, stream: TextIO, text: Callable[[], str | None], write: Callable[[str], None]
    ) -> None:
        self._stream = stream
        self._text = text
        self._write = write
        self._drawn = False
        self._words = ""
        self._since = 0.0
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def possible(stream: TextIO) -> bool:
        """Return whether ``stream`` is a terminal on which a line can be taken back."""
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def start(self) -> None:
        """Draw the line from now on, until `stop`."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def stop(self) -> None:
        """Take the line away for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hide()

    def hide(self) -> None:
        """Take the line away: something else is about to be written."""
        if self._drawn:
            self._drawn = False
            self._write(ERASED)

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        words = self._text()
        if words is None:
            self.hide()
            return
        if words != self._words:
            self._words, self._since = words, time.monotonic()
        self._ticks += 1
        seconds = int(time.monotonic() - self._since)
        shown = f"{FRAMES[self._ticks % len(FRAMES)]} {words}"
        took = f" {seconds}s" if seconds else ""
        room = max(1, size_of(self._stream).columns - 1 - len(took))
        style: Style = "dim" if wants_colours(self._stream) else ""
        self._drawn = True
        self._write(f"{ERASED}{styled(clipped(shown, room) + took, style)}")


def clipped(text: str, columns: int) -> str:
    """Return as much of one line as fits."""
    used = 0
    for at, char in enumerate(text):
        used += columns_of(char)
        if used > columns:
            return text[:at]
    return text
