"""Report running turns that send no event for a set time (docs/contract.md, 6.3).

Owns the time of each turn's last event. Never ends a turn: the program decides. A
`Turn` finds its own silences, by `ThreadServices.last_event`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp.codex._generated import notifications
from codex_acp.codex.approvals.running_items import USED_BY_ITEMS, Items
from codex_acp.codex.connection.notification_router import NotificationSink, thread_of
from codex_acp.codex.connection.server_requests import OpenRequest, as_text
from codex_acp.errors import TransportError, must_be_seconds, refuse_unless

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue


logger = logging.getLogger(__name__)

CHECKS_PER_SILENCE: Final = 4
"""Checks within the seconds of a silence: a report is late by a quarter at most."""


@dataclass(frozen=True, slots=True)
class SilentTurn:
    """A running turn without events."""

    thread_id: str
    turn_id: str
    seconds: float
    """Seconds since the last event of the turn or of its sub-agents."""
    open_requests: tuple[OpenRequest, ...]
    """The server's requests, of all threads, that wait for an answer of this program."""


class TurnWatchdog(NotificationSink):
    """Calls ``report`` once for each silence of a turn; the turn's next event arms it again.

    ``async with anyio.create_task_group() as group: group.start_soon(watchdog.run)``, or call
    `check` from a timer of the program's own. ``after`` and ``clock`` are in seconds. An event of a
    sub-agent counts for the turns above it; events without a thread do not count.

    Raises MisuseError if ``after`` is not positive, or ``report`` is no function.
    """

    def __init__(
        self,
        client: AppServerConnection,
        after: float,
        report: Callable[[SilentTurn], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        must_be_seconds("after", after)
        refuse_unless(callable(report), "report is a function", report)
        self._client = client
        self._after = after
        self._report = report
        self._clock = clock
        self._items = Items(client.opened_threads)
        self._last_event: dict[tuple[str, str], float] = {}
        """Thread and turn → time of the turn's last event."""
        self._reported: set[tuple[str, str]] = set()
        client.subscribe_all(self)

    def __repr__(self) -> str:
        return f"TurnWatchdog(after={self._after!r}, turns={len(self._last_event)})"

    async def run(self) -> None:
        """Check until cancelled or the connection ends."""
        while not self._client.closed:
            self.check()
            await anyio.sleep(self._after / CHECKS_PER_SILENCE)

    def close(self) -> None:
        """Stop watching."""
        self._client.unsubscribe_all(self)
        self._last_event.clear()

    def expect(self, thread_id: str, turn_id: str) -> None:
        """Watch a turn from now on, before Codex reports its start."""
        self._last_event.setdefault((thread_id, turn_id), self._clock())

    def forget(self, thread_id: str, turn_id: str) -> None:
        """Stop watching a turn."""
        self._last_event.pop((thread_id, turn_id), None)
        self._reported.discard((thread_id, turn_id))

    def check(self) -> list[SilentTurn]:
        """Report the turns that are silent by now and were not reported, and return them."""
        now = self._clock()
        silent = []
        for turn, last_event in self._last_event.items():
            if now - last_event >= self._after and turn not in self._reported:
                self._reported.add(turn)
                open_requests = self._client.open_requests
                silent.append(SilentTurn(*turn, now - last_event, open_requests))
        for report in silent:
            logger.warning(
                "turn %s of thread %s is silent for %.1f s; open server requests: %s",
                report.turn_id, report.thread_id, report.seconds, as_text(report.open_requests),
            )  # fmt: skip
            try:
                self._report(report)
            except Exception:
                logger.exception("the report of a silent turn failed")
        return silent

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None:
            return
        event = (
            self._client.decode_notification(method, params) if method in USED_BY_ITEMS else None
        )
        if event is not None and not isinstance(event, notifications.UnknownNotification):
            self._items.apply(event)
        now = self._clock()
        turn_id = self._items.running_turn(thread_id)
        if turn_id is not None:  # perhaps not announced by `expect`
            self._last_event.setdefault((thread_id, turn_id), now)
        # The event counts for the turns of its thread and of the threads above.
        threads = {thread_id, *self._items.ancestors_of(thread_id)}
        for turn in self._last_event:
            if turn[0] in threads:
                self._last_event[turn] = now
                self._reported.discard(turn)
        if isinstance(event, notifications.TurnCompletedEvent):
            self.forget(thread_id, event.params.turn.id)
        elif isinstance(event, notifications.ThreadClosedEvent):
            for turn in [each for each in self._last_event if each[0] == thread_id]:
                self.forget(*turn)

    def on_closed(self, error: TransportError | None) -> None:
        """Stop watching; whoever waits for a turn gets an error from the connection."""
        del error
        self._last_event.clear()
