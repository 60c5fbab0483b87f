"""PURE: the one action that an approval asks about, and the actions that Codex cannot tell apart.

An action has a place, names paths, and may be an item: `same_action` compares the two.

Codex (0.147 to 0.169) finds the action that an answer is for by thread and call id alone
(openai/codex#30963), and the model chooses the call id: of several that share one, the last that
was asked about runs, whichever was allowed. So `ActionIds` has those fail closed together
(contract 3.7), in the adapter and under a policy alike. A sub-command and an input to a running
command have ids of their own, made by Codex, and share nothing with the item they belong to.

An allowed action counts until its item has ended as the one that was shown; one without an item
until Codex has taken the answer. What is left: an answer that crosses a second request on its way
to Codex. That request, which Codex always sends, ends the turn before the command has begun.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar, assert_never

from codex_acp.codex._generated import models, notifications, server_requests
from codex_acp.codex.approvals.classify import (
    ApprovalRequest,
    CommandApproval,
    FileChangeApproval,
    LegacyCommandApproval,
    LegacyPatchApproval,
    McpToolApproval,
    McpToolQuestion,
    PermissionsApproval,
)
from codex_acp.codex.approvals.running_items import same_call
from codex_acp.wire.codec import plain, same_json
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.codex.approvals.classify import ApprovalRequest
    from codex_acp.codex.approvals.running_items import Items


REDACTED: Final = "[REDACTED_SECRET]"
"""Text that an item has in place of each secret that Codex recognizes in a command; an approval is
exact."""

_GLOB_SIGN: Final = re.compile(r"[*?\[{]")

_UNFINISHED: Final = ("failed", "declined")
"""States of a file change that may have made only some of its changes."""


class PathLook(NamedTuple):
    """A path as one look at the disk found it."""

    place: str = ""
    """Path with the links of its directories followed: what a removal removes."""
    real: str = ""
    """`place` with the link followed that it may be itself: what is read and written."""
    named: str = ""
    """`real` as it would be without links, but for those that lead to the session's directories."""
    exists: bool = False
    """Whether anything is at `real`."""
    size: int = 0
    """Bytes of the file at `real`."""
    text: str | None = None
    """Whole text of the file at `real`, if it was wanted and could be read."""
    unread: str = ""
    """Why there is no text of a file that exists and whose text was wanted."""
    problem: str = ""
    """Why nothing else of this is known: a clause about the path."""


class Place(NamedTuple):
    """The place of an action, in Codex's own ids."""

    thread_id: str
    turn_id: str | None
    """None in the protocol's first version, which does not tell it."""
    item_id: str
    part: str | None
    """Tells it from other approvals of the same item: a sub-command, an input to a command."""

    @property
    def answer_id(self) -> str:
        """The id by which Codex finds the action when the answer comes (contract 3.7)."""
        return self.item_id if self.part is None else self.part


def place_of(approval: ApprovalRequest) -> Place:
    """Return the place of the action that an approval asks about."""
    match approval:
        case CommandApproval(request=command):
            of = command.params
            part = of.approval_id if of.approval_id != of.item_id else None
            return Place(of.thread_id, of.turn_id, of.item_id, part)
        case FileChangeApproval(request=request) | PermissionsApproval(request=request):
            asked = request.params
            return Place(asked.thread_id, asked.turn_id, asked.item_id, None)
        case McpToolApproval(params=elicitation, item=call):
            return Place(elicitation.thread_id, elicitation.turn_id, call.id, None)
        case McpToolQuestion(request=question, item=call):
            return Place(question.params.thread_id, question.params.turn_id, call.id, None)
        case LegacyCommandApproval(request=legacy):
            old = legacy.params
            return Place(old.conversation_id, None, old.call_id, old.approval_id)
        case LegacyPatchApproval(request=patch):
            return Place(patch.params.conversation_id, None, patch.params.call_id, None)
        case _:
            assert_never(approval)


def answer_id_of(request: server_requests.ServerRequest) -> tuple[str, str] | None:
    """Return the thread and id by which Codex finds the action of a request; None without one."""
    match request:
        case server_requests.ItemCommandExecutionRequestApproval(params=command):
            return command.thread_id, command.approval_id or command.item_id
        case (
            server_requests.ItemFileChangeRequestApproval()
            | server_requests.ItemPermissionsRequestApproval()
        ):
            return request.params.thread_id, request.params.item_id
    return None


def changes_of(approval: ApprovalRequest) -> Sequence[models.FileUpdateChange]:
    """Return the changes of files that are asked for, each in the protocol's present form."""
    match approval:
        case FileChangeApproval(item=item):
            return item.changes
        case LegacyPatchApproval(request=patch):
            found = []
            for path, change in patch.params.file_changes.items():
                kind: models.PatchChangeKind
                match change:
                    case models.AddFileChange():
                        kind, diff = models.AddPatchChangeKind(), change.content
                    case models.DeleteFileChange():
                        kind, diff = models.DeletePatchChangeKind(), change.content
                    case models.UpdateFileChange():
                        kind = models.UpdatePatchChangeKind(move_path=change.move_path)
                        diff = change.unified_diff
                    case UnknownVariant():
                        kind, diff = change, ""
                    case _:
                        assert_never(change)
                found.append(models.FileUpdateChange(path=path, kind=kind, diff=diff))
            return found
        case (
            CommandApproval()
            | LegacyCommandApproval()
            | PermissionsApproval()
            | McpToolApproval()
            | McpToolQuestion()
        ):
            return ()
        case _:
            assert_never(approval)


def created_paths(changes: Sequence[models.FileUpdateChange]) -> list[str]:
    """Return the paths at which the changes make a file: what is there already is replaced."""
    added = [each.path for each in changes if isinstance(each.kind, models.AddPatchChangeKind)]
    return [*added, *filter(None, map(move_target, changes))]


def removed_paths(changes: Sequence[models.FileUpdateChange]) -> list[str]:
    """Return the paths that the changes remove: of a link the link, not what it leads to."""
    return [
        change.path
        for change in changes
        if isinstance(change.kind, models.DeletePatchChangeKind) or move_target(change) is not None
    ]


def move_target(change: models.FileUpdateChange) -> str | None:
    """Return where an edit moves the file to."""
    return change.kind.move_path if isinstance(change.kind, models.UpdatePatchChangeKind) else None


def named_paths(approval: ApprovalRequest) -> list[str]:
    """Return the paths that the action names, each once: their links decide what it reaches."""
    paths: list[str] = []
    match approval:
        case CommandApproval(request=command):
            more = command.params.additional_permissions
            paths += filter(None, [command.params.cwd])
            if more is not None:
                paths += permission_paths(more.file_system, command.params.cwd)
        case LegacyCommandApproval(request=legacy):
            paths.append(legacy.params.cwd)
        case FileChangeApproval(request=edit) | LegacyPatchApproval(request=edit):
            for change in changes_of(approval):
                paths += filter(None, [change.path, move_target(change)])
            paths += filter(None, [edit.params.grant_root])
        case PermissionsApproval(request=asked):
            paths += permission_paths(asked.params.permissions.file_system, asked.params.cwd)
        case McpToolApproval() | McpToolQuestion():
            pass
        case _:
            assert_never(approval)
    return list(dict.fromkeys(paths))


def permission_paths(
    files: models.AdditionalFileSystemPermissions | None, cwd: str | None
) -> Iterator[str]:
    """Yield the paths of directories and files that permissions name."""
    if files is None:
        return
    yield from files.read or ()
    yield from files.write or ()
    for entry in files.entries or ():
        yield from filter(None, [path_of_entry(entry.path, cwd)])


def path_of_entry(path: models.FileSystemPath, cwd: str | None) -> str | None:
    """Return the path that an entry of permissions names, of a pattern the directory above it."""
    match path:
        case models.PathFileSystemPath():
            return path.path
        case models.GlobPatternFileSystemPath():
            return _GLOB_SIGN.split(path.pattern)[0].rpartition("/")[0] or "/"
        case models.SpecialFileSystemPath(value=models.KindFileSystemSpecialPath() as special):
            return f"{cwd}/{special.subpath}" if cwd and special.subpath else None
        case models.SpecialFileSystemPath() | UnknownVariant():
            return None
        case _:
            assert_never(path)


def comparable_looks(
    shown: Mapping[str, PathLook], now: Mapping[str, PathLook]
) -> dict[str, PathLook]:
    """Return the looks ``now``, to compare with those ``shown``: a path that could not be looked at
    when it was shown keeps that first look."""
    return {
        path: look if look.problem else now.get(path, PathLook(problem="was not looked at"))
        for path, look in shown.items()
    }


def is_network(approval: ApprovalRequest) -> bool:
    """Whether it asks for a connection, which a command that runs already wants to make."""
    return (
        isinstance(approval, CommandApproval)
        and approval.request.params.network_approval_context is not None
    )


def has_item(approval: ApprovalRequest) -> bool:
    """Whether the item of its id is the action itself, whose end shows what has run.

    Of a sub-command it is the command around it; a connection and permissions have none.
    """
    match approval:
        case CommandApproval(request=command):
            of_its_own = place_of(approval).part is None and not is_network(approval)
            return of_its_own and command.params.kind == "command"
        case FileChangeApproval() | McpToolApproval() | McpToolQuestion():
            return True
        case PermissionsApproval() | LegacyCommandApproval() | LegacyPatchApproval():
            return False
        case _:
            assert_never(approval)


def same_action(approval: ApprovalRequest, item: models.ThreadItem) -> bool:
    """Whether an item of its id, in progress or ended, is the action that was shown."""
    match approval:
        case CommandApproval(request=command):
            return (
                isinstance(item, models.CommandExecutionThreadItem)
                and command.params.cwd in (None, item.cwd)
                and _is_command(item.command, command.params.command)
            )
        case FileChangeApproval(item=shown):
            if not isinstance(item, models.FileChangeThreadItem):
                return False
            of_shown = {change.path: plain(change) for change in shown.changes}
            if item.status in _UNFINISHED:
                return all(change.path in of_shown for change in item.changes)
            return same_json(of_shown, {change.path: plain(change) for change in item.changes})
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return same_call(item, call)
        case PermissionsApproval() | LegacyCommandApproval() | LegacyPatchApproval():
            return True  # no item of its id is its own
        case _:
            assert_never(approval)


def _is_command(reported: str, shown: str | None) -> bool:
    """Whether ``reported`` is what was shown, but for the secrets that Codex leaves out."""
    if shown is None or reported == shown:
        return True
    first, *pieces = reported.split(REDACTED)
    if not pieces or not shown.startswith(first):
        return False
    at = len(first)
    for number, piece in enumerate(pieces, start=1):
        is_last = number == len(pieces)
        found = len(shown) - len(piece) if is_last else shown.find(piece, at + 1)
        secret = shown[at : max(at, found)]
        if not secret or any(map(str.isspace, secret)) or not shown.startswith(piece, found):
            return False
        at = found + len(piece)
    return True


def refreshed(approval: ApprovalRequest, items: Items) -> ApprovalRequest | None:
    """Return the action as Codex last reported it; None if it is no longer in progress."""
    place = place_of(approval)
    running = items.get(place.thread_id, place.item_id)
    item = None if running is None else running.item
    match approval:
        case FileChangeApproval(request=change):
            if isinstance(item, models.FileChangeThreadItem):
                return FileChangeApproval(change, item)
            return None
        case McpToolApproval() | McpToolQuestion():
            if isinstance(item, models.McpToolCallThreadItem):
                return approval._replace(item=item)
            return None
        case CommandApproval(item=asked_about):
            if not has_item(approval) or (item is None and asked_about is None):
                return approval  # what is asked stands in the request itself
            return approval if item is not None and same_action(approval, item) else None
        case PermissionsApproval() | LegacyCommandApproval() | LegacyPatchApproval():
            return approval
        case _:
            assert_never(approval)


K = TypeVar("K")

SHARED_ID: Final = (
    "the model gave one id to several actions, so that Codex cannot tell which one is allowed"
)
"""Reason for declining actions that share an id and that nobody has allowed."""

ALLOWED_IN_DOUBT: Final = (
    "the model gave one id to several actions, and what Codex runs may not be what was allowed"
)
"""Reason for interrupting a turn in which one of several actions with one id was allowed."""


class Collision(NamedTuple, Generic[K]):
    """Requests that fail closed together."""

    pending: tuple[K, ...]
    """Keys of requests that are to be declined."""
    allowed: tuple[K, ...]
    """Keys of requests whose turns are to be interrupted: another action may run instead."""


@dataclass(slots=True)
class _Held(Generic[K]):
    key: K
    approval: ApprovalRequest
    place: Place
    turn_id: str
    allowed: bool = False
    resolved: bool = False
    """Whether Codex has said that it took the answer."""


@dataclass(slots=True)
class ActionIds(Generic[K]):
    """The approvals of one connection that are pending, or allowed and not seen to end."""

    _held: list[_Held[K]] = field(default_factory=list)
    _barred: dict[tuple[str, str], str] = field(default_factory=dict)
    """Thread and id that were used for several actions → the turn, until it ends."""

    def enter(self, key: K, approval: ApprovalRequest, turn_id: str) -> Collision[K] | None:
        """Enter a request; if it collides it is not entered, and is to be declined as well."""
        asked = _Held(key, approval, place_of(approval), turn_id)
        others = [held for held in self._held if _collide(held, asked)]
        shared = (asked.place.thread_id, asked.place.answer_id)
        item = getattr(approval, "item", None)
        was_another = item is not None and has_item(approval) and not same_action(approval, item)
        if not others and shared not in self._barred and not was_another:
            self._held.append(asked)
            return None
        return self._fail_closed(others, shared, turn_id)

    def note_declined(self, request: server_requests.ServerRequest) -> Collision[K] | None:
        """Note a request that is declined unentered: what shares its id is in doubt as well."""
        shared = answer_id_of(request)
        others = [h for h in self._held if (h.place.thread_id, h.place.answer_id) == shared]
        return self._fail_closed(others, None, others[0].turn_id) if others else None

    def note_allowed(self, key: K) -> None:
        """Note that the accepting reply is made."""
        for held in self._of(key):
            held.allowed = True

    def forget(self, key: K) -> None:
        """Forget an action that was not allowed, and never will be."""
        self._held = [held for held in self._held if held.key != key]

    def note_resolved(self, key: K) -> None:
        """Note that Codex has taken the answer (``serverRequest/resolved``)."""
        for held in self._of(key):
            held.resolved = True
        self._held = [  # of one without an item nothing more will show what it was that ran
            held
            for held in self._held
            if not (held.allowed and held.resolved and not has_item(held.approval))
        ]

    def has(self, key: K) -> bool:
        """Return whether an action is pending, or allowed and not seen to end."""
        return bool(self._of(key))

    def apply(self, event: notifications.ServerNotification) -> Collision[K] | None:
        """Learn from one notification; not None if another action stands where one was shown."""
        match event:
            case notifications.ItemStartedEvent(params=started):
                return self._seen(started.thread_id, started.turn_id, started.item)
            case notifications.ItemCompletedEvent(params=done):
                found = self._seen(done.thread_id, done.turn_id, done.item, ended=True)
                self._held = [
                    held
                    for held in self._held
                    if not (held.allowed and _is_of(held, done.thread_id, done.item))
                ]
                return found
            case notifications.TurnCompletedEvent(params=over):
                self._turn_over(over.thread_id, over.turn.id)
            case notifications.TurnStartedEvent(params=begun):
                self._turn_over(begun.thread_id, None, but=begun.turn.id)
            case notifications.ThreadClosedEvent(params=closed):
                self._turn_over(closed.thread_id, None)
        return None

    def _seen(
        self, thread_id: str, turn_id: str, item: models.ThreadItem, *, ended: bool = False
    ) -> Collision[K] | None:
        others = [
            held
            for held in self._held
            if _is_of(held, thread_id, item)
            and (held.allowed or not ended)  # of a pending one no answer is accepted any more
            and not same_action(held.approval, item)
        ]
        return self._fail_closed(others, None, turn_id) if others else None

    def _fail_closed(
        self, others: list[_Held[K]], shared: tuple[str, str] | None, turn_id: str
    ) -> Collision[K]:
        for held in others:
            self._held.remove(held)
            shared = shared or (held.place.thread_id, held.place.answer_id)
        if shared is not None:
            self._barred[shared] = turn_id
        return Collision(
            tuple(held.key for held in others if not held.allowed),
            tuple(held.key for held in others if held.allowed),
        )

    def _turn_over(self, thread_id: str, turn_id: str | None, but: str | None = None) -> None:
        """``turn_id`` None: whatever ran in the thread. What is pending, its owner settles."""

        def over(thread: str, turn: str) -> bool:
            return thread == thread_id and turn != but and turn_id in (None, turn)

        self._held = [
            held
            for held in self._held
            if not (held.allowed and over(held.place.thread_id, held.turn_id))
        ]
        self._barred = {
            shared: turn for shared, turn in self._barred.items() if not over(shared[0], turn)
        }

    def _of(self, key: K) -> list[_Held[K]]:
        return [held for held in self._held if held.key == key]


def _collide(held: _Held[K], asked: _Held[K]) -> bool:
    one, other = held.place, asked.place
    if (one.thread_id, one.answer_id) != (other.thread_id, other.answer_id):
        return False
    # A command that was allowed, and runs in a sandbox, may ask for a connection by its own id.
    follows = held.allowed and held.resolved and is_network(asked.approval)
    return not (follows and has_item(held.approval))


def _is_of(held: _Held[K], thread_id: str, item: models.ThreadItem) -> bool:
    item_id = str(item.wire().get("id")) if isinstance(item, UnknownVariant) else item.id
    same = (held.place.thread_id, held.place.item_id) == (thread_id, item_id)
    return same and has_item(held.approval)
