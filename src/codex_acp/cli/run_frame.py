"""The frame of a question on a terminal: rows that nobody but us can write, page by page.

Every row of a question begins with `MARK`, which is written out in all that others say
(`without_mark`) and reversed where the terminal can: control sequences of others never reach it.
Lines are cut into rows here, so that none goes on at the beginning of a row without the mark.
Must not know what is asked.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import east_asian_width

from codex_acp.cli.terminal import size_of, wants_colours
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

__all__ = ["MAX_ROWS", "Frame", "Pages"]

MARK: Final = "\u2503"
"""A heavy vertical line."""

PLAIN_MARK: Final = "#"
"""In place of it, for a terminal whose encoding does not have it."""

MAX_ROWS: Final = 1_000
"""Rows of a question that a person is led through; what is longer is not shown whole, and can
only be rejected."""

LEAST: Final = 8
"""Columns of text, and rows, that are counted on, however small the terminal says it is."""


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
        styled = wants_colours(stream)
        self._gutter = f"\x1b[7m{self._mark}\x1b[0m " if styled else f"{self._mark} "

    def encodable(self, text: str) -> str:
        """``text`` in characters that the stream has."""
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def without_mark(self, text: str) -> str:
        """``text`` of others, in which our mark is written out."""
        return text.translate(self._hidden)

    def pages(self, lines: Iterable[str], last: Iterable[str], prompts: Sequence[str]) -> Pages:
        """``lines``, then those of ``last`` on one page if they fit one, cut into pages.

        Lines are text of anybody, made visible here. The longest of ``prompts`` fits below each.
        """
        size = size_of(self._stream)
        columns = max(LEAST, size.columns - 3)  # the mark, a space, and the last column
        below = max(len(prompt) // columns + 1 for prompt in prompts)
        height = max(LEAST, size.lines) - below - 1
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

    def drawn(self, rows: Iterable[str]) -> str:
        """Rows as they are written, each with the mark."""
        return "".join(f"{self._gutter}{row}\n" for row in rows)

    def prompt(self, text: str) -> str:
        """A line of ours that the person's answer follows."""
        return f"{self._gutter}{text}"

    def _rows(self, lines: Iterable[str], columns: int) -> Iterator[str]:
        most = MAX_ROWS * columns + 1  # more than that is too much anyway
        for line in lines:
            yield from wrapped(self.encodable(self.without_mark(visible(line[:most]))), columns)


def wrapped(text: str, columns: int) -> Iterator[str]:
    """``text`` in rows; a character counts as at least the columns it can take."""
    start = used = 0
    for at, char in enumerate(text):
        width = 2 if east_asian_width(char) in "WF" else 1
        if used + width > columns:
            yield text[start:at]
            start, used = at, 0
        used += width
    yield text[start:]
