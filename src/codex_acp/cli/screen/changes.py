"""PURE: what changed in files: the lines of a change, and the sum of all changes of a prompt."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from codex_acp.acp.types import DiffToolCallContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codex_acp.cli.screen.frame import Style
    from codex_acp.runtime import ToolCall

CONTEXT: Final = 3

COMPARED: Final = 400
"""Lines that differ, up to which they are compared in depth: that takes their square."""


def diff_lines(old: str | None, new: str) -> Iterator[tuple[str, Style]]:
    """The lines that were removed and added, with some around them."""
    before, after = _lines(old or "", new)
    start, end = _common(before, after)
    if len(before) + len(after) - 2 * (start + end) > COMPARED:
        yield f"@@ from line {start + 1} @@", "cyan"
        yield from ((f"-{line}", "red") for line in before[start : len(before) - end])
        yield from ((f"+{line}", "green") for line in after[start : len(after) - end])
        return
    # What is alike at both ends is left out of the comparison, but for what is shown of it.
    skip, rest = max(0, start - CONTEXT), max(0, end - CONTEXT)
    before, after = before[skip : len(before) - rest], after[skip : len(after) - rest]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if old is not None:
            yield f"@@ line {skip + group[0][1] + 1} @@", "cyan"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from ((f" {line}", "dim") for line in before[i1:i2])
            else:
                yield from ((f"-{line}", "red") for line in before[i1:i2])
                yield from ((f"+{line}", "green") for line in after[j1:j2])


def counted(old: str | None, new: str) -> tuple[int, int]:
    """How many lines were added, and removed."""
    signs = [text[0] for text, _ in diff_lines(old, new)]
    return signs.count("+"), signs.count("-")


def summary(calls: Iterable[ToolCall]) -> Iterator[tuple[str, int, int, str]]:
    """For each file that was changed: its path, lines added and removed, ``new`` or ``deleted``.

    Several changes of a file are one: from what it was first to what it became last.
    """
    files: dict[str, tuple[str | None, str]] = {}
    for call in calls:
        if call.status != "completed":
            continue
        for content in call.content:
            if isinstance(content, DiffToolCallContent):
                first = files.get(content.path, (content.old_text, ""))[0]
                files[content.path] = (first, content.new_text)
    for path, (old, new) in files.items():
        added, removed = counted(old, new)
        yield path, added, removed, "new" if old is None else "" if new else "deleted"


def _lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """A last line that both end, or that the one which is not empty ends, counts as ended."""
    before, after = (text.split("\n") if text else [] for text in (old, new))
    if all(not lines or lines[-1] == "" for lines in (before, after)):
        before, after = before[:-1], after[:-1]
    return before, after


def _common(before: list[str], after: list[str]) -> tuple[int, int]:
    """How many lines are alike at the beginning, and how many of the rest at the end."""
    most = min(len(before), len(after))
    start = 0
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, end
