"""Turns the notifications of one thread into session events, in the order of arrival.

The thread is a session's root thread or a sub-agent's. Owns the mapping's state of the thread, and
what waits: pieces of text, file reads for an edit, output that comes too fast. Joins the pieces of
one text that came in one read. The host sends the events, and follows the turns.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from codex_acp._json import object_at, text_at
from codex_acp.adapter.ordered_steps import OrderedSteps
from codex_acp.adapter.session import events as ev
from codex_acp.codex._generated.notifications import (
    ErrorEvent,
    TurnCompletedEvent,
    UnknownNotification,
)
from codex_acp.codex.approvals.running_items import LOOK_ELSEWHERE
from codex_acp.mapping.item_calls import wanted_looks
from codex_acp.mapping.messages import close_compactions
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, PIECES, WITHOUT_SECRETS, Ignored
from codex_acp.mapping.running_calls import close_open_calls, due, flush_due

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.adapter.server.held_notifications import HeldNotifications
    from codex_acp.codex._generated.models import ErrorNotification, Turn
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events import SessionEvents
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks

    _Handler = Callable[[SessionState, Any], SessionEvents]

HANDLERS: Final = {
    method: cast("_Handler", handler)
    for method, handler in NOTIFICATION_HANDLERS.items()
    if not isinstance(handler, Ignored)
}
"""The rows of the notification table that make events."""

_SHOWING_FILES: Final = frozenset(
    {"item/started", "item/completed", "item/fileChange/patchUpdated"}
)
"""Notifications whose events may contain the full texts of edited files."""

_MEMBERS_OF_PIECE: Final = frozenset({"threadId", "turnId", "itemId", "delta"})
"""A piece of a text with more members is not joined, so that no member is lost."""


class ThreadHost(Protocol):
    """Decides what of a thread is shown, and sends it: a session, or a sub-agent's session. A class
    that inherits from this shows everything, and may leave out further methods."""

    def on_arrival(self, method: str, params: JsonValue) -> None:
        """Handle a notification before it queues behind file reads: it may name a sub-agent."""

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        """Note what a notification of `TURN_METHODS` means for turns, shown or not."""

    def may_show(self, method: str, params: JsonValue) -> bool:
        """Return whether the notification may be shown now."""
        del method, params
        return True

    def may_show_pieces(self, turn_id: str) -> bool:
        """Return whether pieces of a text of this turn may be shown now."""
        del turn_id
        return True

    def send_events(self, events: SessionEvents) -> None:
        """Send events to the client."""

    def turn_ended(self, turn: Turn) -> None:
        """Note that a turn ended; its events were sent."""

    def final_error(self, params: ErrorNotification) -> None:
        """Note an error that Codex does not retry. The error ends a turn that has not begun; for
        any other turn ``turn/completed`` follows."""
        del params

    def turn_end_unreadable(self, params: JsonValue, problem: str | None) -> None:
        """Note that a turn ended, with a ``turn/completed`` that does not fit the schema."""

    def after_read(self) -> None:
        """Note that a read with notifications of this thread was handled."""
        return

    def thread_gone(self, error: TransportError | None) -> None:
        """Note that the connection to Codex ended; ``error`` None: it was closed on purpose."""


class ShownThread:
    """Turns the notifications of one thread into events, from `follow` on. ``state`` is the
    mapping's state of the thread, perhaps filled by a replay."""

    def __init__(
        self, codex: AppServerConnection, thread_id: str, state: SessionState, host: ThreadHost
    ) -> None:
        self.codex = codex
        """The thread's connection; `Session.move` replaces it after a loss."""
        self.state = state
        self._id = thread_id
        self._host = host
        self._steps = OrderedSteps(state.roots)
        self._pieces: list[str] = []
        """Adjacent pieces of one text in this read, which wait for further pieces."""
        self._text: tuple[str, str, str] = "", "", ""
        """Method, turn and item of `_pieces`."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs while output waits that came too fast."""

    def follow(self, held: HeldNotifications | None = None) -> None:
        """Handle the held notifications, then subscribe to the thread."""
        if held is not None:
            held.hand_over(self)
        self.codex.subscribe(self._id, self)

    def unsubscribe(self) -> None:
        self.codex.unsubscribe(self._id, self)

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Keep a piece of text, or handle another notification behind the pieces."""
        if method in PIECES and type(params) is dict and params.keys() == _MEMBERS_OF_PIECE:
            turn_id, item_id, text = params["turnId"], params["itemId"], params["delta"]
            if type(text) is str and type(item_id) is str and type(turn_id) is str:
                if (method, turn_id, item_id) != self._text:
                    self._flush_pieces()
                    self._text = method, turn_id, item_id
                self._pieces.append(text)
                return
        self._flush_pieces()
        self._arrived(method, params)

    def on_batch_end(self) -> None:
        """Show the pieces of this read, and start the timer for output that has to wait."""
        self._flush_pieces()
        if self.state.open_calls:
            self._set_timer()
        self._host.after_read()

    def on_closed(self, error: TransportError | None) -> None:
        self._flush_pieces()
        self._steps.run_without_files()
        self.end_open_calls()
        self._host.thread_gone(error)

    def call_in_order(self, step: Callable[[], None]) -> None:
        """Call ``step`` after everything that has arrived is shown."""
        self._flush_pieces()
        self._steps.put(step)

    async def wait_shown(self) -> None:
        """Wait until everything that has arrived was shown."""
        self._flush_pieces()
        await self._steps.wait_idle()

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Look at paths on the disk, after everything that has arrived; ``wanted``: path → whether
        to read the file's text."""
        self._flush_pieces()
        return await self._steps.look(wanted)

    def stop_showing(self) -> None:
        """Unsubscribe, and drop what was not shown yet."""
        self.unsubscribe()
        self._steps.drop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end_open_calls(self) -> None:
        """End open tool calls and compactions, because their turn is over."""
        self._host.send_events(close_compactions(self.state))
        self._host.send_events(close_open_calls(self.state))
        self.state.looks = {}

    def _arrived(self, method: str, params: JsonValue) -> None:
        self._host.on_arrival(method, params)
        self._steps.put(self._handle, method, params)

    def _handle(self, method: str, params: JsonValue) -> None:
        """Show a notification, and report turn events to the host. The end of an item is shown
        before its report, because the report may end the turn."""
        if method == "item/completed":
            try:
                self._show(method, params)
            finally:
                self._host.on_turn_event(method, params)
        else:
            if method in TURN_METHODS:
                self._host.on_turn_event(method, params)
            self._show(method, params)

    def _show(self, method: str, params: JsonValue) -> None:
        handler = HANDLERS.get(method)
        if handler is None or not self._host.may_show(method, params):
            return
        if method in WITHOUT_SECRETS:
            params = WITHOUT_SECRETS[method](params)
        event = self.codex.decode_notification(method, params)
        if isinstance(event, UnknownNotification):
            if method == "turn/completed":
                self._host.turn_end_unreadable(params, event.problem)
            return
        if method in _SHOWING_FILES:
            elsewhere = self.state.elsewhere
            wanted = wanted_looks(event.params, () if elsewhere else self.state.roots)
            if wanted and not elsewhere:
                self._steps.read(wanted, lambda looks: self._show_edit(event, params, looks))
                return
            self.state.looks = dict.fromkeys(wanted, LOOK_ELSEWHERE)
        try:
            self.state.now = monotonic()
            self._host.send_events(handler(self.state, event.params))
        finally:  # the prompt must return even if its end cannot be shown
            if isinstance(event, TurnCompletedEvent):
                self._host.turn_ended(event.params.turn)
            elif isinstance(event, ErrorEvent) and not event.params.will_retry:
                self._host.final_error(event.params)

    def _flush_pieces(self) -> None:
        if self._pieces:
            text, self._pieces = "".join(self._pieces), []
            self._show_pieces(*self._text, text)

    def _show_pieces(self, method: str, turn_id: str, item_id: str, text: str) -> None:
        """Show joined pieces of one text, after everything that has arrived."""
        if self._steps.busy:
            self._steps.put(self._show_pieces, method, turn_id, item_id, text)
        elif self._host.may_show_pieces(turn_id):
            self.state.now = monotonic()
            self._host.send_events(PIECES[method](self.state, item_id, text))

    def _show_edit(self, event: ServerNotification, params: JsonValue, looks: Looks) -> None:
        """Show an event after its files were read, unless its turn is over by now."""
        if not self._host.may_show(event.method, params):
            return
        self.state.now, self.state.looks = monotonic(), looks
        self._host.send_events(HANDLERS[event.method](self.state, event.params))
        self._set_timer()

    def _set_timer(self) -> None:
        """Start the timer if output has to wait and the timer does not run yet."""
        at = None if self._timer is not None else due(self.state)
        if at is not None:
            delay = max(0.0, at - monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._flush_due)

    def _flush_due(self) -> None:
        self._timer = None
        self.state.now = monotonic()
        self._host.send_events(flush_due(self.state))
        self._set_timer()


# Events about turns. Params that do not fit the schema still give events, because a prompt must
# always return.

TURN_METHODS: Final = frozenset(
    {"turn/started", "item/started", "item/completed", "thread/status/changed", "thread/closed"}
)
"""Notifications about turns, except ``turn/completed``, which is handled after it is shown."""

_STOPPED: Final = frozenset({"idle", "systemError", "notLoaded"})
"""Statuses of a thread without a running turn."""


def turn_of(params: JsonValue) -> str | None:
    """Return the id of a notification's turn: ``turnId``, or ``turn.id``."""
    return text_at(params, "turnId") or text_at(params, "turn", "id")


def item_of(params: JsonValue) -> str | None:
    return text_at(params, "item", "id")


def turn_event(method: str, params: JsonValue, running: str | None) -> ev.CodexEvent | None:
    """Return the event of a notification of `TURN_METHODS`, None if turns do not depend on it.
    ``running`` is the id of the turn that runs."""
    turn_id, item_id = turn_of(params), item_of(params)
    match method, text_at(params, "item", "type"):
        case "turn/started", _ if turn_id is not None:
            turn = object_at(params, "turn")
            # Codex 0.147 does not name the root turn, which is then the running turn.
            root_id = text_at(turn, "rootTurnId") if "rootTurnId" in turn else running
            return ev.TurnBegan(turn_id, root_id)
        case "item/started", "userMessage":
            message_id = text_at(params, "item", "clientId")
            if message_id is not None and turn_id is not None:
                return ev.MessageRead(message_id, turn_id)
        case "item/started", "contextCompaction" if turn_id is not None:
            return ev.CompactionBegan(turn_id)
        case "item/started", "commandExecution" if item_id is not None:
            return ev.CommandBegan(item_id)
        case "item/completed", _ if item_id is not None:
            return ev.CommandEnded(item_id)
        case "thread/status/changed", _ if text_at(params, "status", "type") in _STOPPED:
            return ev.ThreadStopped()
        case "thread/closed", _:
            return ev.ThreadStopped()
    return None
