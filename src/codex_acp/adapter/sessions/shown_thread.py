"""Turns the notifications of one thread into session events, in the order of arrival.

The thread is a session's root thread or a sub-agent's. Owns the mapping's state of the thread, and
what waits: pieces of text, file reads for an edit, output that comes too fast. Joins the pieces of
one text that came in one read. The host sends the events, and follows the turns.

`OrderedSteps` reads the files of an edit in a thread of this process. Later steps of the session
wait behind the step that needs the files. Other sessions continue. After a read that takes too
long, the step runs with every file marked as not looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from codex_acp._files import read_regular
from codex_acp._json import object_at, text_at
from codex_acp.adapter.session import events as ev
from codex_acp.codex._generated.notifications import (
    ErrorEvent,
    TurnCompletedEvent,
    UnknownNotification,
)
from codex_acp.codex.approvals.real_paths import LOOK_SECONDS, look_at, not_looked_at
from codex_acp.codex.approvals.running_items import LOOK_ELSEWHERE
from codex_acp.mapping.item_calls import wanted_looks
from codex_acp.mapping.messages import close_compactions
from codex_acp.mapping.notifications import NOTIFICATION_HANDLERS, PIECES, WITHOUT_SECRETS, Ignored
from codex_acp.mapping.running_calls import close_open_calls, due, flush_due

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.adapter.server.threadless_notifications import HeldNotifications
    from codex_acp.codex._generated.models import ErrorNotification, Turn
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.approvals.running_items import PathLook
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.events import SessionEvents
    from codex_acp.mapping.state import SessionState
    from codex_acp.routing.changes import Looks

    _Handler = Callable[[SessionState, Any], SessionEvents]

logger = logging.getLogger(__name__)

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts that one `look_at_files` returns; further files are shown as patches only."""

MAX_FILES: Final = 64
"""Files whose texts one `look_at_files` returns."""

MAX_BEHIND: Final = 2_000
"""Steps that may wait behind a read; one more ends the wait for the read."""


def start_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread, which does not keep the process alive."""
    Thread(target=work, name="codex-acp files", daemon=True).start()


class OrderedSteps:
    """The steps of one session. At most one daemon thread reads files, even if a read hangs."""

    def __init__(self, roots: Mapping[str, str]) -> None:
        self._roots = roots
        self._waiting_step: Callable[[Looks], None] | None = None
        self._wanted: Mapping[str, bool] = {}
        """The files that `_waiting_step` waits for; see `read`."""
        self._later_steps: deque[Callable[[], None]] = deque()
        self._reading = False
        """Whether the daemon thread runs, perhaps after the wait for its read has ended."""
        self._timer: asyncio.TimerHandle | None = None
        self._wait_over = asyncio.Event()
        """Set for a moment when a step waits no longer."""

    @property
    def busy(self) -> bool:
        """Whether a step waits for its files, so that later steps must be `put` behind it."""
        return self._waiting_step is not None

    def put(self, step: Callable[..., None], *arguments: object) -> None:
        """Run ``step`` now, or behind the steps that wait."""
        if self._waiting_step is None:
            step(*arguments)
            return
        self._later_steps.append(partial(step, *arguments))
        if len(self._later_steps) > MAX_BEHIND:
            self._run_waiting()

    def read(self, wanted: Mapping[str, bool], step: Callable[[Looks], None]) -> None:
        """Look at the files in a daemon thread, then call ``step`` with the looks.

        If no file is wanted or the thread still reads, call ``step`` at once, with every file
        marked as not looked at. ``wanted`` maps each path to whether its text is read, too (False:
        only where the path leads). Only a step may call this while another step waits."""
        if not wanted or self._reading:
            step(not_looked_at(wanted))
            return
        loop = asyncio.get_running_loop()
        self._waiting_step, self._wanted, self._reading = step, wanted, True
        self._timer = loop.call_later(LOOK_SECONDS, self._give_up)

        def look_in_thread() -> None:
            looks: Looks | None = None
            try:
                looks = look_at_files(wanted, self._roots)
            finally:
                with suppress(RuntimeError):  # the event loop has ended meanwhile
                    loop.call_soon_threadsafe(go_on, looks)

        def go_on(looks: Looks | None) -> None:
            self._reading = False
            if self._waiting_step is step:  # else the step has run without the files
                self._run_waiting(looks)

        start_thread(look_in_thread)

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Look at the files after all steps that wait; return the looks. See `read`."""
        await self.wait_idle()
        looks: dict[str, PathLook] = not_looked_at(wanted)
        self.read(wanted, looks.update)
        await self.wait_idle()
        return looks

    async def wait_idle(self) -> None:
        while self._waiting_step is not None:
            await self._wait_over.wait()

    def run_without_files(self) -> None:
        """Run all steps that wait now, without the files."""
        while self._waiting_step is not None:
            self._run_waiting()

    def drop(self) -> None:
        """Forget all steps that wait."""
        self._later_steps.clear()
        self._waiting_step = None
        self._end_wait()

    def _give_up(self) -> None:
        logger.warning(
            "the files of an action could not be read within %g s: it is shown as Codex reports it",
            LOOK_SECONDS,
        )
        self._run_waiting()

    def _run_waiting(self, looks: Looks | None = None) -> None:
        """Run the waiting step (without ``looks``: without its files), then the later steps."""
        step, self._waiting_step = self._waiting_step, None
        self._end_wait()
        if step is not None:
            _run_step(partial(step, not_looked_at(self._wanted) if looks is None else looks))
        while self._later_steps and self._waiting_step is None:
            _run_step(self._later_steps.popleft())

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wait_over.set()
        self._wait_over.clear()


def _run_step(step: Callable[[], None]) -> None:
    try:
        step()
    except Exception:
        logger.exception("a step that waited for files has failed")


def look_at_files(wanted: Mapping[str, bool], roots: Mapping[str, str]) -> dict[str, PathLook]:
    """Return where each path leads, with the file's text if ``wanted`` maps the path to True. Waits
    for the disk. ``roots`` has the session's directories, as in `look_at`."""
    looks = look_at(wanted, roots)
    bytes_left, count = STEP_LIMIT, 0
    for path, with_text in wanted.items():
        look = looks[path]
        if not with_text or not look.exists:
            continue
        count += 1
        limit = min(bytes_left, TEXT_LIMIT) if count <= MAX_FILES else 0
        if look.size > limit:
            looks[path] = look._replace(unread="it is too large")
            continue
        try:
            content = read_regular(path, limit)
            looks[path] = look._replace(text=content.decode())
            bytes_left -= len(content)
        except UnicodeDecodeError:
            looks[path] = look._replace(unread="it is no UTF-8 text")
        except OSError:
            looks[path] = look._replace(unread="it cannot be read")
        except ValueError as error:
            looks[path] = look._replace(unread=str(error))
    return looks


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
    """Decides which notifications of a thread are shown, and sends their events: a session, or a
    sub-agent's session. The default methods show everything."""

    def on_arrival(self, method: str, params: JsonValue) -> None:
        """Handle a notification before it queues behind file reads: it may name a sub-agent."""

    def on_turn_event(self, method: str, params: JsonValue) -> None:
        """Note a notification of `TURN_METHODS`, even one that is not shown."""

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
        self._host.on_arrival(method, params)
        self._steps.put(self._handle, method, params)

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
        """Call ``step`` after all notifications that have arrived are shown."""
        self._flush_pieces()
        self._steps.put(step)

    async def wait_shown(self) -> None:
        """Wait until all notifications that have arrived were shown."""
        self._flush_pieces()
        await self._steps.wait_idle()

    async def look(self, wanted: Mapping[str, bool]) -> Looks:
        """Look at paths on the disk, after all notifications that have arrived; ``wanted``: path →
        whether to read the file's text."""
        self._flush_pieces()
        return await self._steps.look(wanted)

    def stop_showing(self) -> None:
        """Unsubscribe, and drop the notifications that were not shown yet."""
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
        """Show joined pieces of one text, after all earlier notifications."""
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
