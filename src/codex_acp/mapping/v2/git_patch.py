"""The change of one file as a patch in git's own format.

Sources: git's documentation "Generating patch text with -p"; ``DiffPatchFormat`` of ACP v2, where
paths are absolute, without git's ``a/`` and ``b/``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, assert_never

if TYPE_CHECKING:
    from codex_acp.mapping.events.content import FileDiff

_PLAIN_NAME: Final = re.compile(r'[^\x00-\x1f\x7f"\\]+')
"""Names that git writes without quotation marks."""

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


def git_patch(diff: FileDiff) -> str | None:
    """The patch; None if its hunks are not known, or it has none and the file stays where it is."""
    old, new = _quoted(diff.moved_from or diff.path), _quoted(diff.path)
    head = f"diff --git {old} {new}\n"
    match diff.operation:
        case "add":
            return f"{head}new file mode 100644\n{_whole(diff, '/dev/null', new)}"
        case "delete":
            return f"{head}deleted file mode 100644\n{_whole(diff, old, '/dev/null')}"
        case "modify" if diff.patch is None and diff.after is not None:
            return f"{head}{_whole(diff, old, new)}"
        case "modify" | "move":
            moved = "" if diff.moved_from is None else f"rename from {old}\nrename to {new}\n"
            if not diff.patch:
                return f"{head}{moved}" if moved else None
            end = "" if diff.patch.endswith("\n") else "\n"
            return f"{head}{moved}--- {old}\n+++ {new}\n{diff.patch}{end}"
        case _:
            assert_never(diff.operation)


def _whole(diff: FileDiff, old: str, new: str) -> str:
    """Return the one hunk that has all of both texts; nothing if both are empty."""
    before, after = _lines("-", diff.before or ""), _lines("+", diff.after or "")
    if not (before or after):
        return ""
    head = f"--- {old}\n+++ {new}\n@@ -{_span(before)} +{_span(after)} @@\n"
    return f"{head}{''.join(before)}{''.join(after)}"


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    shown = "".join(c if c.isprintable() else _octal(c) for c in escaped)
    return f'"{shown}"'


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))


def _lines(sign: str, text: str) -> list[str]:
    """Each line of a whole file behind its sign; only ``\\n`` ends one."""
    parts = text.split("\n")
    last = parts.pop()
    lines = [f"{sign}{part}\n" for part in parts]
    return [*lines, f"{sign}{last}\n", _NO_NEWLINE] if last else lines


def _span(lines: list[str]) -> str:
    if not lines:
        return "0,0"
    count = len(lines) - (lines[-1] == _NO_NEWLINE)
    return "1" if count == 1 else f"1,{count}"
