"""An agent's Markdown on a terminal: laid out in rows, complete, and without any control of it."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from codex_acp.cli import markdown
from codex_acp.cli.markdown import BLOCK_LIMIT, MarkdownText, rendered

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

  print("**not bold**")

▌ quoted
"""


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_it_is_the_same_in_pieces_of_any_size(size: int) -> None:
    message = MarkdownText()
    pieces = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
    shown = "".join(message.add(piece, 38, coloured=False) for piece in pieces)
    assert shown + message.rest(38, coloured=False) == SHOWN


def test_a_block_is_shown_as_soon_as_it_is_complete_and_its_end_until_then() -> None:
    message = MarkdownText()
    assert message.add("One **two", 80, coloured=False) == ""
    assert message.tail == "One **two"
    assert message.add("** three.\n\n", 80, coloured=False) == "One two three.\n"
    assert message.tail == ""


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
