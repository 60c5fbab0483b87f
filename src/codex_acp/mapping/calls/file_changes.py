"""A file change as a tool call: one diff for each file.

A diff shows whole texts when the caller could read the file and the patch fits what was read:
forward if the file is as before, in reverse if it is as after. Otherwise the patch is shown.
Source: Codex schema ``FileChangeThreadItem``; ACP page "Tool calls", section Diffs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.codex._generated import models
from codex_acp.mapping.calls.call import Call, Phase, ending, named
from codex_acp.mapping.events.content import CallContent, Location
from codex_acp.mapping.events.session_events import CallKind, ToolCallChanged
from codex_acp.routing.changes import change_content, edit, move_target, patch_of, unseen
from codex_acp.routing.display import inline
from codex_acp.routing.hunks import applied, first_changed_line, parse_hunks, reversed_hunks
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


WHOLE_TEXT_LIMIT: Final = 1_000_000
"""Characters of a file beyond which only its patch is shown."""

_UNDONE: Final = frozenset({"inProgress", "failed", "declined"})
"""States in which the files should still be as before."""


class _Texts(NamedTuple):
    before: str
    after: str


def file_change_call(
    item: models.FileChangeThreadItem, phase: Phase, files: Mapping[str, str]
) -> Call:
    """The tool call of a file change. ``files``: path → text of the files that could be read."""
    end = ending(item.status, phase)
    undone = item.status in _UNDONE
    contents = [part for change in item.changes for part in _content(change, files, undone=undone)]
    return Call(
        id=item.id,
        title=_title(item.changes),
        kind=_kind(item.changes),
        status=end.status,
        content=[*contents, *end.content],
        locations=[place for change in item.changes for place in _locations(change)],
        raw_input={"changes": [_summary(change) for change in item.changes]},
    )


def changes_update(
    call_id: str, item: models.FileChangeThreadItem, content: Sequence[CallContent]
) -> ToolCallChanged:
    """The diffs of a file change that is being written, and nothing else of it."""
    return ToolCallChanged(
        id=call_id,
        content=list(content),
        locations=[place for change in item.changes for place in _locations(change)],
    )


def wanted_files(told: object) -> Sequence[str]:
    """Absolute paths of the files to read before ``told`` is shown, if they can be.

    ``told`` is an item, or the params of a notification; of most it is none.
    """
    match told:
        case models.ItemStartedNotification() | models.ItemCompletedNotification():
            return wanted_files(told.item)
        case models.FileChangeThreadItem() | models.FileChangePatchUpdatedNotification():
            wanted = [path for change in told.changes for path in _wanted(change)]
            return list(dict.fromkeys(wanted))
    return ()


def _wanted(change: models.FileUpdateChange) -> list[str]:
    """Added and deleted files come with their text; a moved one is at its old or its new place."""
    if not isinstance(change.kind, models.UpdatePatchChangeKind):
        return []
    target = change.kind.move_path
    return [change.path] if target is None else [change.path, target]


def _content(
    change: models.FileUpdateChange, files: Mapping[str, str], *, undone: bool
) -> list[CallContent]:
    texts = _texts(change, files, undone=undone)
    if texts is None:
        return change_content(change)
    return [edit(change, texts.before, texts.after), *unseen(change)]


def _texts(
    change: models.FileUpdateChange, files: Mapping[str, str], *, undone: bool
) -> _Texts | None:
    """The file before and after; None if that is not certain."""
    kind = change.kind
    if not isinstance(kind, models.UpdatePatchChangeKind):
        return None
    old = files.get(change.path)
    new = old if kind.move_path is None else files.get(kind.move_path)
    patch = patch_of(change)
    if not patch:  # a move and nothing else
        text = new if old is None else old
        return None if text is None or len(text) > WHOLE_TEXT_LIMIT else _Texts(text, text)
    hunks = parse_hunks(patch)
    if hunks is None:
        return None
    back = reversed_hunks(hunks)
    after = None if old is None else applied(hunks, old)
    before = None if new is None else applied(back, new)
    found = []
    if old is not None and after is not None:
        found.append(_Texts(old, after))
    if new is not None and before is not None:
        found.append(_Texts(before, new))
    if not found:
        return None
    texts = found[0 if undone else -1]
    return texts if max(map(len, texts)) <= WHOLE_TEXT_LIMIT else None


def _locations(change: models.FileUpdateChange) -> list[Location]:
    if isinstance(change.kind, models.AddPatchChangeKind):
        return [Location(change.path, 1)]
    hunks = (
        parse_hunks(patch_of(change))
        if isinstance(change.kind, models.UpdatePatchChangeKind)
        else None
    )
    line = None if hunks is None else first_changed_line(hunks)
    target = move_target(change)
    paths = [change.path] if target is None else [change.path, target]
    if line is None:
        return [Location(path) for path in paths]
    return [Location(path, line) for path in paths]


def _summary(change: models.FileUpdateChange) -> dict[str, object]:
    kind = change.kind
    word = kind.wire().get("type") if isinstance(kind, UnknownVariant) else kind.type
    target = move_target(change)
    moved = {} if target is None else {"movePath": target}
    return {"path": change.path, "kind": word, **moved}


def _kind(changes: Sequence[models.FileUpdateChange]) -> CallKind:
    if changes and all(isinstance(change.kind, models.DeletePatchChangeKind) for change in changes):
        return "delete"
    if changes and all(move_target(change) and not patch_of(change) for change in changes):
        return "move"
    return "edit"


def _title(changes: Sequence[models.FileUpdateChange]) -> str:
    """What is done to which files; the locations hold their whole paths."""
    if len(changes) == 1:
        (change,) = changes
        target = move_target(change)
        if target is not None:
            verb = "Edit and move" if patch_of(change) else "Move"
            return f"{verb} {inline(_base(change.path))} to {inline(target)}"
        if isinstance(change.kind, models.AddPatchChangeKind):
            return f"Create {inline(_base(change.path))}"
    kind = _kind(changes)
    verb = {"delete": "Delete", "move": "Move"}.get(kind, "Edit")
    return named(verb, [_base(change.path) for change in changes], "files")


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path
