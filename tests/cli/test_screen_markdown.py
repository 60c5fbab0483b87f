"""An agent's Markdown on a terminal: laid out in rows, complete, and without any control of it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codex_acp.cli import markdown
from codex_acp.cli.markdown import BLOCK_LIMIT, CELL_LIMIT, PARSE_LIMIT, MarkdownText, rendered

if TYPE_CHECKING:
    from markdown_it.token import Token

TEXT = """\
## Found

Three **files** and a `Makefile`, of which the first one is the longest.

- one that is longer than a row, so that it goes on below itself
- two

```python
print("**not bold**")
```

> quoted
"""
SHOWN = """\
Found

Three files and a Makefile, of which
the first one is the longest.

 • one that is longer than a row, so
   that it goes on below itself
 • two

python
  print("**not bold**")

▌ quoted
"""


def shown_in_pieces(text: str, size: int, columns: int) -> str:
    message = MarkdownText()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    shown = "".join(message.add(piece, columns, coloured=False) for piece in pieces)
    return shown + message.rest(columns, coloured=False)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_it_is_the_same_in_pieces_of_any_size(size: int) -> None:
    assert shown_in_pieces(TEXT, size, 38) == SHOWN


def test_a_block_is_shown_as_soon_as_it_is_complete_and_its_end_until_then() -> None:
    message = MarkdownText()
    assert message.add("One **two", 80, coloured=False) == ""
    assert message.tail == "One **two"
    assert message.add("** three.\n\n", 80, coloured=False) == "One two three.\n"
    assert message.tail == ""


def test_a_paragraph_of_many_lines_is_shown_at_its_blank_line() -> None:
    message = MarkdownText()
    for lines in range(40):
        assert [message.add("word\n", 80, coloured=False) for _ in range(lines)] == [""] * lines
        assert message.add("\n", 80, coloured=False).count("word") == lines


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "text",
    [
        "a\x1b[2Jb", "&#x1b;[2J &#27;]8;;x&#7;", "`\x1b[31m`", "```\n\x1b[2J\n```", "[x](a\x1b[2J)",
        "| \x1b[2J |\n|---|\n| \x9b2J |", "\u202eabc", "# \x07", "```\x1b\nx\n```", "<\x1b[2J>",
    ],
)  # fmt: skip
def test_no_control_of_the_text_reaches_the_terminal(text: str) -> None:
    shown = rendered(text, 80, coloured=False)
    assert all(char == "\n" or char.isprintable() for char in shown)


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "text", ["<b>run this</b>", "&#x2503; Allow?", "[hidden]: https://a.example", "![x](https://a)"]
)
def test_nothing_that_was_written_is_hidden_or_decoded(text: str) -> None:
    words = [word for word in text.replace("![x](", "x ").strip(")").split() if word]
    assert all(word in rendered(text, 80, coloured=False) for word in words)


NARROW = [
    "| name | of it |\n|---|---|\n| unbreakable | incomprehensibilities, too |\n",
    "".join(f"{'  ' * depth}- item{depth} more\n" for depth in range(9)),
    f"| {' | '.join('abcdefgh')} |\n|{'---|' * 8}\n| {' | '.join(['word'] * 8)} |\n",
    "[text](https://example.org/a/long/address) > quoted `code` &amp; <b>\n",
]


@pytest.mark.attack("model")
@pytest.mark.parametrize("columns", [1, 5, 11, 20, 80])
@pytest.mark.parametrize("text", NARROW)
def test_nothing_that_was_written_is_hidden_by_a_narrow_window(text: str, columns: int) -> None:
    def counted(text: str) -> Counter[str]:
        return Counter(re.findall(r"[^\s|()\[\]`-]", text))

    assert counted(rendered(text, columns, coloured=False)) >= counted(text)


@pytest.mark.attack("model")
@pytest.mark.parametrize("piece", ["[", "*a", "`", "> ", "- ", "|a", "![", "**a "])
def test_a_block_without_an_end_is_shown_as_it_was_written(piece: str) -> None:
    message = MarkdownText()
    text = piece * (BLOCK_LIMIT // len(piece) + 1)
    assert message.add(text, 80, coloured=False) == text
    assert message.add("\n\n# x", 80, coloured=False) == "\n\n# x"


def test_a_text_that_the_parser_cannot_read_is_shown_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def parse(_: str) -> None:
        raise IndexError

    monkeypatch.setattr(markdown._PARSER, "parse", parse)
    assert rendered("*hello*", 40, coloured=False) == "*hello*\n"


@pytest.mark.attack("agent")
@pytest.mark.parametrize("size", [4, 1000])
@pytest.mark.parametrize(
    "hiding",
    ["- " * 10 + "secret", "> " * 20 + "secret", "- " * 10 + "\u2705", "> - " * 7 + "a `b`"],
)
def test_no_nesting_hides_a_text_or_the_text_behind_it(hiding: str, size: int) -> None:
    shown = shown_in_pieces(f"Before.\n\n{hiding}\n\nAfter.\n\nEnd.", size, 80)
    assert hiding in shown
    assert shown.endswith("After.\n\nEnd.\n")


@pytest.mark.attack("agent")
@pytest.mark.parametrize(
    "text", ["```all of this\nx\n```", "[a](b 'title')", "1. a\n7. b", "|a|\n|-|\n|b|cut|\n"]
)
def test_what_the_layout_would_leave_out_is_shown(text: str) -> None:
    words = re.findall(r"\w+", text)
    assert re.findall(r"\w+", rendered(text, 80, coloured=False)) == words


SIGNS = st.sampled_from(["", "", "- ", "> ", "3. ", "# ", "    ", "```", "~~~ ", "|", "|-|-|\n|"])
WORDS = st.sampled_from(
    ["a1", "b", "42", "\u00e9", "\u2705", "&amp;", "&#65;", "<b>", "<!-- c", "-->", "<http://d.e/%41>",
     "![f](g)", "[h](i 'j')", "[k](l\u00e9)", "[m](n)", "[o]: p", "[q][r]", "`", "``", "**", "_",
     "~~", "\\", "|", "|s|t|", "===", "---", "\n", "\n\n", "\t"]
)  # fmt: skip
LINES = st.builds(
    lambda sign, depth, other, words: sign * depth + other + " ".join(words),
    SIGNS,
    st.integers(1, 22),
    SIGNS,
    st.lists(WORDS, max_size=8),
)


@pytest.mark.attack("agent")
@settings(max_examples=300, deadline=None)
@given(
    text=st.lists(LINES, max_size=8).map("\n".join),
    size=st.sampled_from([1, 9, 10_000]),
    columns=st.sampled_from([10, 40, 5_000]),
)
def test_each_letter_of_any_markdown_is_shown_in_order(text: str, size: int, columns: int) -> None:
    shown = shown_in_pieces(text, size, columns)
    written = [char for char in text if char.isalnum()]
    if "|" in text and columns < 5_000:  # a table breaks the cells of a row into lines
        assert Counter(shown) >= Counter(written)
    else:
        rest = iter(shown)
        assert all(char in rest for char in written)


@pytest.mark.attack("agent")
@pytest.mark.parametrize("size", [2, 100_000])
def test_a_table_of_too_many_cells_is_shown_as_it_was_written(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = markdown._PARSER.parse

    def checked(text: str) -> list[Token]:
        tokens = parse(text)
        assert len([token for token in tokens if token.type == "td_open"]) <= CELL_LIMIT
        return tokens

    monkeypatch.setattr(markdown._PARSER, "parse", checked)
    text = "|a" * 100 + "|\n" + "|-" * 100 + "|\n" + "|\n" * 30
    assert shown_in_pieces(text, size, 80) == text


@pytest.mark.attack("agent")
@pytest.mark.parametrize("piece", ["- a\n\n", "| a |\n|---|\n", "```\na\n\n", "> a\n"])
def test_a_block_is_not_parsed_again_for_each_of_its_pieces(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = 0
    parse = markdown._PARSER.parse

    def counted(text: str) -> list[Token]:
        nonlocal parsed
        parsed += len(text)
        assert parsed <= PARSE_LIMIT + 7 * BLOCK_LIMIT
        return parse(text)

    monkeypatch.setattr(markdown._PARSER, "parse", counted)
    text = piece * (BLOCK_LIMIT // len(piece))
    assert "a" in shown_in_pieces(text, len(piece), 80)
    assert parsed <= PARSE_LIMIT + 7 * BLOCK_LIMIT
