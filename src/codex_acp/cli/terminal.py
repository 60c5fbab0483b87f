"""Read lines from the person's terminal, and draw questions in it.

Every row of a question begins with `MARK`, in reverse video if the terminal has colours. In an
agent's texts the mark is replaced (`Frame.without_mark`), and control characters are shown as
codes. `Frame` cuts each line into rows with the mark and the line's prefix, so that no part of an
agent's text can look like a line of this program. Also owns the signals and exit codes that end a
command. Must not know what is shown or asked.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias
from unicodedata import category, east_asian_width

from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType
    from typing import Self, TextIO

_STDIN: Final = 0
READ_SIZE: Final = 4096
"""Bytes of one read; a terminal's line has no more."""
USUAL_SIZE: Final = os.terminal_size((80, 24))
"""Size of a terminal that does not tell its size."""
REDRAW_SECONDS: Final = 0.2
"""Time between a change of the window's size and `Redraw`: a window being resized changes often."""


class Redraw(Exception):
    """Draw the question again: the window has a new size, or this program was continued."""


class LineReader:
    """Reads typed lines. Has no thread: a thread would outlive a settled question."""

    def __init__(self) -> None:
        self._ready: asyncio.Event | None = None
        """Set by input or a change; None while no method waits."""
        self._changed = False
        """Whether the window has a new size, or the program was continued."""

    async def read_line(self) -> str | None:
        """Read the next line; None for Ctrl-D. Several lines that are pasted at once are returned
        as one text. Raises Redraw."""
        loop = asyncio.get_running_loop()
        data = b""
        while not data.endswith(b"\n"):
            self._ready = ready = asyncio.Event()
            loop.add_reader(_STDIN, ready.set)
            try:
                await ready.wait()
            finally:
                self._ready = None
                loop.remove_reader(_STDIN)
            if self._changed:
                self._changed = False
                raise Redraw
            try:
                more = os.read(_STDIN, READ_SIZE)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return data.decode(errors="replace") or None
            data += more
        return data.decode(errors="replace").rstrip("\r\n")

    async def until_changed(self) -> None:
        """Wait until the window has a new size, or this program is continued."""
        self._ready = ready = asyncio.Event()
        try:
            await ready.wait()
        finally:
            self._ready = None
            self._changed = False

    @contextmanager
    def noticing_changes(self) -> Iterator[None]:
        """Within the block, a change ends `read_line` (by Redraw) and `until_changed`."""
        loop = asyncio.get_running_loop()
        numbers: tuple[signal.Signals, ...] = (signal.SIGWINCH, signal.SIGCONT)
        try:
            for number in numbers:
                loop.add_signal_handler(number, loop.call_later, REDRAW_SECONDS, self._note_change)
        except (ValueError, RuntimeError):  # only the main thread can handle signals
            numbers = ()
        try:
            yield
        finally:
            self._changed = False
            for number in numbers:
                loop.remove_signal_handler(number)

    def discard_typed(self) -> None:
        """Discard typed input, so that nothing typed before a question answers it."""
        import termios

        with suppress(termios.error):
            termios.tcflush(_STDIN, termios.TCIFLUSH)

    def _note_change(self) -> None:
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
    """Break one line between words into rows of the terminal; indent all rows but the first. A word
    that is longer than a row, such as a URL, stays whole. If ``stream`` is no terminal, the line
    stays one row."""
    if not stream.isatty():
        return [text]
    rows, used, columns = [""], 0, size_of(stream).columns
    text = text.rstrip(" ")  # spaces without a word after them would take quadratic time
    for spaces, word in re.findall("( *)([^ ]+)", text):
        width = sum(map(columns_of, word))
        used += len(spaces) + width
        if rows[-1] and used > columns:
            rows.append(" " * indent + word)
            used = indent + width
        else:
            rows[-1] += spaces + word
    return rows


def wants_colours(out: TextIO) -> bool:
    """Return whether to write colours to ``out`` (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class EndSignals:
    """``with EndSignals() as ended:`` makes SIGTERM and SIGHUP raise KeyboardInterrupt, too."""

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        """Number of the signal that raised the KeyboardInterrupt."""
        self._earlier_handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._earlier_handlers[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number in _SIGNALS:
            handler = self._earlier_handlers.pop(number)
            signal.signal(number, handler if callable(handler) else signal.SIG_DFL)

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job
            raise KeyboardInterrupt
        # asyncio's handler of SIGINT lets tasks clean up.
        signal.raise_signal(signal.SIGINT)


# Exit codes of several commands, and the message of a command that fails.

FAILED: Final = 1
"""Exit code if the command failed: the agent could not be started, ended, or returned an error."""
USAGE: Final = 2
"""Exit code for invalid arguments; the parser exits with it, too."""
SIGNALLED: Final = 128
"""Added to a signal's number: the exit code after a signal, as in shells."""


def print_error(command: str, error: object, code: int = USAGE) -> int:
    """Print an error to stderr; return the exit code."""
    sys.stderr.write(error_text(f"codex-acp-sdk {command}: error: {error}"))
    return code


def error_text(sentence: str) -> str:
    """Return a sentence with a line end. Control characters, perhaps of a file's name, are shown as
    codes. If stderr is a terminal, the sentence is broken between words."""
    return "".join(f"{row}\n" for row in rows_of(visible(sentence), sys.stderr))


MARK: Final = "\u2503"
"""A heavy vertical line."""
PLAIN_MARK: Final = "#"
"""Mark for a terminal whose encoding does not have `MARK`."""
_PLAIN_GUTTER: Final = re.compile(rf"{PLAIN_MARK}(?=[\s\xad\x1b]|\Z)")
"""Matches `PLAIN_MARK` before a blank, a style, or the end of a text that may go on. A terminal may
break a long line there, so that a row begins with the mark."""
MAX_ROWS: Final = 1_000
"""Most rows of a question; a longer question is not shown whole, and can only be rejected."""
LEAST_COLUMNS: Final = 30
LEAST_ROWS: Final = 8
"""Smallest window in which a question is asked: the longest prefix and prompt have room in it."""
Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "cyan"]
_CODES: Final[dict[Style, str]] = {
    "": "", "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36",
}  # fmt: skip
_PICTURES: Final = range(0x1F000, 0x1FB00)
"""Emoji and other pictures: some terminals use two columns for each, whatever Unicode says."""


class Line(NamedTuple):
    """A line of a question, of any length."""

    text: str
    """Text, also of an agent: `Frame` shows control characters as codes."""
    prefix: str = ""
    """Text of this program before each row of the line."""
    style: Style = ""
    continued: str | None = None
    """Prefix of all rows but the first, of the same length; None for ``prefix``."""


class Pages(NamedTuple):
    """The rows of a question, cut into pages of the window's height."""

    pages: Sequence[Sequence[str]]
    rows: int
    """Number of rows on all pages."""
    whole: bool
    """Whether the pages have all rows: not more than `MAX_ROWS`."""


class Frame:
    """Draws questions with their mark, for the terminal of ``stream``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        self._mark = MARK if self._with_codes(MARK) == MARK else PLAIN_MARK
        self.coloured: bool = wants_colours(stream)
        self._gutter = f"\x1b[7m{self._mark}\x1b[0m " if self.coloured else f"{self._mark} "

    def _with_codes(self, text: str) -> str:
        """Replace each character that the stream's encoding does not have by a code."""
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def without_mark(self, text: str) -> str:
        """Replace the mark by its code in an agent's text; `PLAIN_MARK` only before a blank."""
        if self._mark == MARK:
            return text.replace(MARK, f"\u27e6U+{ord(MARK):04X}\u27e7")
        return _PLAIN_GUTTER.sub(rf"\\x{ord(PLAIN_MARK):x}", text)

    def has_room(self) -> bool:
        """Return whether the window is large enough for a question."""
        size = size_of(self._stream)
        return size.columns >= LEAST_COLUMNS and size.lines >= LEAST_ROWS

    def pages(self, lines: Iterable[Line], last: Iterable[Line], prompts: Sequence[str]) -> Pages:
        """Cut ``lines`` and ``last`` into pages with room for the longest of ``prompts`` below.
        ``last`` has the choices: its rows stay on one page if they fit."""
        size = size_of(self._stream)
        columns = max(LEAST_COLUMNS, size.columns) - 3  # the mark, a space, and the last column
        prompt_rows = max(len(prompt) // columns + 1 for prompt in prompts)
        height = max(1, max(LEAST_ROWS, size.lines) - prompt_rows - 1)  # a row stays free
        body = list(itertools.islice(self._rows(lines, columns), MAX_ROWS + 1))
        if len(body) > MAX_ROWS:
            return Pages([body[:height]], len(body), whole=False)
        choices = list(itertools.islice(self._rows(last, columns), MAX_ROWS + 1))
        pages = [body[at : at + height] for at in range(0, len(body), height)]
        if pages and len(pages[-1]) + len(choices) <= height:
            pages[-1] = pages[-1] + choices
        else:
            pages += [choices[at : at + height] for at in range(0, len(choices), height)]
        return Pages(pages, len(body) + len(choices), whole=len(choices) <= MAX_ROWS)

    def in_rows(self, sentence: str) -> str:
        """Break a sentence of this program between words, for a window of any size."""
        return "\n".join(rows_of(sentence, self._stream))

    def drawn(self, rows: Iterable[str]) -> str:
        """Return rows with the mark and a line end."""
        return "".join(f"{self._gutter}{row}\n" for row in rows)

    def prompt(self, text: str) -> str:
        return f"{self._gutter}{text}"

    def _rows(self, lines: Iterable[Line], columns: int) -> Iterator[str]:
        most = MAX_ROWS * columns + 1  # characters of a line that is too long in any case
        for text, prefix, style, continued in lines:
            room = max(2, columns - len(prefix))  # a character takes at most two columns
            shown = self._with_codes(self.without_mark(visible(text[:most])))
            for number, row in enumerate(wrapped(shown, room)):
                is_first = number == 0
                row_prefix = prefix if is_first or continued is None else continued
                yield row_prefix + styled(row, style if self.coloured else "")


def styled(text: str, style: Style) -> str:
    """Add a style to a text without control characters."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text else text


def wrapped(text: str, columns: int) -> Iterator[str]:
    """Cut ``text`` into rows of at most ``columns`` on any terminal, without losing a character.
    A row that is at least half full ends between words."""
    row_start = used = 0
    word_start, used_before_word = 0, 0
    for at, char in enumerate(text):
        width = columns_of(char)
        if used + width > columns:
            if used_before_word * 2 < columns:  # cut within the word
                word_start, used_before_word = at, used
            yield text[row_start:word_start]
            row_start, used = word_start, used - used_before_word
            used_before_word = 0
        used += width
        if char == " ":
            word_start, used_before_word = at + 1, used
    yield text[row_start:]


def columns_of(char: str) -> int:
    """Return the most columns, at least one, that a character takes on any terminal."""
    if char.isascii():
        return 1
    # Wide, full-width and ambiguous characters; marks that take a column of their own (Mc).
    is_wide = east_asian_width(char) in "WFA" or category(char) == "Mc"
    return 2 if is_wide or ord(char) in _PICTURES else 1


# The live rows: the last rows of a terminal, which say what runs.

TICK_SECONDS: Final = 0.5
"""Time between two drawings of the rows."""


class LiveRows:
    """Draws rows on ``stream``, a terminal; ``write`` writes to ``stream``."""

    def __init__(self, stream: TextIO, write: Callable[[str], None]) -> None:
        self._stream = stream
        self._write = write
        self._drawn = 0
        """Number of rows that are on the terminal."""
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def possible(stream: TextIO) -> bool:
        """Return whether ``stream`` is a terminal that can erase a row."""
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def start(self, rows: Callable[[int], Sequence[str]]) -> None:
        """Draw ``rows`` every `TICK_SECONDS` until `stop`. ``rows`` gets the number of columns, and
        returns rows of at most this width without line ends, or no row to show nothing."""
        loop = asyncio.get_running_loop()

        def tick() -> None:
            self._timer = loop.call_later(TICK_SECONDS, tick)
            self._draw(rows)

        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, tick)

    def stop(self) -> None:
        """Erase the rows for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.hide()

    def hide(self) -> None:
        """Erase the rows until the next tick, before other output."""
        if self._drawn:
            self._write(self._take_erasure())

    def _draw(self, rows: Callable[[int], Sequence[str]]) -> None:
        """Draw the rows once, in place of the rows on the terminal."""
        size = size_of(self._stream)
        # The last column stays free, and rows higher than the window could not be erased.
        shown = rows(max(1, size.columns - 1))[: max(1, size.lines - 2)]
        if not shown:
            self.hide()
            return
        self._write(self._take_erasure() + "\n".join(shown))
        self._drawn = len(shown)

    def _take_erasure(self) -> str:
        """Return the control sequence that erases the drawn rows, and in any case the cursor's row.
        From now on, no row counts as drawn."""
        above, self._drawn = self._drawn - 1, 0
        return "\r\x1b[2K" + (f"\x1b[{above}A\x1b[J" if above > 0 else "")


def clipped(text: str, columns: int) -> str:
    """Return the beginning of ``text`` that fits into ``columns``."""
    used = 0
    for at, char in enumerate(text):
        used += columns_of(char)
        if used > columns:
            return text[:at]
    return text
