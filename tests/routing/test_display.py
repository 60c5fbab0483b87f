"""3.8: what a person sees is all there is: nothing invisible, nothing cut in silence."""

# ruff: noqa: RUF001 - look-alikes are what is tested

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.errors import MisuseError
from codex_acp.routing.display import (
    is_plain,
    quotation,
    quoted_words,
    server_name,
    shortened,
    visible,
    visible_controls,
)

ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Unpaired surrogates and unassigned code points included."""

NASTY = st.text(
    st.sampled_from("ab \n\t\r\x1b\u202e\u200b\u2028\ufeff\u00ad\ud800\ue000⟦⟧⏎⇥U+27E6")
)

DANGEROUS = {
    "escape": "\x1b",
    "null": "\0",
    "backspace": "\b",
    "carriage return": "\r",
    "delete": "\x7f",
    "C1 control": "\x9b",
    "next line": "\x85",
    "right-to-left override": "\u202e",
    "left-to-right isolate": "\u2066",
    "pop isolate": "\u2069",
    "Arabic letter mark": "\u061c",
    "zero-width space": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "tag letter": "\U000e0061",
    "variation selector": "\ufe0f",
    "variation selector supplement": "\U000e0100",
    "unpaired surrogate": "\ud83d",
    "private use": "\ue000",
    "noncharacter": "\uffff",
    "interlinear annotation": "\ufff9",
    "grapheme joiner": "\u034f",
    "Hangul filler": "\u3164",
    "Mongolian selector": "\u180b",
    "Braille blank": "\u2800",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "shorthand format": "\U0001bca0",
    "musical format": "\U0001d173",
}


BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.parametrize("char", DANGEROUS.values(), ids=DANGEROUS.keys())
@pytest.mark.parametrize("multiline", [True, False])
def test_3_8_a_character_without_a_glyph_is_written_out(char: str, multiline: bool) -> None:
    assert visible(f"a{char}b", multiline=multiline) == f"a⟦U+{ord(char):04X}⟧b"
    assert not is_plain(char, multiline=multiline)


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf ./build",
        "naïve – “quoted”",
        "漢字 かな 한글",
        "раураl",
        "שלום",
        "e\u0301",
        "🙂 <U+202E>",
    ],
)
def test_text_that_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == visible(text, multiline=True) == text
    assert is_plain(text)


def test_lines_are_kept_or_shown_on_one_line() -> None:
    assert visible("a\n\tb", multiline=True) == "a\n\tb"
    assert visible("a\n\tb") == "a⏎⇥b"
    assert is_plain("a\n\tb", multiline=True)
    assert not is_plain("a\nb")


def test_text_cannot_pretend_to_be_notation() -> None:
    for lines in (True, False):
        shown = visible("⟦U+202E⟧", multiline=lines)
        assert shown == "⟦U+27E6⟧U+202E⟧" != visible("\u202e", multiline=lines)
    assert visible("⏎") == "⟦U+23CE⟧" != visible("\n")
    assert visible("⇥") == "⟦U+21E5⟧" != visible("\t")


def test_3_8_no_code_point_of_a_dangerous_category_survives() -> None:
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    every = [chr(code) for code in range(0x110000)]
    shown = set(visible("".join(every)))
    assert [hex(ord(c)) for c in shown if unicodedata.category(c) in hidden] == []
    spaces = [c for c in every if unicodedata.category(c) == "Zs" and c != " "]
    assert [hex(ord(c)) for c in spaces if not visible(c).startswith("⟦U+")] == []


@given(ANY_TEXT | NASTY, st.booleans())
def test_3_8_nothing_hidden_is_left_in_any_text(text: str, multiline: bool) -> None:
    assert is_plain(visible(text, multiline=multiline), multiline=multiline)


def _read_back(shown: str) -> str:
    """The inverse of `visible`: it exists, so two texts never look the same."""
    signs = {"⏎": "\n", "⇥": "\t"}
    pattern = re.compile(r"⟦U\+([0-9A-F]{4,6})⟧|([⏎⇥])")
    return pattern.sub(lambda m: chr(int(m[1], 16)) if m[1] else signs[m[2]], shown)


@given(ANY_TEXT | NASTY)
def test_3_8_what_is_shown_on_one_line_can_be_read_back(text: str) -> None:
    assert _read_back(visible(text)) == text


@given((ANY_TEXT | NASTY).filter(lambda text: not set(text) & set("⏎⇥")))
def test_3_8_what_is_shown_on_several_lines_can_be_read_back(text: str) -> None:
    assert _read_back(visible(text, multiline=True)) == text


@given(NASTY, NASTY, st.booleans())
def test_3_8_different_texts_never_look_the_same(one: str, other: str, multiline: bool) -> None:
    same = visible(one, multiline=multiline) == visible(other, multiline=multiline)
    assert same is (one == other)


@pytest.mark.parametrize("around", ["", "a", "é", "中"])
@pytest.mark.parametrize("multiline", [False, True])
def test_3_8_text_is_plain_if_nothing_of_it_is_written_out(around: str, *, multiline: bool) -> None:
    notation = "⟦⏎⇥"  # has a glyph, and is written out to be told from ours
    for code in range(0x10000):
        char = chr(code)
        if char not in notation:
            shown = visible(char, multiline=multiline) == char
            assert is_plain(around + char, multiline=multiline) == shown, hex(code)


def test_a_cut_says_how_much_is_missing() -> None:
    assert (
        shortened("x" * 20_000, 7_655) == "x" * 7_655 + "… [12,345 of 20,000 characters not shown]"
    )
    assert shortened("abc", 3) == "abc"
    assert shortened("abc", 0) == "… [3 of 3 characters not shown]"
    with pytest.raises(MisuseError):
        shortened("abc", -1)


@given(st.text(), st.integers(0, 30))
def test_3_8_nothing_is_cut_silently(text: str, limit: int) -> None:
    short = shortened(text, limit)
    if short == text:
        assert len(text) <= limit
    else:
        match = re.fullmatch(r"(.*)… \[([\d,]+) of ([\d,]+) characters not shown\]", short, re.S)
        assert match is not None
        assert text.startswith(match[1])
        assert len(match[1]) + int(match[2].replace(",", "")) == len(text)
        assert int(match[3].replace(",", "")) == len(text)


@given(ANY_TEXT | NASTY)
def test_2_7_no_line_of_a_server_can_pass_as_ours(text: str) -> None:
    first, fence, *rest, end = quoted_words("notes", text).split("\n")
    assert set(fence) == {"`"} and fence == end  # noqa: PT018
    assert first == 'The MCP server "notes" says:'
    assert all(line.startswith("> ") for line in rest)
    assert "\n".join(line[2:] for line in rest) == visible(text, multiline=True)


def test_a_server_is_named_on_one_line() -> None:
    assert server_name("a\nb") == 'The MCP server "`a⏎b`"'
    assert quotation("") == "```\n> \n```"


@pytest.mark.parametrize(
    "text",
    [
        "plain, with\ttabs\nand lines",
        "\u2714\ufe0f done, \U0001f468\u200d\U0001f469\u200d\U0001f467, \u2764\ufe0f",
        "12\u00a0000\u202f€, un\u00adbreak\u200bable",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "a \ue0b0 prompt, \u27e6brackets\u27e7",
    ],
)
def test_prose_keeps_what_people_write(text: str) -> None:
    assert visible_controls(text) == text


@given(text=st.text())
def test_3_8_prose_cannot_steer_a_terminal(text: str) -> None:
    shown = visible_controls(text).replace("\n", "").replace("\t", "")
    for char in shown:
        assert unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp", "Cn"}
        assert unicodedata.bidirectional(char) not in BIDI_CONTROLS


@pytest.mark.parametrize(
    "char", ["\x1b", "\r", "\x07", "\x9b", "\u202e", "\u2066", "\u2028", "\ufeff"]
)
def test_3_8_what_would_steer_it_is_written_out(char: str) -> None:
    assert visible_controls(f"a{char}b") == f"a⟦U+{ord(char):04X}⟧b"
