"""PURE: make foreign text safe and complete for a person's eyes (contract 3.8).

A character without a glyph of its own is written as its code point in ⟦ ⟧: control, bidirectional,
zero-width and other format characters, unpaired surrogates, line separators, every space but the
plain one, fillers, variation selectors, private-use and unassigned code points. A ⟦ of the text
becomes its code point, too. Thus texts with an invisible difference look different, and no text can
imitate the notation. Apply `visible` only once: a second call changes the ⟦ of the first.
Look-alikes that have a glyph stay.

Clients show text as Markdown, which can hide a part of it, show a label in place of a target, or
fetch an image. Foreign text is therefore shown as code: `inline` within a line, `block` on its own.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from unicodedata import category

from codex_acp._glyphs import has_glyph
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TITLE_LIMIT: Final = 4_000
"""Characters of a title; a longer one is cut, with a note. Real commands are far shorter."""
_OPEN: Final = "\u27e6"
_CLOSE: Final = "\u27e7"
_NEWLINE_SIGN: Final = "\u23ce"
_TAB_SIGN: Final = "\u21e5"
_MAX_REMEMBERED: Final = 4096
"""Characters that a translation table caches; a bound against hostile text."""
_JOINERS: Final = frozenset("\u00ad\u200b\u200c\u200d\u2060")
"""Soft hyphen, zero-width space, non-joiner and joiner, word joiner: they change no direction."""
_LAYOUT: Final = "\n\t"
"""Characters that may stay as they are where several lines are allowed."""
_CONTROLS: Final = tuple(map(chr, (*range(0x20), 0x7F)))
_CONTROLS_BUT_LINES: Final = tuple(c for c in _CONTROLS if c not in _LAYOUT)


def visible(text: str, *, multiline: bool = False) -> str:
    """Return ``text`` with every character that has no glyph written as ⟦U+XXXX⟧. Newlines and tabs
    stay if ``multiline``; otherwise they are shown as ⏎ and ⇥, on one line. A carriage return is
    always written out."""
    return text.translate(_LINES if multiline else _ONE_LINE)


def still_visible(text: str) -> str:
    """Make a text of several lines visible, some parts of which `visible` has returned. A ⟦ of the
    text stays and looks like notation: never use this for a text by which a person decides."""
    return visible(text, multiline=True).replace(_notation(ord(_OPEN)), _OPEN)


def visible_controls(text: str) -> str:
    """Make a long foreign text safe for a terminal, and change as little of it as possible.

    Keeps characters that `visible` writes out: every space, joiners and variation selectors (emoji
    and several scripts need them), private use, ⟦. Writes out control characters except newline and
    tab, and characters that change the direction or the lines of a text. Two texts may look the
    same: never use this for a text by which a person decides.
    """
    return text.translate(_CONTROLS_ONLY)


def is_plain(text: str, *, multiline: bool = False) -> bool:
    """Return whether every character of ``text`` has a glyph."""
    # No Python step for each character: a new file may have millions.
    if text.isascii():
        return not any(map(text.__contains__, _CONTROLS_BUT_LINES if multiline else _CONTROLS))
    return all(has_glyph(c) or (multiline and c in _LAYOUT) for c in set(text))


def shortened(text: str, limit: int) -> str:
    """Return the first ``limit`` characters (code points) of ``text``, and how many were cut."""
    if limit < 0:
        raise MisuseError(f"limit is {limit}; it must not be negative")
    if len(text) <= limit:
        return text
    cut = len(text) - limit
    return f"{text[:limit]}… [{cut:,} of {len(text):,} characters not shown]"


def inline(text: str, limit: int | None = TITLE_LIMIT) -> str:
    """Make a foreign text visible for a line of Markdown, as code if Markdown could change it."""
    return as_code(visible(text) if limit is None else shortened(visible(text), limit))


def as_code(shown: str) -> str:
    """Wrap visible text as code unless every dialect of Markdown shows the text unchanged."""
    unchanged = not shown or (
        _PLAIN_WORDS.fullmatch(shown) is not None and _MARKDOWN_SIGNS.search(shown) is None
    )
    return shown if unchanged else code_span(shown)


def code_span(text: str) -> str:
    """Wrap visible text in a code span, between runs of backticks that the text does not have."""
    mark = "`" * (max((len(run) for run in _BACKTICKS.findall(text)), default=0) + 1)
    space = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{mark}{space}{text}{space}{mark}"


def listed(parts: Sequence[str], limit: int = TITLE_LIMIT) -> str:
    """Join parts with commas, as many as fit in ``limit`` characters; count the rest."""
    length = 0
    for number, part in enumerate(parts):
        length += len(part) + 2
        if number and length > limit:
            return f"{', '.join(parts[:number])} and {len(parts) - number:,} more"
    return ", ".join(parts)


def fenced(text: str, language: str = "") -> str:
    """Wrap ``text`` in a Markdown code block that the text cannot end."""
    runs = _FENCE.findall(text) if "```" in text else []
    longest = max(map(len, runs), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def block(text: str, language: str = "") -> str:
    """Return a foreign text as a code block: made visible, and complete."""
    return fenced(visible(text, multiline=True), language)


def json_text(value: object) -> str:
    """Return JSON as text, indented if it is short. In a long one, each of 100,000 values that
    stand 100 levels deep would begin with 200 spaces."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) > TITLE_LIMIT else json.dumps(value, indent=2, ensure_ascii=False)


def quoted_words(server: str, text: str) -> str:
    """Quote the whole text of an MCP server, each line marked so that no line passes as ours."""
    return f"{server_name(server)} says:\n{quotation(text)}"


def server_name(server: str) -> str:
    """Return the name of an MCP server for a sentence to the person."""
    return f'The MCP server "{inline(server)}"'


def quotation(text: str) -> str:
    """Return visible ``text`` in a code block, each line marked as a quotation."""
    lines = visible(text, multiline=True).split("\n")
    return fenced("\n".join(f"> {line}" for line in lines))


def _notation(code: int) -> str:
    return f"{_OPEN}U+{code:04X}{_CLOSE}"


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or category(char) in {"Zs", "Co"}


class _Translation(dict[int, str]):
    """A table for `str.translate` that adds a character when the character first occurs.
    ``is_shown`` gets a character, and returns whether the text keeps it."""

    def __init__(self, fixed: dict[int, str], is_shown: Callable[[str], bool] = has_glyph) -> None:
        super().__init__(fixed)
        self._is_shown = is_shown

    def __missing__(self, code: int) -> str:
        char = chr(code)
        shown = char if self._is_shown(char) else _notation(code)
        if len(self) < _MAX_REMEMBERED:
            self[code] = shown
        return shown


_FENCE: Final = re.compile(r"`{3,}")
_BACKTICKS: Final = re.compile(r"`+")
_PLAIN_WORDS: Final = re.compile(
    r"""["'(/.]?[^\W_](?:[^\W_]|[ ,.;'"()/?!%+…\u2013\u2014\u201c\u201d\u2018\u2019-]|:(?= |$))*"""
)
"""Words, and signs without a meaning in Markdown after the first word of a line."""
_MARKDOWN_SIGNS: Final = re.compile(r"\A\d+[.)](?: |\Z)|--|\.\.\.(?! |\Z)|  | \Z")
"""Parts of `_PLAIN_WORDS` that Markdown changes: a list's number, dashes, dots, lost spaces."""
_LINES: Final = _Translation({ord("\n"): "\n", ord("\t"): "\t", ord(_OPEN): _notation(ord(_OPEN))})
_ONE_LINE: Final = _Translation(
    {ord("\n"): _NEWLINE_SIGN, ord("\t"): _TAB_SIGN}
    | {ord(sign): _notation(ord(sign)) for sign in (_OPEN, _NEWLINE_SIGN, _TAB_SIGN)}
)
_CONTROLS_ONLY: Final = _Translation({ord(char): char for char in _LAYOUT}, _is_harmless)
