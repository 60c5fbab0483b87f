"""PURE: lay out an agent's Markdown as rows of a terminal, block by block as the text arrives.

Rich makes the layout. No control character of the agent reaches the terminal: entities and HTML are
shown as they were written, and `visible_controls` filters the text for Rich and the rows from Rich.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from markdown_it import MarkdownIt
from rich.color import ColorSystem
from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from codex_acp.routing.display import visible_controls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from markdown_it.token import Token
    from rich.console import ConsoleOptions, RenderResult
    from rich.markdown import MarkdownElement

BLOCK_LIMIT: Final = 8 * 1024
"""Characters of a block; a longer block, and the text after it, are shown without a layout."""
CELL_LIMIT: Final = 2_000
"""Most cells of tables in a text with a layout: the parser adds missing cells to each row."""
BRACKET_LIMIT: Final = 500
"""Most opening brackets in a text with a layout: for each, the parser searches all the rest."""
PARSE_LIMIT: Final = 4 * BLOCK_LIMIT
"""Characters parsed without a complete block, above which a blank line causes no further parse."""
GROWTH: Final = 5 / 4
"""Factor by which an unfinished block grows until a line end causes a further parse."""
TAIL: Final = 60
"""Characters of an unfinished block that the live line shows."""
_PARSER: Final = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["strikethrough", "table"])
    .disable(["entity", "image", "reference"])
)
"""A parser that hides no text: without HTML, definitions of links and pictures."""
_SIGNS: Final = frozenset("\\`*_~#<>-+=|:[]().")
"""Characters that the layout may leave out, besides spaces."""
_DELIMITER_ROW: Final = re.compile(r"^[ \t>|:-]+$", re.MULTILINE)
"""The row of dashes below the head of a table."""
_ENDS_WITH_A_BLANK_LINE: Final = ("paragraph_open", "heading_open", "hr")
"""Types of blocks that no text after a blank line can change."""


class MarkdownText:
    """Lays out one message, whose text arrives in pieces."""

    def __init__(self) -> None:
        self._pending = ""
        """Text that is not shown yet."""
        self._without_layout = False
        self._has_rows = False
        self._parsed_size = 0
        """Characters parsed since a block was shown."""
        self._next_parse = 0
        """Length of the pending text from which on a line end causes a parse."""

    @property
    def tail(self) -> str:
        """Return the end of the text that is not shown yet, on one line."""
        return " ".join(self._pending[-TAIL:].split())

    def add(self, text: str, columns: int, *, coloured: bool) -> str:
        """Add a piece of text; return the rows of the blocks that are complete now."""
        size = BLOCK_LIMIT // 4  # a long text is parsed before the limit is reached
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        return "".join(self._add(piece, columns, coloured=coloured) for piece in pieces)

    def _add(self, text: str, columns: int, *, coloured: bool) -> str:
        self._pending += text
        shown = ""
        # A blank line may begin with the last character of the earlier text.
        has_blank_line = "\n\n" in self._pending[-len(text) - 1 :]
        has_grown = "\n" in text and len(self._pending) >= self._next_parse
        parse_is_due = has_grown or (has_blank_line and self._parsed_size < PARSE_LIMIT)
        if parse_is_due and not self._without_layout:
            if _is_costly(self._pending):
                self._without_layout = True
            else:
                end = _end_of_blocks(self._pending)
                self._parsed_size = 0 if end else self._parsed_size + len(self._pending)
                blocks, self._pending = self._pending[:end], self._pending[end:]
                self._next_parse = int(len(self._pending) * GROWTH)
                shown = self._lay_out(blocks, columns, coloured=coloured)
        self._without_layout |= len(self._pending) > BLOCK_LIMIT
        if self._without_layout:
            shown += visible_controls(self._pending)
            self._pending = ""
        return shown

    def rest(self, columns: int, *, coloured: bool) -> str:
        """Lay out the pending text, at the message's end or before a question; return the rows."""
        text, self._pending = self._pending, ""
        return self._lay_out(text, columns, coloured=coloured)

    def _lay_out(self, text: str, columns: int, *, coloured: bool) -> str:
        """Return the rows of blocks, after an empty row if there are rows above them."""
        if not text.strip():
            return ""
        gap = "\n" if self._has_rows else ""
        self._has_rows = True
        return gap + rendered(text, columns, coloured=coloured)


def rendered(text: str, columns: int, *, coloured: bool) -> str:
    """Return Markdown as rows of at most ``columns``, each with its line end. Text is returned as
    written if the layout would lose characters, or is costly."""
    text = visible_controls(text)
    as_written = text.rstrip("\n") + "\n"
    if _is_costly(text):
        return as_written
    console = Console(file=io.StringIO(), width=columns, color_system=None, legacy_windows=False)
    try:
        page = _Page(text)
        segments = list(console.render(page))
    except Exception:  # noqa: BLE001 - no text of a model may end the conversation
        return as_written
    if not _is_complete("".join(segment.text for segment in segments), text, page.parsed):
        return as_written
    rows = [_row(line, coloured=coloured) for line in Segment.split_lines(segments)]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        del rows[0]
    return "".join(f"{row}\n" for row in rows)


def _is_costly(text: str) -> bool:
    """Return whether ``text`` may have more table cells or brackets than the limits allow."""
    cells = 0
    for block in text.split("\n\n"):
        columns = max((row.count("|") + 1 for row in _DELIMITER_ROW.findall(block)), default=0)
        cells += columns * (block.count("\n") + 1)
    return cells > CELL_LIMIT or text.count("[") > BRACKET_LIMIT


def _is_complete(shown: str, text: str, parsed: Sequence[Token]) -> bool:
    """Return whether the person sees all: the parser has left out only signs of ``text``, and the
    layout nothing. A table may change the order, because cells are broken into lines."""
    kept = "".join(char for part in _texts(parsed) for char in part if not char.isspace())
    written = (char for char in text if not char.isspace() and char not in _SIGNS)
    if any(token.type == "table_open" for token in parsed):
        return _in_order(written, kept) and Counter(shown) >= Counter(kept)
    return _in_order(written, kept) and _in_order(kept, shown)


def _in_order(chars: Iterable[str], whole: str) -> bool:
    """Return whether ``whole`` has all ``chars`` in their order, perhaps with others between."""
    rest = iter(whole)
    return all(char in rest for char in chars)  # ``in`` uses up ``rest`` to the found character


def _texts(tokens: Iterable[Token]) -> Iterator[str]:
    """Yield all texts that the person must see, with numbers of lists, languages of code, links."""
    link = ""
    for token in tokens:
        if token.type in ("list_item_open", "fence"):
            yield token.info
        if token.children is None:
            yield token.content
        else:
            yield from _texts(token.children)
        if token.type == "link_open":
            link = str(token.attrGet("href"))
        elif token.type == "link_close":
            yield link


def _row(line: Iterable[Segment], *, coloured: bool) -> str:
    """Return one row without the spaces that Rich adds at its end."""
    pieces = [
        (visible_controls(segment.text), segment.style) for segment in line if not segment.control
    ]
    while pieces and not pieces[-1][0].rstrip(" "):
        pieces.pop()
    if pieces:
        pieces[-1] = (pieces[-1][0].rstrip(" "), pieces[-1][1])
    system = ColorSystem.STANDARD if coloured else None
    return "".join(
        text if style is None else style.render(text, color_system=system) for text, style in pieces
    )


def _end_of_blocks(text: str) -> int:
    """Return the index in ``text`` at which the blocks end that no further text can change."""
    # A token's map has the numbers of the block's lines. The token that ends a block has no map.
    blocks = [(t.type, t.map[0]) for t in _PARSER.parse(text) if t.level == 0 and t.map]
    if not blocks:
        return 0
    last_type, first_line = blocks[-1]
    if last_type in _ENDS_WITH_A_BLANK_LINE and text.endswith("\n\n"):
        return len(text)
    return sum(len(line) + 1 for line in text.split("\n")[:first_line])


class _Heading(Heading):
    """A heading on the left, without Rich's frame: only questions have a frame."""

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(CodeBlock):
    """Indented code below its language."""

    @classmethod
    def create(cls, _markdown: Markdown, token: Token) -> _Code:
        return cls(token.info, "")

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        if self.lexer_name:
            yield Text(self.lexer_name, style="dim", overflow="fold")
        yield Padding(
            Text(str(self.text).rstrip("\n"), style="cyan", overflow="fold"), (0, 0, 0, 2)
        )


class _Table(TableElement):
    """A table that breaks long cells into lines; Rich would cut them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _Page(Markdown):
    """A text that `_PARSER` parses, and Rich shows with the elements above."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "table_open": _Table,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _PARSER.parse(text)
