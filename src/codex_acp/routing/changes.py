"""PURE: changes of files as a person sees them.

They are made from Codex's change and from looks at the disk: a `PathLook` says where a path led,
and what was there. Approvals and items (`mapping.item_calls`) use them. A diff has whole texts if
the file was read and the patch fits its text, forward or in reverse. Otherwise the diff has the
patch. A hunk fits only at its own line numbers, line for line. Must not touch the disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from codex_acp._record import NamedTuple
from codex_acp.codex._generated.models import (
    AddPatchChangeKind,
    DeletePatchChangeKind,
    UpdatePatchChangeKind,
)
from codex_acp.codex.approvals.running_items import (
    LOOK_ELSEWHERE,
    PathLook,
    entry_of,
    file_of,
    move_target,
    removed_paths,
)
from codex_acp.mapping.content import CallContent, FileDiff, Location, TextBlock
from codex_acp.routing.display import (
    TITLE_LIMIT,
    as_code,
    code_span,
    fenced,
    inline,
    is_plain,
    shortened,
    visible,
)
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codex_acp.codex._generated.models import FileUpdateChange


Looks: TypeAlias = "Mapping[str, PathLook]"
"""Path → where it leads on the disk, for each path that was looked at."""
WHOLE_TEXT_LIMIT: Final = 1_000_000
"""Characters of a file beyond which only its patch is shown."""
_TOO_LARGE: Final = "it is too large"
_PARTICIPLES: Final = {"Create": "new", "Replace": "replaced", "Delete": "deleted"}
"""Verb of a change → note of its file in a title that has another verb."""


class Change:
    """One file's change, with the looks at its paths. ``not_done``: Codex has not reported the
    change as done, so the file is probably as before. ``waiting``: Codex waits for an answer, so
    the file is certainly as before."""

    def __init__(
        self, change: FileUpdateChange, looks: Looks, *, not_done: bool, waiting: bool
    ) -> None:
        self._change = change
        self._looks = looks
        self._not_done = not_done
        self._waiting = waiting
        self.target: str | None = move_target(change)

    @property
    def replaced(self) -> PathLook | None:
        """Return the look at the file that an addition or a move replaces, if it replaces one."""
        look = self._looks.get(self.target or self._change.path)
        if look is None or not look.exists:
            return None
        if isinstance(self._change.kind, AddPatchChangeKind):
            if self._waiting:
                return look
            # If Codex added the file before the look, the look found the added text.
            new = self._change.diff
            added = look.text == new if look.text is not None else look.size == len(new.encode())
            return None if added else look
        if self.target in (None, self._change.path) or self._removes_itself:
            return None
        source = self._looks.get(self._change.path)
        # If Codex moved the file before the look, the look at the target found the moved file.
        moved = not self._waiting and (source is None or not source.exists)
        return None if moved else look

    @property
    def is_surprising(self) -> bool:
        """Return whether a file is lost without a deletion, or a link leads a path elsewhere."""
        paths = filter(None, (self._change.path, self.target))
        looks = {path: self._looks[path] for path in paths if path in self._looks}
        is_lost = self.replaced is not None or self._removes_itself
        return is_lost or bool(real_paths(looks, self._removed))

    @property
    def _removed(self) -> list[str]:
        """Return the paths that the change removes; the target of a removed link stays."""
        return removed_paths([self._change])

    @property
    def _removes_itself(self) -> bool:
        """Return whether a move leads to the file's own place: Codex then removes the file. A move
        removes the entry `PathLook.place`, and writes to `PathLook.real`, where links lead."""
        if self.target is None:
            return False
        return entry_of(self._looks, self._change.path) == file_of(self._looks, self.target)

    @property
    def _is_elsewhere(self) -> bool:
        """Return whether the change may be on another machine."""
        return self._looks.get(self._change.path) == LOOK_ELSEWHERE

    @property
    def verb(self) -> str:
        """Return the verb for the change of the file, for the beginning of a title."""
        kind = self._change.kind
        match kind:
            case AddPatchChangeKind():
                look = self._looks.get(self._change.path, PathLook())  # no look: `exists` is False
                if self.replaced is not None:
                    return "Replace"
                # A file that is there but not replaced was written by Codex before the look: like a
                # look with a problem, this does not show whether a file was there before.
                return "Write" if look.problem or look.exists else "Create"
            case DeletePatchChangeKind():
                return "Delete"
            case UpdatePatchChangeKind():
                if self.target is None:
                    return "Edit"
                if self._removes_itself:
                    return "Delete"
                return "Edit and move" if patch_of(self._change) else "Move"
            case UnknownVariant():
                return "Change"
            case _:
                assert_never(kind)

    def title_part(self, write: Callable[[str], str], *, mixed: bool) -> str:
        """Return the file for a title. ``write`` writes the file's path, perhaps only its name; the
        target of a move keeps its directories, because they may be all that changes. ``mixed``: the
        title has another verb than this change."""
        path = self._change.path
        notes = _notes(self._looks, path, removed=bool(self._removed))
        if mixed and self.verb in _PARTICIPLES:
            notes.insert(0, _PARTICIPLES[self.verb])
        if isinstance(self._change.kind, AddPatchChangeKind):
            notes += self._unread_notes()
        if self._removes_itself:
            notes.append(self._own_place_note)
        shown = f"{write(path)}{_in_brackets(notes)}"
        if self.target is None or self._removes_itself:
            return shown
        target = f"{shown_path(self.target)}{_in_brackets(_notes(self._looks, self.target))}"
        if self.replaced is not None:
            target += f", replacing it{_in_brackets(self._unread_notes())}"
        return f"{shown} {'moved ' if mixed else ''}to {target}"

    def content(self) -> list[CallContent]:
        """Return the change as diffs, and texts for what diffs cannot show. A diff keeps its
        invisible characters, because a client may apply the diff; a text writes them out."""
        change, kind = self._change, self._change.kind
        diffs: list[CallContent]
        match kind:
            case AddPatchChangeKind() if self._is_elsewhere:
                # No diff: a diff without an old text says that no file was there.
                return [_written_out(change, change.diff, ""), *self._notes_as_text()]
            case AddPatchChangeKind():
                replaced = self.replaced
                diffs = [
                    FileDiff(change.path, "add", after=change.diff)
                    if replaced is None
                    else FileDiff(change.path, "modify", _text_within_limit(replaced), change.diff)
                ]
            case DeletePatchChangeKind():
                diffs = [FileDiff(change.path, "delete", before=change.diff)]
            case UpdatePatchChangeKind():
                diffs = self._edit_diffs()
            case UnknownVariant():
                return [_written_out(change, change.diff, "diff"), *self._notes_as_text()]
            case _:
                assert_never(kind)
        # If the patch does not parse, `_edit_diffs` has written it out as the `FileDiff.text`.
        if not any(isinstance(part, FileDiff) and part.text for part in diffs):
            text = change.diff
            if "\r" in text:  # ten times faster than a `replace` that finds nothing
                text = text.replace("\r\n", "\n")
            if not (is_plain(change.path) and is_plain(text, multiline=True)):
                heading = "With its invisible characters written out:"
                diffs.append(_written_out(change, text, "", heading))
        return [*diffs, *self._notes_as_text()]

    def locations(self) -> list[Location]:
        """Return the paths of the change, as named and where they really lead; none if the change
        may be on another machine, because a client opens files of this machine."""
        if self._is_elsewhere:
            return []
        paths = [path for path in (self._change.path, self.target) if path is not None]
        removed = self._removed
        real = [leads_to(self._looks, path, removed=path in removed) for path in paths]
        paths += [path for path in real if path is not None]
        line = None
        match self._change.kind:
            case AddPatchChangeKind():
                line = 1
            case UpdatePatchChangeKind():
                hunks = parse_hunks(patch_of(self._change))
                line = None if hunks is None else first_changed_line(hunks)
        return [Location(path) if line is None else Location(path, line) for path in paths]

    def summary(self) -> dict[str, object]:
        """Return the change without its text, as JSON for the raw input of a tool call."""
        kind = self._change.kind
        summary: dict[str, object] = {
            "path": self._change.path,
            "kind": kind.wire().get("type") if isinstance(kind, UnknownVariant) else kind.type,
        }
        if self.target is not None:
            summary["movePath"] = self.target
        if self.replaced is not None:
            summary["replaces"] = self.target or self._change.path
        return summary

    def _edit_diffs(self) -> list[CallContent]:
        """Return the diffs of an edit or a move, and the old text of a file that is replaced."""
        change, target, replaced = self._change, self.target, self.replaced
        texts, patch = self._texts(), patch_of(change)
        before, after = texts or (None, None)
        if self._removes_itself:
            return [] if before is None else [FileDiff(change.path, "delete", before)]
        replaced_text = None if replaced is None else _text_within_limit(replaced)
        if target is not None and replaced is not None and texts is not None:
            return [  # a move onto another file: an edit of that file, and a removal of the source
                FileDiff(target, "modify", replaced_text, after),
                FileDiff(change.path, "delete", before),
            ]
        unreadable = texts is None and parse_hunks(patch) is None
        text = _written_out(change, patch, "diff") if unreadable else None
        if target is None:
            return [FileDiff(change.path, "modify", before, after, patch, text=text)]
        moved = FileDiff(target, "move", before, after, patch, moved_from=change.path, text=text)
        if replaced_text is None:
            return [moved]
        heading = f"{shown_path(target)} is replaced. Its old text:"
        return [moved, code_content(replaced_text, heading=heading)]

    def _texts(self) -> tuple[str, str] | None:
        """Return the file's text before and after the edit; None if one of them is not certain. A
        look may have found the text before the edit or after it: try both directions."""
        at_source = self._looks.get(self._change.path, PathLook()).text
        at_target = self._looks.get(self.target or self._change.path, PathLook()).text
        patch = patch_of(self._change)
        if not patch:  # a move without an edit
            text = at_target if at_source is None else at_source
            return None if text is None or len(text) > WHOLE_TEXT_LIMIT else (text, text)
        hunks = parse_hunks(patch)
        if hunks is None:
            return None
        after = None if at_source is None else apply_hunks(hunks, at_source)
        before = None if at_target is None else apply_hunks(reversed_hunks(hunks), at_target)
        candidates = []  # in order: for a look before the edit, and for a look after it
        if at_source is not None and after is not None:
            candidates.append((at_source, after))
        if at_target is not None and before is not None:
            candidates.append((before, at_target))
        if not candidates:
            return None
        texts = candidates[0 if self._not_done else -1]
        return texts if max(map(len, texts)) <= WHOLE_TEXT_LIMIT else None

    @property
    def _own_place_note(self) -> str:
        """The note of a move that removes its file."""
        return f"moved to its own place, {shown_path(self.target or '', None)}, which removes it"

    def _unread_notes(self) -> list[str]:
        """Return the note why a replaced file's old text is not shown; none if it is shown."""
        replaced = self.replaced
        if replaced is None or _text_within_limit(replaced) is not None:
            return []
        return [f"its old text is not shown: {replaced.unread or _TOO_LARGE}"]

    def _notes_as_text(self) -> list[CallContent]:
        """Return the notes of the title, with uncut paths."""
        target = [] if self.target is None else [self.target]
        lines = place_lines(self._looks, [self._change.path, *target], self._removed)
        if self._removes_itself:
            lines.append(f"{shown_path(self._change.path, None)}: {self._own_place_note}")
        lines += [
            f"{shown_path(self.target or self._change.path)} is replaced: {why}"
            for why in self._unread_notes()
        ]
        return [TextBlock("\n\n".join(lines))] if lines else []


def changes_title(
    changes: Sequence[Change], write: Callable[[str], str], listed: Callable[[Sequence[str]], str]
) -> str:
    """Return a title with the verb and the files, counted if there are several. ``write`` writes a
    path. ``listed`` joins the files and may cut the list: files that surprise come first."""
    if not changes:
        return "Edit files"
    verbs = {change.verb for change in changes}
    verb = verbs.pop() if len(verbs) == 1 else "Change"
    parts = [
        change.title_part(write, mixed=verb != change.verb)
        for change in sorted(changes, key=lambda change: not change.is_surprising)
    ]
    if len(parts) == 1:
        return f"{verb} {parts[0]}"
    return f"{verb} {len(parts):,} files: {listed(parts)}"


def shown_path(path: str, limit: int | None = TITLE_LIMIT) -> str:
    """Return a path as text. A path with a space could look like a note, so it always becomes code.
    Any other path becomes code only if Markdown would change it."""
    shown = visible(path) if limit is None else shortened(visible(path), limit)
    return code_span(shown) if " " in shown else as_code(shown)


def leads_to(looks: Looks, path: str, *, removed: bool = False) -> str | None:
    """Return where links in a path lead; None if they lead to the path as named, or if unknown.
    ``removed``: the change removes the path."""
    look = looks.get(path)
    if look is None or look.problem:
        return None
    real = look.place if removed else look.real  # a removal of a link leaves the link's target
    return None if real == look.named else real


def place_notes(looks: Looks, path: str) -> str:
    """Return in brackets where links in a path lead; "" if they lead to the path as named."""
    return _in_brackets(_notes(looks, path))


def place_lines(looks: Looks, paths: Iterable[str], removed: Sequence[str] = ()) -> list[str]:
    """Return a line for each path in which links lead elsewhere."""
    return [
        f"{shown_path(path, None)}: {', '.join(notes)}"
        for path in dict.fromkeys(paths)
        if (notes := _notes(looks, path, removed=path in removed))
    ]


def real_paths(looks: Looks, removed: Sequence[str] = ()) -> dict[str, str]:
    """Map each path that links lead elsewhere to its real path, or to why no real path is known."""
    places = {}
    for path, look in looks.items():
        real = leads_to(looks, path, removed=path in removed)
        if look.problem or real is not None:
            places[path] = real or look.problem
    return places


def patch_of(change: FileUpdateChange) -> str:
    """Return the hunks of an edit, without the target of a move that Codex writes after them."""
    target = move_target(change)
    return change.diff.removesuffix(f"\n\nMoved to: {target}") if target else change.diff


def _notes(looks: Looks, path: str, *, removed: bool = False) -> list[str]:
    look = looks.get(path)
    if look is None:
        return []
    if look.problem:
        return [look.problem]
    real = leads_to(looks, path, removed=removed)
    notes = [] if real is None else [f"really {shown_path(real, None)}"]
    if removed and look.real != look.place:
        notes.append(f"only the link to {shown_path(look.real, None)}")
    return notes


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


def _text_within_limit(look: PathLook) -> str | None:
    """Return the text of a file; None if it was not read or is too long to show."""
    return look.text if look.text is not None and len(look.text) <= WHOLE_TEXT_LIMIT else None


def _written_out(change: FileUpdateChange, text: str, language: str, *heading: str) -> TextBlock:
    """Return the text of a change as code, below the lines of ``heading`` and the paths."""
    lines = [*heading, inline(change.path)]
    target = move_target(change)
    if target is not None:
        lines.append(f"moved to {inline(target)}")
    return code_content(text, language, "\n".join(lines))


CONTENT_LIMIT: Final = 1_000_000
"""Characters of one piece of content: a longer one could freeze the client."""


def code_content(
    text: str, language: str = "", heading: str = "", limit: int = CONTENT_LIMIT
) -> TextBlock:
    """Return a foreign text as one code block, made visible, below ``heading``, which is ours. A
    text longer than ``limit`` characters is cut, with a note in the block."""
    head = f"{heading}\n" if heading else ""
    return TextBlock(head + fenced(shortened(visible(text, multiline=True), limit), language))


_HEADER: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.ASCII)
_NO_NEWLINE: Final = "\\"
"""First character of the line ``\\ No newline at end of file``, which is about the line before."""


class Hunk(NamedTuple):
    """One hunk: the lines before and after, with their newlines. Line numbers begin at 1."""

    old_start: int
    old: tuple[str, ...]
    new_start: int
    new: tuple[str, ...]


def parse_hunks(diff: str) -> list[Hunk] | None:
    """Return the hunks of a diff without file headers; None without hunks or with other lines."""
    lines = _lines(diff)
    hunks: list[Hunk] = []
    at = 0
    while at < len(lines):
        header = _HEADER.match(lines[at])
        if header is None:
            return None
        hunk_and_end = _read_hunk(header, lines, at + 1)
        if hunk_and_end is None:
            return None
        hunk, at = hunk_and_end
        hunks.append(hunk)
    return hunks or None


def apply_hunks(hunks: Sequence[Hunk], text: str) -> str | None:
    """Return ``text`` with the hunks applied; None if they do not fit."""
    lines = _lines(text)
    after: list[str] = []
    at = 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old else hunk.old_start  # `-N,0`: after line N
        fits = tuple(lines[start : start + len(hunk.old)]) == hunk.old
        if not fits or not at <= start <= len(lines):
            return None
        after += lines[at:start]
        after += hunk.new
        at = start + len(hunk.old)
    after += lines[at:]
    if any(not line.endswith("\n") for line in after[:-1]):
        return None  # only the last line can have no newline: the diff is of another text
    return "".join(after)


def reversed_hunks(hunks: Sequence[Hunk]) -> list[Hunk]:
    """Return the hunks that undo ``hunks``."""
    return [Hunk(h.new_start, h.new, h.old_start, h.old) for h in hunks]


def first_changed_line(hunks: Sequence[Hunk]) -> int:
    """Return the number of the first changed line in the text after, counted from 1."""
    hunk = hunks[0]
    same = 0
    for old, new in zip(hunk.old, hunk.new, strict=False):
        if old != new:
            break
        same += 1
    start = hunk.new_start if hunk.new else hunk.new_start + 1  # `+N,0`: after line N
    return max(1, start + same)


def _lines(text: str) -> list[str]:
    """Split ``text`` into lines with their newlines; only ``\\n`` ends a line, as in a diff."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _read_hunk(header: re.Match[str], lines: list[str], at: int) -> tuple[Hunk, int] | None:
    """Return the hunk whose lines begin at ``at``, and the index of the line after the hunk; None
    if the lines do not fit the header."""
    old_start, old_count, new_start, new_count = (
        1 if part is None else int(part) for part in header.groups()
    )
    old: list[str] = []
    new: list[str] = []
    sides = {" ": (old, new), "-": (old,), "+": (new,)}
    while (
        len(old) < old_count
        or len(new) < new_count
        or (at < len(lines) and lines[at].startswith(_NO_NEWLINE))  # about the last line
    ):
        if at >= len(lines):
            return None
        sign, line = lines[at][:1], lines[at][1:]
        if sign == _NO_NEWLINE:
            sign = lines[at - 1][:1]
            if sign not in sides:
                return None
            for side in sides[sign]:
                side[-1] = side[-1].removesuffix("\n")
        elif not line.endswith("\n") or sign not in sides:
            return None
        else:
            for side in sides[sign]:
                side.append(line)
        at += 1
    if (len(old), len(new)) != (old_count, new_count):
        return None
    return Hunk(old_start, tuple(old), new_start, tuple(new)), at
