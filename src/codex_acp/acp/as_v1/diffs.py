"""PURE: a diff of version 2 as those of version 1: one for each hunk of its git patch.

Version 1 has the old and the new text of a file; a patch has of both what is around a change. A
change without a patch is told in words.
"""

from __future__ import annotations

import re
from typing import Any, Final

Json = dict[str, Any]

_FILE: Final = re.compile(r"^diff --git ", re.M)
_HUNK: Final = re.compile(r"^@@ .*$", re.M)
_NEW: Final = re.compile(r"^\+\+\+ (?:b/)?(.+?)\t?$", re.M)
_OLD: Final = re.compile(r"^--- (?:a/)?(.+?)\t?$", re.M)


def diffs(diff: Json) -> list[Json]:
    """Content of a tool call, for ``DiffToolCallContent`` of version 2."""
    hunks = _hunks(diff.get("patch"))
    found: list[Json] = []
    for change in diff.get("changes") or ():
        path = str(change.get("path", ""))
        own = [texts for name, texts in hunks if path == name or path.endswith(f"/{name}")]
        for old, new in own:
            made: Json = {"type": "diff", "path": path, "newText": new}
            if change.get("operation") != "add":
                made["oldText"] = old
            found.append(made)
        if not own:
            moved = f"{change['oldPath']} → " if "oldPath" in change else ""
            text = f"{change.get('operation')}: {moved}{path}"
            found.append({"type": "content", "content": {"type": "text", "text": text}})
    return found


def _hunks(patch: object) -> list[tuple[str, tuple[str, str]]]:
    """(file, (old text, new text)) of each hunk."""
    if not isinstance(patch, dict) or patch.get("format") != "git_patch":
        return []
    found = []
    for section in _FILE.split(str(patch.get("text", "")))[1:]:
        head, *bodies = _HUNK.split(section)
        name = _name(head)
        found += [(name, _texts(body)) for body in bodies]
    return found


def _name(head: str) -> str:
    new, old = _NEW.search(head), _OLD.search(head)
    if new is not None and new[1] != "/dev/null":
        return new[1]
    return old[1] if old is not None else ""


def _texts(body: str) -> tuple[str, str]:
    old: list[str] = []
    new: list[str] = []
    for line in body.split("\n")[1:]:
        sign, text = line[:1], line[1:]
        if sign in (" ", "-"):
            old.append(text)
        if sign in (" ", "+"):
            new.append(text)
    return _joined(old), _joined(new)


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
