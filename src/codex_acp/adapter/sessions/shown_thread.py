"""Turns the notifications of one thread into events, in the order in which they came.

A session's own thread and those of its sub-agents are shown alike. Owns the mapping's memory of a
thread and what has to wait: pieces of text, the files of an edit, output that comes too fast.
Pieces of one text that came in one read are joined. The owner decides where the events go, and
what a turn means.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from codex_acp.adapter.ordered_steps import OrderedSteps
from codex_acp.adapter.prompts.turn_events import TURN_METHODS
from codex_acp.codex._generated.notifications import TurnCompletedEvent, UnknownNotification
from codex_acp.mapping.item_calls import wanted_looks
from codex_acp.mapping.messages import close_compactions
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, PIECES, WITHOUT_SECRETS
from codex_acp.mapping.running_calls import close_open_calls, due, flush_due
from codex_acp.mapping.step import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.adapter.server.held_notifications import HeldNotifications
    from codex_acp.codex._generated.models import Turn
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import SessionEvents
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks


if TYPE_CHECKING:
    _Row = Callable[[SessionState, Any], SessionEvents]


ROWS: Final = {
    method: cast("_Row", row)
    for method, row in NOTIFICATION_HANDLERS.items()
    if not isinstance(row, Ignored)
}
"""The rows of the notification table that show something."""

SHOW_FILES: Final = frozenset({"item/started", "item/completed", "item/fileChange/patchUpdated"})
"""Notifications that may show the files of an edit whole."""


class ThreadOwner(Protocol):
    """Decides what of a thread is shown, and sends it: a session, or a sub-agent's session."""

    def on_arrival(self, method: str, params: JsonValue) -> None:
        """Handle a notification before it queues behind file reads: it may name a sub-agent."""

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        """Note what a notification of `TURN_METHODS` means for turns, shown or not."""

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Return whether the notification may be shown now."""

    def may_show_pieces(self, turn_id: str) -> bool:
        """Return whether pieces of a text of this turn may be shown now."""

    def tell(self, told: SessionEvents) -> None:
        """Send events to the client."""

    def turn_ended(self, turn: Turn) -> None:
        """Note that a turn ended; its events were sent."""

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        """Note that a turn ended, with a ``turn/completed`` that does not fit the schema."""

    def after_read(self) -> None:
        """Called after each read that had a notification of this thread."""

    def thread_gone(self, error: TransportError | None) -> None:
        """Note that the app-server is gone; ``error`` None: it ended cleanly."""


class ShownThread:
    """Turns the notifications of one thread into events, from `follow` on.

    ``state`` is the mapping's memory of the thread; a replay may have filled it.
    """

    def __init__(
        self, codex: AppServerConnection, thread_id: str, state: SessionState, owner: ThreadOwner
    ) -> None:
        self.codex = codex
        """The connection that the thread is on now."""
        self.state = state
        self._id = thread_id
        self._owner = owner
        self._steps = OrderedSteps(state.roots)
        self._pieces = JoinedPieces(self._hear, self._take_pieces)
        self.on_notification: Callable[[str, JsonValue], None] = self._pieces.hear
        """Takes each notification in order, though the files of an edit may have to be read."""
        self._timer = DueTimer(lambda: due(state), self._flush_due)

    def follow(self, held: HeldNotifications | None = None) -> None:
        """Take the notifications that were held, then subscribe to those that follow."""
        if held is not None:
            held.hand_over(self)
        self.codex.subscribe(self._id, self)

    def leave(self) -> None:
        """Unsubscribe from the thread."""
        self.codex.unsubscribe(self._id, self)

    def on_batch_end(self) -> None:
        """Show the pieces of this read, and set the timer for output that has to wait."""
        self._pieces.flush()
        if self.state.open_calls:
            self._timer.set()
        self._owner.after_read()

    def on_closed(self, error: TransportError | None) -> None:
        self.show_without_files()
        self.close_open()
        self._owner.thread_gone(error)

    def put(self, step: Callable[[], None]) -> None:
        """Run ``step`` after everything that has arrived."""
        self._pieces.flush()
        self._steps.put(step)

    async def wait_shown(self) -> None:
        """Wait until everything that has arrived was shown."""
        self._pieces.flush()
        await self._steps.wait_idle()

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Look at the paths on disk, after everything that has arrived (`OrderedSteps.read`)."""
        self._pieces.flush()
        return await self._steps.look(wanted)

    def show_without_files(self) -> None:
        """Show everything that has arrived at once, without reading files."""
        self._pieces.flush()
        self._steps.run_without_files()

    def drop(self) -> None:
        """Unsubscribe, and show nothing more."""
        self.leave()
        self._steps.drop()
        self._timer.stop()

    def close_open(self) -> None:
        """End open tool calls and compactions: their turn is over, also if Codex is silent."""
        self._owner.tell(close_compactions(self.state))
        self._owner.tell(close_open_calls(self.state))
        self._steps.forget_files()
        self.state.looks = {}

    def _hear(self, method: str, params: JsonValue) -> None:
        self._owner.on_arrival(method, params)
        self._steps.put(self._take, method, params)

    def _take(self, method: str, params: JsonValue) -> None:
        """Show a notification by its row, and tell the owner what it means for turns.

        The end of an item is told after it was shown, because a turn may wait for that.
        """
        if method == "item/completed":
            try:
                self._show(method, params)
            finally:
                self._owner.on_turn_event(method, params)
        else:
            if method in TURN_METHODS:
                self._owner.on_turn_event(method, params)
            self._show(method, params)

    def _show(self, method: str, params: JsonValue) -> None:
        row = ROWS.get(method)
        if row is None or not self._owner.may_show(method, params):
            return
        if method in WITHOUT_SECRETS:
            params = WITHOUT_SECRETS[method](params)
        event = self.codex.decode_notification(method, params)
        if isinstance(event, UnknownNotification):
            if method == "turn/completed":
                self._owner.turn_end_unreadable(params, event.problem)
            return
        if method in SHOW_FILES:
            if wanted := wanted_looks(event.params, self.state.roots):
                self._steps.read(wanted, lambda looks: self._show_edit(event, params, looks))
                return
            self.state.looks = {}
        try:
            self.state.now = monotonic()
            self._owner.tell(row(self.state, event.params))
        finally:  # the prompt must return, whatever cannot be shown
            if isinstance(event, TurnCompletedEvent):
                self._owner.turn_ended(event.params.turn)

    def _take_pieces(self, method: str, turn_id: str, item_id: str, text: str) -> None:
        """Show joined pieces of one text, after everything that has arrived."""
        if self._steps.busy:
            self._steps.put(self._take_pieces, method, turn_id, item_id, text)
        elif self._owner.may_show_pieces(turn_id):
            self.state.now = monotonic()
            self._owner.tell(PIECES[method](self.state, item_id, text))

    def _show_edit(self, event: ServerNotification, params: JsonValue, looks: Looks) -> None:
        """Show an event whose files were looked at, unless its turn is over by now."""
        if not self._owner.may_show(event.method, params):
            return
        self.state.now, self.state.looks = monotonic(), looks
        self._owner.tell(ROWS[event.method](self.state, event.params))
        self._timer.set()

    def _flush_due(self) -> None:
        self.state.now = monotonic()
        self._owner.tell(flush_due(self.state))


class DueTimer:
    """Calls ``flush`` at the time that ``due`` returns (monotonic clock); None: not yet."""

    def __init__(self, due: Callable[[], float | None], flush: Callable[[], None]) -> None:
        self._due = due
        self._flush = flush
        self._timer: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Start the timer if ``due`` names a time and the timer does not run yet."""
        at = None if self._timer is not None else self._due()
        if at is not None:
            delay = max(0.0, at - monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._now)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._flush()
        self.set()


MEMBERS: Final = frozenset({"threadId", "turnId", "itemId", "delta"})
"""Members of a piece; one with more is taken by itself, so that nothing new is lost."""


class JoinedPieces:
    """Gives what one thread reports to ``take``, in order; the pieces that came last it keeps.

    Those it gives to ``take_pieces``: their method, their turn, their item, and the text.
    """

    __slots__ = ("_item_id", "_method", "_take", "_take_pieces", "_texts", "_turn_id")

    def __init__(
        self,
        take: Callable[[str, JsonValue], None],
        take_pieces: Callable[[str, str, str, str], None],
    ) -> None:
        self._take = take
        self._take_pieces = take_pieces
        self._texts: list[str] = []
        """Empty: nothing is kept, and the rest means nothing."""
        self._method = self._turn_id = self._item_id = ""

    def hear(self, method: str, params: JsonValue) -> None:
        """A notification came."""
        if method in PIECES and type(params) is dict and params.keys() == MEMBERS:
            turn_id, item_id, text = params["turnId"], params["itemId"], params["delta"]
            if type(text) is str and type(item_id) is str and type(turn_id) is str:
                if not (
                    item_id == self._item_id and turn_id == self._turn_id and method == self._method
                ):
                    self.flush()
                    self._method, self._turn_id, self._item_id = method, turn_id, item_id
                self._texts.append(text)
                return
        if self._texts:
            self.flush()
        self._take(method, params)

    def flush(self) -> None:
        """Give what is kept, before all else that happens."""
        texts = self._texts
        if texts:
            self._texts = []
            text = texts[0] if len(texts) == 1 else "".join(texts)
            self._take_pieces(self._method, self._turn_id, self._item_id, text)
