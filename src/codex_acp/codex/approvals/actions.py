"""PURE: the one action that an approval asks about, and the actions that Codex cannot tell apart.

An action has a place and names paths. Some actions are items of a turn (`has_item`).

Codex (0.147 to 0.171) finds the action of an answer by thread and call id alone
(openai/codex#30963), and the model chooses the call id. If several actions share a call id, the
last action that Codex asked about runs, whichever was allowed. `ActionIds` therefore refuses all
(fails closed; contract 3.7), in the adapter and under a policy. Codex itself makes the ids of
sub-commands and of inputs to a running command: none of them is the id of the item around it.

An allowed action counts until its item has ended unchanged; an action without an item until Codex
has taken the answer. Remaining risk: an answer and a second request can cross on their way. Codex
always sends the second request, which ends the turn before the second command has begun.
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
from codex_acp.codex.approvals.running_items import (
    LOCAL,
    LOOK_ELSEWHERE,
    NOT_IN_TIME,
    PathLook,
    entry_of,
    file_of,
    id_of,
    move_target,
    same_call,
)
from codex_acp.wire.codec import plain, same_json
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codex_acp.codex.approvals.running_items import Items


REDACTED: Final = "[REDACTED_SECRET]"
"""Text in an item in place of each secret that Codex recognizes; an approval shows the secret."""

_GLOB_SIGN: Final = re.compile(r"[*?\[{]")

_PERHAPS_PARTIAL: Final = ("failed", "declined")
"""States of a file change that may have made only some of its changes."""


class Place(NamedTuple):
    """The place of an action, in Codex's own ids."""

    thread_id: str
    turn_id: str | None
    """None in the protocol's first version, which does not name the turn."""
    item_id: str
    part: str | None
    """Id of a sub-command or an input among several approvals of one item, else None."""

    @property
    def answer_id(self) -> str:
        """The id by which Codex finds the action of an answer (contract 3.7)."""
        return self.item_id if self.part is None else self.part


def place_of(approval: ApprovalRequest) -> Place:
    """Return the place of the action that an approval asks about."""
    match approval:
        case CommandApproval(request=command):
            params = command.params
            part = None if params.approval_id == params.item_id else params.approval_id
            return Place(params.thread_id, params.turn_id, params.item_id, part)
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
    """Return the file changes to approve, converted from the protocol's first version if needed."""
    match approval:
        case FileChangeApproval(item=item):
            return item.changes
        case LegacyPatchApproval(request=patch):
            changes = []
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
                changes.append(models.FileUpdateChange(path=path, kind=kind, diff=diff))
            return changes
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


def elsewhere(approval: ApprovalRequest) -> tuple[str, ...]:
    """Return the environment in which the action will run, or all environments of the thread if
    Codex does not say in which one. Empty: the action runs on this machine."""
    named = getattr(approval.request.params, "environment_id", None)
    match approval:
        case CommandApproval() | PermissionsApproval() if named is not None:
            return () if named == LOCAL else (named,)
        case CommandApproval() | PermissionsApproval() | FileChangeApproval():
            return approval.environments
    return ()


def unseen_looks(approval: ApprovalRequest) -> dict[str, PathLook]:
    """Return `LOOK_ELSEWHERE` for each path of an action that may run on another machine, about
    which this disk says nothing; empty if the action runs on this machine."""
    return dict.fromkeys(named_paths(approval), LOOK_ELSEWHERE) if elsewhere(approval) else {}


def named_paths(approval: ApprovalRequest) -> list[str]:
    """Return the paths that the action names, each once, as Codex wrote them."""
    paths: list[str] = []
    match approval:
        case CommandApproval(request=command):
            permissions = command.params.additional_permissions
            paths += filter(None, [command.params.cwd])
            if permissions is not None:
                paths += permission_paths(permissions.file_system, command.params.cwd)
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
    """Return the path that an entry of permissions names; for a pattern, the directory above."""
    match path:
        case models.PathFileSystemPath():
            return path.path
        case models.GlobPatternFileSystemPath():
            before_sign = _GLOB_SIGN.split(path.pattern)[0]
            return before_sign.rpartition("/")[0] or "/"
        case models.SpecialFileSystemPath(value=models.KindFileSystemSpecialPath() as special):
            return f"{cwd}/{special.subpath}" if cwd and special.subpath else None
        case models.SpecialFileSystemPath() | UnknownVariant():
            return None
        case _:
            assert_never(path)


def comparable_looks(
    shown: Mapping[str, PathLook], now: Mapping[str, PathLook]
) -> dict[str, PathLook]:
    """Return the looks of ``now`` for the ``shown`` paths. A path whose shown look came without an
    answer of the disk keeps this look: the person has agreed to an unknown place."""
    missing = PathLook(problem="was not looked at")
    return {
        path: look if look.problem == NOT_IN_TIME else now.get(path, missing)
        for path, look in shown.items()
    }


def unshowable(approval: ApprovalRequest, looks: Mapping[str, PathLook]) -> str | None:
    """Return why nobody can be asked about an edit, or None. Under a path such as ``/proc/self``
    Codex changes another file than this process can show. Codex makes changes that meet in one file
    one after the other, but reports each as if it were the only one, in another order."""
    changes = changes_of(approval)
    per_process = [path for path, look in looks.items() if look.per_process]
    if per_process and changes:
        return f"{per_process[0]} leads to different files in different processes"
    found: set[str] = set()
    for change in changes:
        named = [path for path in (change.path, move_target(change)) if path is not None]
        places = {entry_of(looks, path) for path in named}
        if not isinstance(change.kind, models.DeletePatchChangeKind):
            places |= {file_of(looks, path) for path in named}
        if both := found & places:
            return (
                f"several of its changes meet in {min(both)}, in an order that Codex does not say"
            )
        found |= places
    return None


def is_network(approval: ApprovalRequest) -> bool:
    """Return whether the approval is for a connection that a running command wants to make."""
    return (
        isinstance(approval, CommandApproval)
        and approval.request.params.network_approval_context is not None
    )


def is_input(approval: ApprovalRequest) -> bool:
    """Return whether the approval is for text that is written to a running command."""
    return isinstance(approval, CommandApproval) and approval.request.params.kind == "writeStdin"


def command_written_to(approval: CommandApproval) -> str | None:
    """Return the running command that gets an input, None if unknown."""
    item = approval.item
    return item.command if isinstance(item, models.CommandExecutionThreadItem) else None


def ends_when_allowed(approval: ApprovalRequest) -> bool:
    """Return whether the action counts as ended once it is allowed. No notification follows a
    grant of permissions, and a command that gets an input runs on."""
    return isinstance(approval, PermissionsApproval) or is_input(approval)


def has_item(approval: ApprovalRequest) -> bool:
    """Return whether the action itself is an item, whose end shows what has run. The item of a
    sub-command is the command around it; a connection and permissions have no item."""
    match approval:
        case CommandApproval(request=command):
            is_part = place_of(approval).part is not None
            return not is_part and not is_network(approval) and command.params.kind == "command"
        case FileChangeApproval() | McpToolApproval() | McpToolQuestion():
            return True
        case PermissionsApproval() | LegacyCommandApproval() | LegacyPatchApproval():
            return False
        case _:
            assert_never(approval)


def same_action(approval: ApprovalRequest, item: models.ThreadItem) -> bool:
    """Return whether ``item``, which has the approval's item id, is the action that was shown."""
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
            by_path = {change.path: plain(change) for change in shown.changes}
            if item.status in _PERHAPS_PARTIAL:
                return all(change.path in by_path for change in item.changes)
            return same_json(by_path, {change.path: plain(change) for change in item.changes})
        case McpToolApproval(item=call) | McpToolQuestion(item=call):
            return same_call(item, call)
        case PermissionsApproval() | LegacyCommandApproval() | LegacyPatchApproval():
            return True  # these actions are no items
        case _:
            assert_never(approval)


def _is_command(reported: str, shown: str | None) -> bool:
    """Return whether ``reported`` is the command ``shown``, in which Codex has redacted secrets: a
    secret is not empty and has no blanks."""
    if shown is None or reported == shown:
        return True
    first, *pieces = reported.split(REDACTED)
    if not pieces or not shown.startswith(first):
        return False
    at = len(first)
    for number, piece in enumerate(pieces, start=1):
        is_last = number == len(pieces)  # the rest must fit up to the end
        end = len(shown) - len(piece) if is_last else shown.find(piece, at + 1)
        secret = shown[at : max(at, end)]
        is_secret = bool(secret) and not any(map(str.isspace, secret))
        if not is_secret or not shown.startswith(piece, end):
            return False
        at = end + len(piece)
    return True


def refreshed(approval: ApprovalRequest, items: Items) -> ApprovalRequest | None:
    """Return the action as Codex last reported it; None if it is no longer in progress."""
    place = place_of(approval)
    running = items.get(place.thread_id, place.item_id)
    item = None if running is None else running.item
    match approval:
        case FileChangeApproval(request=change):
            if isinstance(item, models.FileChangeThreadItem):
                return FileChangeApproval(change, item, items.environments_of(place.thread_id))
            return None
        case McpToolApproval() | McpToolQuestion():
            if isinstance(item, models.McpToolCallThreadItem):
                return approval._replace(item=item)
            return None
        case CommandApproval() if is_input(approval):
            return approval._replace(item=items.written_to(place.thread_id, place.item_id))
        case CommandApproval(item=asked_about):
            if not has_item(approval) or (item is None and asked_about is None):
                return approval  # the request has the whole action
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
    """Keys of requests that the caller must decline."""
    allowed: tuple[K, ...]
    """Keys of requests whose turns the caller must interrupt: another action may run instead."""


@dataclass(slots=True)
class _Entry(Generic[K]):
    """A request that is pending, or allowed and not yet seen to end."""

    key: K
    approval: ApprovalRequest | None
    """None for a request that is no known approval: only the end of its turn ends its action."""
    place: Place
    turn_id: str
    allowed: bool = False
    resolved: bool = False
    """Whether Codex has confirmed that it took the answer."""


@dataclass(slots=True)
class ActionIds(Generic[K]):
    """The pending and allowed actions of one connection, by keys that the owner chooses."""

    _entries: list[_Entry[K]] = field(default_factory=list)
    _barred: dict[tuple[str, str], str] = field(default_factory=dict)
    """Thread and answer id that were used for several actions → the turn, until it ends."""

    def enter(self, key: K, action: ApprovalRequest | Place, turn_id: str) -> Collision[K] | None:
        """Enter a request; ``action`` is its place if it is no known approval. A request that
        collides is not entered, and the caller must decline the request."""
        new = (
            _Entry(key, None, action, turn_id)
            if isinstance(action, Place)
            else _Entry(key, action, place_of(action), turn_id)
        )
        others = [entry for entry in self._entries if _collide(entry, new)]
        shared_id = (new.place.thread_id, new.place.answer_id)
        item = getattr(action, "item", None)
        item_differs = item is not None and _differs(new, item)
        if not others and shared_id not in self._barred and not item_differs:
            self._entries.append(new)
            return None
        return self._fail_closed(others, shared_id, turn_id)

    def note_declined(self, request: server_requests.ServerRequest) -> Collision[K] | None:
        """Note a request that was declined without an entry: entries with its id fail closed."""
        shared_id = answer_id_of(request)
        others = [e for e in self._entries if (e.place.thread_id, e.place.answer_id) == shared_id]
        return self._fail_closed(others, None, others[0].turn_id) if others else None

    def note_allowed(self, key: K) -> None:
        """Note that the accepting reply was made."""
        for entry in self._entries_of(key):
            entry.allowed = True

    def forget(self, key: K) -> None:
        """Forget an action that was not allowed, and never will be."""
        self._entries = [entry for entry in self._entries if entry.key != key]

    def note_resolved(self, key: K) -> None:
        """Note that Codex has taken the answer (``serverRequest/resolved``). This ends an allowed
        action without an item: no later notification shows what ran."""
        for entry in self._entries_of(key):
            entry.resolved = True
        self._entries = [
            entry
            for entry in self._entries
            if entry.approval is None
            or has_item(entry.approval)
            or not (entry.allowed and entry.resolved)
        ]

    def has(self, key: K) -> bool:
        """Return whether an action is pending, or allowed and not yet seen to end."""
        return bool(self._entries_of(key))

    def apply(self, event: notifications.ServerNotification) -> Collision[K] | None:
        """Apply one notification; return a collision if another action than shown runs."""
        match event:
            case notifications.ItemStartedEvent(params=started):
                return self._fail_differing(started.thread_id, started.turn_id, started.item)
            case notifications.ItemCompletedEvent(params=done):
                collision = self._fail_differing(
                    done.thread_id, done.turn_id, done.item, ended=True
                )
                self._entries = [
                    entry
                    for entry in self._entries
                    if not (entry.allowed and _is_about(entry, done.thread_id, done.item))
                ]
                return collision
            case notifications.TurnCompletedEvent(params=over):
                self._end_turns(over.thread_id, over.turn.id)
            case notifications.TurnStartedEvent(params=begun):
                self._end_turns(begun.thread_id, None, except_id=begun.turn.id)
            case notifications.ThreadClosedEvent(params=closed):
                self._end_turns(closed.thread_id, None)
        return None

    def _fail_differing(
        self, thread_id: str, turn_id: str, item: models.ThreadItem, *, ended: bool = False
    ) -> Collision[K] | None:
        """Fail the entries closed whose action was shown otherwise than ``item``. Pending entries
        of an ended item stay, because no answer to them is accepted any more."""
        others = [
            entry
            for entry in self._entries
            if _is_about(entry, thread_id, item)
            and (entry.allowed or not ended)
            and _differs(entry, item)
        ]
        return self._fail_closed(others, None, turn_id) if others else None

    def _fail_closed(
        self, others: list[_Entry[K]], shared_id: tuple[str, str] | None, turn_id: str
    ) -> Collision[K]:
        """Remove the entries ``others``, and bar the id that they share until the turn ends."""
        for entry in others:
            self._entries.remove(entry)
            shared_id = shared_id or (entry.place.thread_id, entry.place.answer_id)
        if shared_id is not None:
            self._barred[shared_id] = turn_id
        return Collision(
            tuple(entry.key for entry in others if not entry.allowed),
            tuple(entry.key for entry in others if entry.allowed),
        )

    def _end_turns(self, thread_id: str, turn_id: str | None, except_id: str | None = None) -> None:
        """Forget allowed actions and barred ids of a turn, or of all turns if ``turn_id`` is None,
        and also of an unknown turn. Pending entries stay until their owner settles them."""

        def is_over(thread: str, turn: str) -> bool:
            is_meant = turn_id is None or turn in (turn_id, "")
            return thread == thread_id and turn != except_id and is_meant

        self._entries = [
            entry
            for entry in self._entries
            if not (entry.allowed and is_over(entry.place.thread_id, entry.turn_id))
        ]
        self._barred = {
            key: turn for key, turn in self._barred.items() if not is_over(key[0], turn)
        }

    def _entries_of(self, key: K) -> list[_Entry[K]]:
        return [entry for entry in self._entries if entry.key == key]


def _collide(entry: _Entry[K], new: _Entry[K]) -> bool:
    """Return whether Codex could take the answer to one of the actions for the other."""
    place, new_place = entry.place, new.place
    if (place.thread_id, place.answer_id) != (new_place.thread_id, new_place.answer_id):
        return False
    if entry.approval is None or new.approval is None or not has_item(entry.approval):
        return True
    # An allowed command that runs in a sandbox may ask for a connection, with the command's id.
    return not (entry.allowed and entry.resolved and is_network(new.approval))


def _differs(entry: _Entry[K], item: models.ThreadItem) -> bool:
    """Return whether ``item`` is another action than the entry's, which is an item."""
    approval = entry.approval
    return approval is not None and has_item(approval) and not same_action(approval, item)


def _is_about(entry: _Entry[K], thread_id: str, item: models.ThreadItem) -> bool:
    """Return whether ``item`` has the id of the entry's action."""
    same_id = (entry.place.thread_id, entry.place.item_id) == (thread_id, id_of(item))
    return same_id and entry.approval is not None and has_item(entry.approval)
