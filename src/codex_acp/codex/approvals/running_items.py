"""PURE: the items in progress, the turns that run, the parents of threads, and foreign reaches.

Folds the server's notifications, for the adapter and for headless policies. Does no IO and reads
no clock. What Codex reports here is the only proof of where a request comes from.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp._last_ones import LastOnes
from codex_acp._record import record
from codex_acp.codex._generated import models, notifications
from codex_acp.wire.codec import same_json
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Container

    from codex_acp.codex._generated.notifications import ServerNotification


FOLLOWED: Final = frozenset(
    {
        "item/completed",
        "item/fileChange/patchUpdated",
        "item/started",
        "thread/closed",
        "thread/started",
        "turn/completed",
        "turn/started",
    }
)
"""The notifications that `Items.apply` learns from; all others change nothing."""

MAX_PARENT_STEPS: Final = 64
"""Sub-agents start sub-agents, but never in a circle; a bound all the same."""

MAX_ENDED: Final = 1_000
"""Ended turns that are remembered, to tell them from one that runs within another."""

MAX_PARENTS: Final = 10_000
"""Sub-agents that are remembered, far more than ever run; a forgotten one's requests decline."""


@record
class RunningItem:
    """An item that started and has not completed, as Codex last reported it."""

    thread_id: str
    turn_id: str
    item: models.ThreadItem
    asked: bool = False
    """Whether an approval was shown for it that is still open, or was answered."""
    shared: bool = False
    """Whether another call has started under its id since: nobody can tell which one is asked."""


@record
class Items:
    """The items, turns and parents of all threads of one app-server connection."""

    opened: Container[str] = frozenset()
    """Threads that this side has opened: nobody's sub-agents, though a model may name them so."""
    _items: dict[tuple[str, str], RunningItem] = field(default_factory=dict)
    _turns: dict[str, str] = field(default_factory=dict)
    _outer: dict[str, str] = field(default_factory=dict)
    """Thread → the turn that its running turn is a part of: a review, whose items bear that id."""
    _ended: LastOnes[str, None] = field(default_factory=partial(LastOnes, MAX_ENDED))
    _parents: LastOnes[str, str] = field(default_factory=partial(LastOnes, MAX_PARENTS))

    # Reports of Codex.

    def apply(self, event: ServerNotification) -> None:
        """Learn from one notification; those that are not in `FOLLOWED` change nothing."""
        if isinstance(event, notifications.ItemStartedEvent):
            self._started(event.params.thread_id, event.params.turn_id, event.params.item)
        elif isinstance(event, notifications.ItemCompletedEvent):
            self._children(event.params.thread_id, event.params.item)
            self._items.pop((event.params.thread_id, _id_of(event.params.item)), None)
        elif isinstance(event, notifications.ItemFileChangePatchUpdatedEvent):
            running = self._items.get((event.params.thread_id, event.params.item_id))
            if running is not None and isinstance(running.item, models.FileChangeThreadItem):
                changes = list(event.params.changes)
                running.item = running.item.model_copy(update={"changes": changes})
        elif isinstance(event, notifications.TurnStartedEvent):
            self._turn_started(event.params.thread_id, event.params.turn)
        elif isinstance(event, notifications.TurnCompletedEvent):
            if self.is_running(event.params.thread_id, event.params.turn.id):
                self._turn_over(event.params.thread_id)
            self._ended[event.params.turn.id] = None
        elif isinstance(event, notifications.ThreadStartedEvent):
            self.learn_thread(event.params.thread)
        elif isinstance(event, notifications.ThreadClosedEvent):
            self._turn_over(event.params.thread_id)
            self._parents.pop(event.params.thread_id, None)

    def learn_thread(self, thread: models.Thread) -> None:
        """Learn a thread's parent and sub-agents, and (after ``thread/resume``) what still runs."""
        if thread.parent_thread_id is not None:
            # The parent that Codex itself tells outweighs what items say.
            line = [thread.parent_thread_id, *self.ancestors_of(thread.parent_thread_id)]
            if thread.id in line[1:]:
                del self._parents[line[line.index(thread.id) - 1]]
            self._parents.pop(thread.id, None)
            self._child(thread.parent_thread_id, thread.id)
        for turn in thread.turns:
            for item in turn.items:
                self._children(thread.id, item)
            if turn.status == "inProgress":
                self._turn_started(thread.id, turn)
                for item in turn.items:
                    if getattr(item, "status", None) == "inProgress":
                        self._started(thread.id, turn.id, item)

    def _started(self, thread_id: str, turn_id: str, item: models.ThreadItem) -> None:
        self._children(thread_id, item)
        if not self.is_running(thread_id, turn_id):
            return  # nothing of it could be approved, and no end would ever take it away
        running = self._items.setdefault(
            (thread_id, _id_of(item)), RunningItem(thread_id, turn_id, item)
        )
        if isinstance(running.item, models.McpToolCallThreadItem):  # others start more than once
            running.shared = running.shared or not same_call(running.item, item)
        running.item = item

    def _turn_started(self, thread_id: str, turn: models.Turn) -> None:
        if self._turns.get(thread_id) == turn.id:
            return
        self._turn_over(thread_id)  # a thread runs one turn at a time
        self._turns[thread_id] = turn.id
        outer = turn.root_turn_id
        if outer not in (None, turn.id) and outer not in self._ended:
            self._outer[thread_id] = outer

    def _turn_over(self, thread_id: str) -> None:
        self._turns.pop(thread_id, None)
        self._outer.pop(thread_id, None)
        for key in [key for key in self._items if key[0] == thread_id]:
            del self._items[key]

    def _children(self, thread_id: str, item: models.ThreadItem) -> None:
        """Learn sub-agents: an item names their threads when it completes, or by later activity."""
        if isinstance(item, models.CollabAgentToolCallThreadItem):
            for child in item.receiver_thread_ids:
                self._child(thread_id, child)
        elif isinstance(item, models.SubAgentActivityThreadItem):
            self._child(thread_id, item.agent_thread_id)

    def _child(self, parent: str, child: str) -> None:
        """Remember a parent; never a circle: a sub-agent also writes to the thread above it."""
        if child in self._parents or child in (parent, *self.ancestors_of(parent)):
            return
        self._parents[child] = parent

    # Questions about what was learned.

    def reached_elsewhere(self, thread_id: str, item: models.ThreadItem) -> list[str]:
        """Return the threads of other sessions that a call of a tool for agents is about."""
        if not isinstance(item, models.CollabAgentToolCallThreadItem):
            return []
        root = self.root_of(thread_id)
        return [other for other in item.receiver_thread_ids if self.root_of(other) != root]

    def is_running(self, thread_id: str, turn_id: str | None) -> bool:
        """Whether this very turn, or one within it, has started and not ended."""
        running = (self._turns.get(thread_id), self._outer.get(thread_id))
        return turn_id is not None and turn_id in running

    def running_turn(self, thread_id: str) -> str | None:
        """Return the thread's turn that has started and not ended."""
        return self._turns.get(thread_id)

    def running_below(self, thread_id: str) -> list[tuple[str, str]]:
        """Return its sub-agents' threads, at any depth, whose turns run; each with its turn."""
        running = self._turns.items()
        return [(t, turn) for t, turn in running if thread_id in self.ancestors_of(t)]

    def below(self, thread_id: str) -> list[str]:
        """Return its sub-agents' threads, at any depth, whether anything runs there or not."""
        return [each for each in self._parents if thread_id in self.ancestors_of(each)]

    def get(self, thread_id: str, item_id: str) -> RunningItem | None:
        """Return the item, if it is in progress."""
        return self._items.get((thread_id, item_id))

    def mcp_calls(self, thread_id: str, turn_id: str, server: str) -> list[RunningItem]:
        """Return this server's calls that run in this turn and nobody asked about, oldest first.

        Not those that share an id: MCP calls run side by side where their server is set up so.
        """
        return [
            running
            for (thread, _), running in self._items.items()
            if thread == thread_id
            and running.turn_id == turn_id
            and not running.asked
            and not running.shared
            and isinstance(running.item, models.McpToolCallThreadItem)
            and running.item.server == server
        ]

    def ancestors_of(self, thread_id: str) -> list[str]:
        """Return the line of parents of a thread, its own parent first."""
        line: list[str] = []
        while thread_id not in self.opened and len(line) < MAX_PARENT_STEPS:
            parent = self._parents.get(thread_id)
            if parent is None:
                break
            line.append(parent)
            thread_id = parent
        return line

    def root_of(self, thread_id: str) -> str:
        """Return the thread at the top of the line of parents: itself if it has none."""
        return [thread_id, *self.ancestors_of(thread_id)][-1]


def same_call(one: models.ThreadItem, other: models.ThreadItem) -> bool:
    """Whether two items are a call of one MCP tool with the same arguments."""
    return (
        isinstance(one, models.McpToolCallThreadItem)
        and isinstance(other, models.McpToolCallThreadItem)
        and (one.server, one.tool) == (other.server, other.tool)
        and same_json(one.arguments, other.arguments)
    )


def _id_of(item: models.ThreadItem) -> str:
    return str(item.wire().get("id")) if isinstance(item, UnknownVariant) else item.id


class Reach(NamedTuple):
    """A turn to be interrupted; ``others``: threads that its model has reached for, if it has."""

    thread_id: str
    turn_id: str
    others: tuple[str, ...]


class ForeignReach:
    """Follows one connection; `Items` is told of each notification first."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._fed: set[tuple[str, str, str]] = set()
        """Idle threads to whose agents another session's model has just written, each with the
        thread and the item of the call."""
        self.reached: LastOnes[str, tuple[str, ...]] = LastOnes(MAX_ENDED)
        """Turns that were to be interrupted, with the threads that they have reached for."""

    def apply(self, event: ServerNotification) -> Reach | None:
        """Return the turn that is to be interrupted now, if any."""
        if isinstance(event, notifications.ItemStartedEvent):
            thread, turn, item = event.params.thread_id, event.params.turn_id, event.params.item
            others = tuple(self._items.reached_elsewhere(thread, item))
            if getattr(item, "tool", None) == "sendInput":
                idle = (each for each in others if self._items.running_turn(each) is None)
                self._fed.update((each, thread, getattr(item, "id", "")) for each in idle)
            # An interrupt that is sent twice would end the next turn.
            if others and turn not in self.reached:
                return self._reach(thread, turn, others)
        elif isinstance(event, notifications.ItemCompletedEvent):
            item = event.params.item
            if getattr(item, "status", None) == "failed":  # nothing begins because of it
                call = (event.params.thread_id, getattr(item, "id", None))
                self._fed -= {each for each in self._fed if each[1:] == call}
        elif isinstance(event, notifications.TurnStartedEvent):
            thread, turn = event.params.thread_id, event.params.turn.id
            fed = {each for each in self._fed if each[0] == thread}
            if fed:
                self._fed -= fed
                return self._reach(thread, turn, ())
        return None

    def _reach(self, thread: str, turn: str, others: tuple[str, ...]) -> Reach:
        self.reached[turn] = others
        return Reach(thread, turn, others)
