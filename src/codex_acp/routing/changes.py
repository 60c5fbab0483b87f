"""PURE: the change of one file as content of a tool call, from what Codex says of it alone.

Shared by what an approval shows and by what the mapping shows of an item. Must not know the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.codex._generated.models import (
    AddPatchChangeKind,
    DeletePatchChangeKind,
    UpdatePatchChangeKind,
)
from codex_acp.mapping.events.content import CallContent, FileDiff, TextBlock
from codex_acp.routing.content import code_content
from codex_acp.routing.display import inline, is_plain
from codex_acp.routing.hunks import parse_hunks
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import FileUpdateChange


def change_content(change: FileUpdateChange) -> list[CallContent]:
    """A new or deleted file as a whole, which Codex sends as its text; an edit as its hunks.

    A diff is data that a client may open or apply, so it stays as it is; what cannot be seen in
    it follows as text.
    """
    kind = change.kind
    match kind:
        case AddPatchChangeKind():
            return [FileDiff(change.path, "add", after=change.diff), *unseen(change)]
        case DeletePatchChangeKind():
            return [FileDiff(change.path, "delete", before=change.diff), *unseen(change)]
        case UpdatePatchChangeKind():
            if parse_hunks(patch_of(change)) is not None:
                return [edit(change), *unseen(change)]
            return [edit(change, text=_written_out(change, patch_of(change), "diff"))]
        case UnknownVariant():
            return [_written_out(change, change.diff, "diff")]
        case _:
            assert_never(kind)


def edit(
    change: FileUpdateChange,
    before: str | None = None,
    after: str | None = None,
    text: TextBlock | None = None,
) -> FileDiff:
    """The change of a file that was there before, with its whole texts if they are known."""
    target = move_target(change)
    if target is None:
        return FileDiff(change.path, "modify", before, after, patch_of(change), text=text)
    return FileDiff(target, "move", before, after, patch_of(change), change.path, text)


def unseen(change: FileUpdateChange) -> list[CallContent]:
    """The change with what is invisible in it written out; nothing if all can be seen."""
    text = change.diff
    if "\r" in text:  # which takes a tenth of the time to find out
        text = text.replace("\r\n", "\n")
    if is_plain(change.path) and is_plain(text, multiline=True):
        return []
    return [_written_out(change, text, "", "With its invisible characters written out:")]


def move_target(change: FileUpdateChange) -> str | None:
    """Where an edit moves the file to."""
    return change.kind.move_path if isinstance(change.kind, UpdatePatchChangeKind) else None


def patch_of(change: FileUpdateChange) -> str:
    """The hunks of an edit: Codex writes the target of a move behind them."""
    target = move_target(change)
    return change.diff.removesuffix(f"\n\nMoved to: {target}") if target else change.diff


def _written_out(change: FileUpdateChange, text: str, language: str, *heading: str) -> TextBlock:
    lines = [*heading, inline(change.path)]
    target = move_target(change)
    if target is not None:
        lines.append(f"moved to {inline(target)}")
    return code_content(text, language, "\n".join(lines))
