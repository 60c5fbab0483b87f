"""PURE: track the running items and turns, the parents of threads, and calls into other sessions.

Follows the app-server's notifications, for the adapter and for headless policies: notifications
alone prove where a request comes from. Also tells which paths the changes of an item make and
remove: these functions stand here because `actions` loads only when Codex asks for an approval.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes
from codex_acp._record import NamedTuple, record
from codex_acp.codex._generated import models, notifications
from codex_acp.wire.codec import same_json
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.codex._generated.notifications import ServerNotification


USED_BY_ITEMS: Final = frozenset({
    "item/completed", "item/fileChange/patchUpdated", "item/started", "thread/closed",
    "thread/started", "turn/completed", "turn/started",
})  # fmt: skip
"""The notifications that `Items.apply` uses."""

MAX_PARENT_STEPS: Final = 64
"""Bound of the steps from a sub-agent up to its root thread, although parents form no circle."""

MAX_ENDED: Final = 1_000
"""Turns that are remembered after their end or interrupt."""

MAX_PARENTS: Final = 10_000
"""Sub-agents whose parent is remembered, far more than ever run. Requests of any other sub-agent
are declined."""


LOCAL: Final = "local"
"""The id of the environment that is this machine: Codex gives no other one this id."""


@record
class RunningItem:
    """An item that started and has not completed, as Codex last reported it."""

    thread_id: str
    turn_id: str
    item: models.ThreadItem
    asked: bool = False
    """Whether an approval of the item is open, or was answered."""
    shared: bool = False
    """Whether another call or command has started with the id of this item: nobody can tell which
    of the two a request is about."""


@record
class Items:
    """The items, turns and parents of all threads of one app-server connection."""

    opened: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Thread that this side opened → the ids of its environments, if Codex lists them. No such
    thread is a sub-agent, even if a model names it as one."""
    _items: dict[tuple[str, str], RunningItem] = field(default_factory=dict)
    _running_on: LastOnes[tuple[str, str], RunningItem] = field(
        default_factory=partial(LastOnes, MAX_ENDED)
    )
    """Commands that run on after the end of their turn, and shared items that may still run."""
    _turns: dict[str, str] = field(default_factory=dict)
    """Thread → its running turn."""
    _outer: dict[str, str] = field(default_factory=dict)
    """Thread → the turn around its running turn: items of a review have the outer turn's id."""
    _ended: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_ENDED))
    _parents: LastOnes[str, str] = field(default_factory=partial(LastOnes, MAX_PARENTS))
    _environments: LastOnes[str, tuple[str, ...]] = field(
        default_factory=partial(LastOnes, MAX_PARENTS)
    )
    """Thread → the ids of its environments, as its start reported them."""

    # Reports of Codex.

    def apply(self, event: ServerNotification) -> None:
        """Apply one notification; a method that is not in `USED_BY_ITEMS` changes nothing."""
        if isinstance(event, notifications.ItemStartedEvent):
            self._start_item(event.params.thread_id, event.params.turn_id, event.params.item)
        elif isinstance(event, notifications.ItemCompletedEvent):
            self._learn_children(event.params.thread_id, event.params.item)
            key = event.params.thread_id, id_of(event.params.item)
            running = self._items.pop(key, None) or self._running_on.pop(key, None)
            if running is not None and running.shared:
                self._running_on[key] = running  # another item with this id may still run
        elif isinstance(event, notifications.ItemFileChangePatchUpdatedEvent):
            running = self._items.get((event.params.thread_id, event.params.item_id))
            if running is not None and isinstance(running.item, models.FileChangeThreadItem):
                changes = list(event.params.changes)
                running.item = running.item.model_copy(update={"changes": changes})
        elif isinstance(event, notifications.TurnStartedEvent):
            self._start_turn(event.params.thread_id, event.params.turn)
        elif isinstance(event, notifications.TurnCompletedEvent):
            # The end of the outer turn also ends the turn within it.
            if self.is_running(event.params.thread_id, event.params.turn.id):
                self._end_turn(event.params.thread_id)
            self._ended[event.params.turn.id] = None
        elif isinstance(event, notifications.ThreadStartedEvent):
            self.learn_thread(event.params.thread)
        elif isinstance(event, notifications.ThreadClosedEvent):
            self._end_turn(event.params.thread_id)
            self._parents.pop(event.params.thread_id, None)

    def learn_thread(self, thread: models.Thread) -> None:
        """Learn a thread's environments, parent and sub-agents, and its running turn after
        ``thread/resume``."""
        if thread.environments:
            self._environments[thread.id] = tuple(e.environment_id for e in thread.environments)
        if thread.parent_thread_id is not None:
            # This parent replaces one that an item named. If it would close a circle, cut there.
            lineage = [thread.parent_thread_id, *self.ancestors_of(thread.parent_thread_id)]
            if thread.id in lineage[1:]:
                child = lineage[lineage.index(thread.id) - 1]  # whose parent is this thread
                del self._parents[child]
            self._parents.pop(thread.id, None)
            self._set_parent(thread.parent_thread_id, thread.id)
        for turn in thread.turns:
            for item in turn.items:
                self._learn_children(thread.id, item)
            if turn.status == "inProgress":
                self._start_turn(thread.id, turn)
                for item in turn.items:
                    if getattr(item, "status", None) == "inProgress":
                        self._start_item(thread.id, turn.id, item)

    def _start_item(self, thread_id: str, turn_id: str, item: models.ThreadItem) -> None:
        self._learn_children(thread_id, item)
        if not self.is_running(thread_id, turn_id):
            return  # no approval of the item could be granted, and no turn end would remove it
        key = thread_id, id_of(item)
        running = self._items.setdefault(key, RunningItem(thread_id, turn_id, item))
        before, earlier = running.item, self._running_on.get(key)
        if earlier is not None and (earlier.shared or not _same_command(earlier.item, item)):
            running.shared = True
        # Codex reports the start of items of other types more than once.
        if isinstance(before, models.McpToolCallThreadItem) and not same_call(before, item):
            running.shared = True
        if isinstance(before, models.CommandExecutionThreadItem) and not _same_command(
            before, item
        ):
            running.shared = True
        running.item = item

    def _start_turn(self, thread_id: str, turn: models.Turn) -> None:
        if self._turns.get(thread_id) == turn.id:
            return
        self._end_turn(thread_id)  # a thread runs one turn at a time
        self._turns[thread_id] = turn.id
        outer = turn.root_turn_id
        if outer not in (None, turn.id) and outer not in self._ended:
            self._outer[thread_id] = outer

    def _end_turn(self, thread_id: str) -> None:
        self._turns.pop(thread_id, None)
        self._outer.pop(thread_id, None)
        for key in [key for key in self._items if key[0] == thread_id]:
            running = self._items.pop(key)
            if isinstance(running.item, models.CommandExecutionThreadItem):
                self._running_on[key] = running

    def _learn_children(self, thread_id: str, item: models.ThreadItem) -> None:
        """Learn the sub-agents that an item names."""
        if isinstance(item, models.CollabAgentToolCallThreadItem):
            for child in item.receiver_thread_ids:
                self._set_parent(thread_id, child)
        elif isinstance(item, models.SubAgentActivityThreadItem):
            self._set_parent(thread_id, item.agent_thread_id)

    def _set_parent(self, parent: str, child: str) -> None:
        """Set a thread's parent, unless the thread has one, or is above ``parent``: a sub-agent's
        items also name the thread above it."""
        if child in self._parents or child in (parent, *self.ancestors_of(parent)):
            return
        self._parents[child] = parent

    # Questions about the state.

    def reached_elsewhere(self, thread_id: str, item: models.ThreadItem) -> list[str]:
        """Return the threads of other sessions that an item names, if it calls sub-agents."""
        if not isinstance(item, models.CollabAgentToolCallThreadItem):
            return []
        root = self.root_of(thread_id)
        return [other for other in item.receiver_thread_ids if self.root_of(other) != root]

    def is_running(self, thread_id: str, turn_id: str | None) -> bool:
        """Return whether this turn, or a turn within it, has started and not ended."""
        running = (self._turns.get(thread_id), self._outer.get(thread_id))
        return turn_id is not None and turn_id in running

    def running_turn(self, thread_id: str) -> str | None:
        """Return the thread's turn that has started and not ended."""
        return self._turns.get(thread_id)

    def running_sub_agents_of(self, thread_id: str) -> list[tuple[str, str]]:
        """Return thread and turn of each running turn of the thread's sub-agents, at any depth."""
        running = self._turns.items()
        return [(t, turn) for t, turn in running if thread_id in self.ancestors_of(t)]

    def sub_agents_of(self, thread_id: str) -> list[str]:
        """Return the threads of the thread's sub-agents, at any depth, running or not."""
        return [each for each in self._parents if thread_id in self.ancestors_of(each)]

    def get(self, thread_id: str, item_id: str) -> RunningItem | None:
        """Return the item, if it is in progress."""
        return self._items.get((thread_id, item_id))

    def written_to(self, thread_id: str, item_id: str) -> models.CommandExecutionThreadItem | None:
        """Return the one running command with this id, also of an earlier turn, or None."""
        key = thread_id, item_id
        running = self._items.get(key) or self._running_on.get(key)
        if running is None or running.shared:
            return None
        item = running.item
        return item if isinstance(item, models.CommandExecutionThreadItem) else None

    def mcp_calls(self, thread_id: str, turn_id: str, server: str) -> list[RunningItem]:
        """Return a turn's running calls of a server (`full_server_name`), oldest first. Leaves out
        calls with an approval, and parallel calls that share an id."""
        return [
            running
            for (thread, _), running in self._items.items()
            if thread == thread_id
            and running.turn_id == turn_id
            and not running.asked
            and not running.shared
            and isinstance(running.item, models.McpToolCallThreadItem)
            and server_of(running.item) == server
        ]

    def environments_of(self, thread_id: str) -> tuple[str, ...]:
        """Return the environments of a thread, or of the nearest thread above it with listed
        environments; empty if there is only this machine."""
        for each in (thread_id, *self.ancestors_of(thread_id)):
            if listed := self.opened.get(each) or self._environments.get(each):
                return listed if any(environment != LOCAL for environment in listed) else ()
        return ()

    def ancestors_of(self, thread_id: str) -> list[str]:
        """Return the parent of a thread, the parent's parent, and so on up to the root thread."""
        ancestors: list[str] = []
        while thread_id not in self.opened and len(ancestors) < MAX_PARENT_STEPS:
            parent = self._parents.get(thread_id)
            if parent is None:
                break
            ancestors.append(parent)
            thread_id = parent
        return ancestors

    def root_of(self, thread_id: str) -> str:
        """Return the root thread above a thread, or the thread itself if it has no parent."""
        return [thread_id, *self.ancestors_of(thread_id)][-1]


def full_server_name(server: str, environment: str | None) -> str:
    """Return the name of an MCP server, with the environment that registered it, if one did:
    ``name (environment id)``. Two servers may have one name; Codex allows no space in a name."""
    return server if environment is None else f"{server} (environment {environment})"


def server_of(call: models.McpToolCallThreadItem) -> str:
    """Return the `full_server_name` of a call's server."""
    return full_server_name(call.server, call.environment_id)


def same_call(one: models.ThreadItem, other: models.ThreadItem) -> bool:
    """Return whether two items are a call of one MCP tool with the same arguments."""
    return (
        isinstance(one, models.McpToolCallThreadItem)
        and isinstance(other, models.McpToolCallThreadItem)
        and (server_of(one), one.tool) == (server_of(other), other.tool)
        and same_json(one.arguments, other.arguments)
    )


def _same_command(one: models.ThreadItem, other: models.ThreadItem) -> bool:
    return (
        isinstance(one, models.CommandExecutionThreadItem)
        and isinstance(other, models.CommandExecutionThreadItem)
        and (one.command, one.cwd) == (other.command, other.cwd)
    )


def id_of(item: models.ThreadItem) -> str:
    """Return the id of an item, also of an unknown type."""
    return str(item.wire().get("id")) if isinstance(item, UnknownVariant) else item.id


class PathLook(NamedTuple):
    """A path as one look at the disk found it."""

    place: str = ""
    """The path with the links of its directories followed: the entry that a removal removes."""
    real: str = ""
    """`place`, followed if it is a link: the file that is read and written."""
    named: str = ""
    """The path; if it begins with a session's directory, with that directory's real path."""
    exists: bool = False
    """Whether anything is at `real`."""
    size: int = 0
    """Bytes of the file at `real`."""
    text: str | None = None
    """Whole text of the file at `real`, if it was wanted and could be read."""
    unread: str = ""
    """Why the wanted text of an existing file is missing."""
    problem: str = ""
    """Why the other fields are unknown: a clause about the path."""
    per_process: bool = False
    """Whether the path leads to different files in different processes, as ``/proc/self`` does."""


UNKNOWN_PLACE: Final = "where it really leads could not be found out: "
"""Begins a `PathLook.problem`; the reason follows."""

NOT_IN_TIME: Final = f"{UNKNOWN_PLACE}the disk did not answer in time"
"""`PathLook.problem` of a path that was not looked at."""


LOOK_ELSEWHERE: Final = PathLook(problem="not looked at: it may be on another machine")
"""The look at a path of an action that may not be on this machine: the disk here says nothing."""


def entry_of(looks: Mapping[str, PathLook], path: str) -> str:
    """Return the `PathLook.place` of a path; the path if nobody has looked at it."""
    return looks.get(path, PathLook()).place or path


def file_of(looks: Mapping[str, PathLook], path: str) -> str:
    """Return the `PathLook.real` of a path; the path if nobody has looked at it."""
    return looks.get(path, PathLook()).real or path


def created_paths(changes: Sequence[models.FileUpdateChange]) -> list[str]:
    """Return the paths at which the changes make a file, and replace one that exists."""
    added = [each.path for each in changes if isinstance(each.kind, models.AddPatchChangeKind)]
    return [*added, *filter(None, map(move_target, changes))]


def removed_paths(changes: Sequence[models.FileUpdateChange]) -> list[str]:
    """Return the paths that the changes remove. Removing a link leaves its target."""
    return [
        change.path
        for change in changes
        if isinstance(change.kind, models.DeletePatchChangeKind) or move_target(change) is not None
    ]


def move_target(change: models.FileUpdateChange) -> str | None:
    """Return where an edit moves the file to."""
    return change.kind.move_path if isinstance(change.kind, models.UpdatePatchChangeKind) else None


class Reach(NamedTuple):
    """A turn to interrupt, because its model called a thread of another session, or because the
    turn got the message of such a call."""

    thread_id: str
    turn_id: str
    others: tuple[str, ...]
    """Threads of other sessions that the turn's model called; empty if it got a message."""


class _SentInput(NamedTuple):
    """A message that a model sends to a thread of another session."""

    call: tuple[str, str]
    """Thread and item of the call."""
    thread_id: str
    text: str | None
    """None if Codex does not report the text."""


class ForeignReach:
    """Finds the turns to interrupt. The owner applies each notification to `Items` first."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._sent: deque[_SentInput] = deque(maxlen=MAX_PARENTS)
        """Messages that have not arrived; the message of an interrupted call never arrives."""
        self.reached: LastOnes[str, tuple[str, ...]] = LastOnes(MAX_ENDED)
        """Interrupted turn → `Reach.others`."""

    def apply(self, event: ServerNotification) -> Reach | None:
        """Return the turn to interrupt now, if any."""
        if not isinstance(event, notifications.ItemStartedEvent | notifications.ItemCompletedEvent):
            return None
        thread, turn, item = event.params.thread_id, event.params.turn_id, event.params.item
        others = tuple(self._items.reached_elsewhere(thread, item))
        messages: list[_SentInput] = []
        if isinstance(item, models.CollabAgentToolCallThreadItem) and item.tool == "sendInput":
            messages = [_SentInput((thread, item.id), each, item.prompt) for each in others]
        if isinstance(event, notifications.ItemCompletedEvent):
            if getattr(item, "status", None) == "failed":
                for sent in messages:
                    with suppress(ValueError):
                        self._sent.remove(sent)
            return None
        self._sent += messages
        is_sent = isinstance(item, models.UserMessageThreadItem) and self._was_sent(thread, item)
        if not others and not is_sent:
            return None
        if turn in self.reached:  # a second interrupt would end the next turn
            return None
        self.reached[turn] = others
        return Reach(thread, turn, others)

    def _was_sent(self, thread: str, message: models.UserMessageThreadItem) -> bool:
        """Return whether a model of another session sent a message, and forget the call."""
        if message.client_id is not None:  # a client sent it
            return False
        text = None  # with images and mentions, the call has no exact text to compare
        if len(message.content) == 1 and isinstance(message.content[0], models.TextUserInput):
            text = message.content[0].text
        for sent in self._sent:
            if sent.thread_id == thread and (text is None or sent.text in (text, None)):
                self._sent.remove(sent)
                return True
        return False
