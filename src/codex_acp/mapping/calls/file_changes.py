"""A file change as a tool call: one diff for each file.

What is shown of each, `routing.changes` knows. Source: Codex schema ``FileChangeThreadItem``; ACP
page "Tool calls", section Diffs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated import models
from codex_acp.codex.approvals.actions import move_target
from codex_acp.mapping.calls.call import Call, Phase, cut_off_list, ending
from codex_acp.mapping.events.session_events import CallKind, ToolCallChanged, tool_call_id
from codex_acp.routing.changes import Change, changes_title, patch_of, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.mapping.events.content import CallContent
    from codex_acp.routing.changes import Looks


_UNDONE: Final = frozenset({"inProgress", "failed", "declined"})
"""States in which the files should still be as before."""


def file_change_call(item: models.FileChangeThreadItem, phase: Phase, looks: Looks) -> Call:
    """The tool call of a file change. ``looks``: how the disk has the paths that were looked at."""
    end = ending(item.status, phase)
    changes = _changes(item, looks)
    return Call(
        id=tool_call_id(item.id),
        title=changes_title(changes, lambda path: shown_path(_base(path)), cut_off_list),
        kind=_kind(item.changes),
        status=end.status,
        content=[part for change in changes for part in change.content()] + end.content,
        locations=[place for change in changes for place in change.locations()],
        raw_input={"changes": [change.summary() for change in changes]},
    )


def changes_update(
    call_id: str,
    item: models.FileChangeThreadItem,
    content: Sequence[CallContent],
    looks: Looks,
) -> ToolCallChanged:
    """The diffs of a file change that is being written, and nothing else of it."""
    places = [place for change in _changes(item, looks) for place in change.locations()]
    return ToolCallChanged(id=call_id, content=list(content), locations=places)


def _changes(item: models.FileChangeThreadItem, looks: Looks) -> list[Change]:
    undone = item.status in _UNDONE
    return [Change(change, looks, undone=undone, waiting=False) for change in item.changes]


def wanted_looks(told: object, roots: Sequence[str]) -> Mapping[str, bool]:
    """Return the paths to look at before ``told`` is shown, and whether their texts are wanted.

    ``told`` is an item, or the params of a notification; of most it is none. ``roots`` are the
    session's directories.
    """
    match told:
        case models.ItemStartedNotification(item=models.CommandExecutionThreadItem(cwd=cwd)):
            return {} if cwd in roots else {cwd: False}
        case models.ItemStartedNotification() | models.ItemCompletedNotification():
            return wanted_looks(told.item, roots)
        case models.FileChangeThreadItem() | models.FileChangePatchUpdatedNotification():
            return wanted_of_changes(told.changes)
    return {}


def wanted_of_changes(changes: Sequence[models.FileUpdateChange]) -> dict[str, bool]:
    """Return the paths of changes, and whether their texts are wanted: a deletion comes with it."""
    wanted = {
        change.path: not isinstance(change.kind, models.DeletePatchChangeKind) for change in changes
    }
    return wanted | dict.fromkeys(filter(None, map(move_target, changes)), True)


def _kind(changes: Sequence[models.FileUpdateChange]) -> CallKind:
    if changes and all(isinstance(change.kind, models.DeletePatchChangeKind) for change in changes):
        return "delete"
    if changes and all(move_target(change) and not patch_of(change) for change in changes):
        return "move"
    return "edit"


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1] or path
