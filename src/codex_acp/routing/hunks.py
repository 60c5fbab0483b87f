"""Hunks of a unified diff, and applying them to a text: strictly, forward or in reverse.

Nothing is searched for and nothing is guessed: a hunk fits where it says, line for line, or the
diff does not apply. Must not know files, items or updates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.ASCII)
_NO_NEWLINE: Final = "\\"
"""The first character of the line that says that the line before has no newline at its end."""


class Hunk(NamedTuple):
    """One hunk: the lines before and after, with their ends. Lines count from 1."""

    old_start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]


def parse_hunks(diff: str) -> list[Hunk] | None:
    """The hunks of a diff without file headers; None if it is anything else, or has none."""
    lines = _lines(diff)
    hunks: list[Hunk] = []
    at = 0
    while at < len(lines):
        header = _HEADER.match(lines[at])
        if header is None:
            return None
        found = _hunk(header, lines, at + 1)
        if found is None:
            return None
        hunk, at = found
        hunks.append(hunk)
    return hunks or None


def applied(hunks: Sequence[Hunk], text: str) -> str | None:
    """``text`` after the hunks; None if they do not fit it."""
    lines = _lines(text)
    after: list[str] = []
    at = 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old else hunk.old_start
        if start < at or tuple(lines[start : start + len(hunk.old)]) != hunk.old:
            return None
        if start > len(lines):
            return None
        after += lines[at:start]
        after += hunk.new
        at = start + len(hunk.old)
    after += lines[at:]
    if any(not line.endswith("\n") for line in after[:-1]):
        return None  # a line without an end in the middle: not what the diff was made from
    return "".join(after)


def reversed_hunks(hunks: Sequence[Hunk]) -> list[Hunk]:
    """Hunks that undo these."""
    return [Hunk(h.new_start, h.new, h.old_start, h.old) for h in hunks]


def first_changed_line(hunks: Sequence[Hunk]) -> int:
    """The first line (from 1, of the text after) that differs from the text before."""
    hunk = hunks[0]
    same = 0
    for old, new in zip(hunk.old, hunk.new, strict=False):
        if old != new:
            break
        same += 1
    start = hunk.new_start if hunk.new else hunk.new_start + 1
    return max(1, start + same)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only ``\\n`` ends one, as in a diff."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _hunk(header: re.Match[str], lines: list[str], at: int) -> tuple[Hunk, int] | None:
    """The hunk whose lines begin at ``at``, and where the next one begins."""
    old_start, old_count, new_start, new_count = (
        1 if part is None else int(part) for part in header.groups()
    )
    old: list[str] = []
    new: list[str] = []
    while len(old) < old_count or len(new) < new_count or _is_note(lines, at):
        if at >= len(lines):
            return None
        sign, line = lines[at][:1], lines[at][1:]
        if sign == _NO_NEWLINE:
            if not _strip_end(lines[at - 1][:1], old, new):
                return None
        elif not line.endswith("\n"):
            return None
        elif sign == " ":
            old.append(line)
            new.append(line)
        elif sign == "-":
            old.append(line)
        elif sign == "+":
            new.append(line)
        else:
            return None
        at += 1
    if (len(old), len(new)) != (old_count, new_count):
        return None
    return Hunk(old_start, tuple(old), new_start, tuple(new)), at


def _is_note(lines: list[str], at: int) -> bool:
    return at < len(lines) and lines[at].startswith(_NO_NEWLINE)


def _strip_end(sign: str, old: list[str], new: list[str]) -> bool:
    """Take the newline from the line that was read last; False if there is none to take from."""
    sides = {" ": (old, new), "-": (old,), "+": (new,)}.get(sign, ())
    for side in sides:
        side[-1] = side[-1].removesuffix("\n")
    return bool(sides)
