"""Unified diffs are applied strictly: what fits is exact, and nothing else is applied."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.routing.changes import apply_hunks, first_changed_line, parse_hunks, reversed_hunks

TEXTS = st.lists(st.sampled_from(["a", "b", "", " ", "-x", "+y", "@@ -1 +1 @@", "\r", "\\ z"])).map(
    "\n".join
)


def unified(before: str, after: str, context: int = 1) -> str:
    """The hunks as Codex writes them: no file headers, a note for a missing newline."""
    old, new = _lines(before), _lines(after)
    lines = list(difflib.unified_diff(old, new, n=context))[2:]
    note = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else f"{line}{note}" for line in lines)


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


@given(before=TEXTS, after=TEXTS, context=st.integers(0, 3))
def test_what_a_diff_was_made_from_and_leads_to_is_found_both_ways(
    before: str, after: str, context: int
) -> None:
    hunks = parse_hunks(unified(before, after, context))
    if before == after:
        assert hunks is None
        return
    assert hunks is not None
    assert apply_hunks(hunks, before) == after
    assert apply_hunks(reversed_hunks(hunks), after) == before


@given(before=TEXTS, after=TEXTS, other=TEXTS)
def test_a_diff_that_applies_to_another_text_changes_only_its_own_lines(
    before: str, after: str, other: str
) -> None:
    hunks = parse_hunks(unified(before, after))
    if hunks is None:
        return
    result = apply_hunks(hunks, other)
    if result is not None:
        assert apply_hunks(reversed_hunks(hunks), result) == other


@given(st.text(alphabet="@-+ ,1\\\nab", max_size=40))
def test_no_text_is_too_strange_to_be_looked_at(text: str) -> None:
    hunks = parse_hunks(text)
    if hunks is not None:
        apply_hunks(hunks, "a\nb\n")
        assert first_changed_line(hunks) >= 1


@pytest.mark.parametrize(
    "diff",
    [
        "",
        "no diff\n",
        "@@ -1 +1 @@\n-a\n",
        "@@ -1 +1 @@\n-a\n+b\n+c\n",
        "@@ -1,2 +1,2 @@\n-a\n+b\n",
        "@@ -1 +1 @@\n-a\n+b\ntrailing\n",
        "@@ -1 +1 @@\n*a\n+b\n",
        "\\ No newline at end of file\n",
        "@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n",
        "@@ -99999999999 +1 @@\n-a\n+b\n",
    ],
)
def test_what_is_not_whole_hunks_is_no_diff(diff: str) -> None:
    assert parse_hunks(diff) is None


@pytest.mark.parametrize("text", ["b\na\n", "a", "\na\n", "", "a\r\n"])
def test_a_hunk_fits_where_it_says_or_nowhere(text: str) -> None:
    hunks = parse_hunks("@@ -1 +1 @@\n-a\n+b\n")
    assert hunks is not None
    assert apply_hunks(hunks, text) is None


def test_hunks_that_overlap_do_not_apply() -> None:
    hunks = parse_hunks("@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -2,1 +2,1 @@\n-b\n+c\n")
    assert hunks is not None
    assert apply_hunks(hunks, "a\nb\n") is None


def test_the_codex_form_of_a_missing_newline_is_read() -> None:
    diff = "@@ -1,2 +1,2 @@\n-hello\n-world\n\\ No newline at end of file\n+hello there\n+world\n"
    hunks = parse_hunks(diff)
    assert hunks is not None
    assert apply_hunks(hunks, "hello\nworld") == "hello there\nworld\n"
    assert apply_hunks(reversed_hunks(hunks), "hello there\nworld\n") == "hello\nworld"


@pytest.mark.parametrize(
    ("diff", "line"),
    [
        ("@@ -2,3 +2,4 @@\n two\n-three\n+THREE\n+3.5\n four\n", 3),
        ("@@ -0,0 +1,2 @@\n+a\n+b\n", 1),
        ("@@ -1,2 +0,0 @@\n-a\n-b\n", 1),
        ("@@ -5,1 +4,0 @@\n-a\n", 5),
        ("@@ -3,1 +3,2 @@\n a\n+b\n", 4),
    ],
)
def test_the_first_changed_line_is_one_of_the_text_after(diff: str, line: int) -> None:
    hunks = parse_hunks(diff)
    assert hunks is not None
    assert first_changed_line(hunks) == line
