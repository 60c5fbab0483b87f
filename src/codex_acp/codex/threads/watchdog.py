"""Reports silence: a running turn of which nothing was heard for a set time (contract 6.3).

Owns when each running turn was last heard of, and one watchdog for each client and time: a hundred
turns must not have a hundred sinks. Ends nothing: what to do about a silent turn is the program's
matter. The clock is given to it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp.codex._generated import notifications
from codex_acp.codex.approvals.running_items import FOLLOWED, Items
from codex_acp.codex.connection.notification_router import NotificationSink, thread_of
from codex_acp.codex.connection.server_requests import OpenRequest, in_words
from codex_acp.errors import MisuseError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


logger = logging.getLogger(__name__)

ROUNDS: Final = 4
"""How often `TurnWatchdog.run` looks within the set time: a report is late by at most a quarter."""


@dataclass(frozen=True, slots=True)
class SilentTurn:
    """A turn of which nothing was heard."""

    thread_id: str
    turn_id: str
    seconds: float
    """Since its last event, or its sub-agents' last."""
    open_requests: tuple[OpenRequest, ...]
    """The server's requests that wait for an answer of this program: of all threads."""


class TurnWatchdog(NotificationSink):
    """Reports each silence of a turn once; the next event of the turn arms it again.

    ``async with anyio.create_task_group() as group: group.start_soon(watchdog.run)``, or call
    `check` from a timer of the program's own. ``after`` is in seconds, ``clock`` too. An event of
    a sub-agent counts for the turns above it. Events of no thread count for nobody.

    Raises MisuseError for a time that is not positive.
    """

    def __init__(
        self,
        client: AppServerConnection,
        after: float,
        report: Callable[[SilentTurn], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not after > 0:
            raise MisuseError(f"a turn cannot be silent after {after!r} s; give a positive time")
        self._client = client
        self._after = after
        self._report = report
        self._clock = clock
        self._items = Items(client.opened_threads)
        self._heard: dict[tuple[str, str], float] = {}
        """Thread and turn → when its last event came."""
        self._reported: set[tuple[str, str]] = set()
        client.subscribe_all(self)

    def __repr__(self) -> str:
        return f"TurnWatchdog(after={self._after!r}, turns={len(self._heard)})"

    async def run(self) -> None:
        """Check until cancelled or the connection ends."""
        while not self._client.closed:
            self.check()
            await anyio.sleep(self._after / ROUNDS)

    def close(self) -> None:
        """Watch no more."""
        self._client.unsubscribe_all(self)
        self._heard.clear()

    def expect(self, thread_id: str, turn_id: str) -> None:
        """Watch a turn from now on, although Codex has not said that it started."""
        self._heard.setdefault((thread_id, turn_id), self._clock())

    def forget(self, thread_id: str, turn_id: str) -> None:
        """Watch a turn no more."""
        self._heard.pop((thread_id, turn_id), None)
        self._reported.discard((thread_id, turn_id))

    def check(self) -> list[SilentTurn]:
        """Report the turns that are silent by now and were not reported; and return them."""
        now = self._clock()
        silent = []
        for turn, heard in self._heard.items():
            if now - heard >= self._after and turn not in self._reported:
                self._reported.add(turn)
                open_requests = self._client.open_requests
                silent.append(SilentTurn(*turn, now - heard, open_requests))
        for found in silent:
            logger.warning(
                "turn %s of thread %s is silent for %.1f s; open server requests: %s",
                found.turn_id,
                found.thread_id,
                found.seconds,
                in_words(found.open_requests),
            )
            try:
                self._report(found)
            except Exception:
                logger.exception("the report of a silent turn failed")
        return silent

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None:
            return
        event = self._client.decode_notification(method, params) if method in FOLLOWED else None
        if event is not None and not isinstance(event, notifications.UnknownNotification):
            self._items.apply(event)
        turn_id = self._items.running_turn(thread_id)
        now = self._clock()
        if turn_id is not None:
            self._heard.setdefault((thread_id, turn_id), now)
        threads = {thread_id, *self._items.ancestors_of(thread_id)}
        for turn in self._heard:
            if turn[0] in threads:
                self._heard[turn] = now
                self._reported.discard(turn)
        if isinstance(event, notifications.TurnCompletedEvent):
            self.forget(thread_id, event.params.turn.id)
        elif isinstance(event, notifications.ThreadClosedEvent):
            for turn in [each for each in self._heard if each[0] == thread_id]:
                self.forget(*turn)

    def on_closed(self, error: TransportError | None) -> None:
        """Do nothing: the end is an event of its own, no silence."""
        del error
        self._heard.clear()


WARN_AFTER_SECONDS: Final = 120.0
"""After this a silent turn is a warning in the log, unless the program set a time of its own."""


class SharedWatchdog(TurnWatchdog):
    """A watchdog of all turns of a client that have one time."""

    def __init__(self, client: AppServerConnection, after: float) -> None:
        self.users = 0
        self.reports: dict[str, SilentTurn] = {}
        super().__init__(client, after, lambda found: self.reports.update({found.turn_id: found}))


class SilenceWatch:
    """Watches one turn until it is closed; ``watchdogs`` are those of the client, by their time."""

    def __init__(
        self,
        client: AppServerConnection,
        watchdogs: dict[float, SharedWatchdog],
        after: float,
        thread_id: str,
        turn_id: str,
    ) -> None:
        if after not in watchdogs:
            watchdogs[after] = SharedWatchdog(client, after)
        self._watchdogs, self._after = watchdogs, after
        self._watchdog = watchdogs[after]
        self._turn = (thread_id, turn_id)
        self.look_every: float = after / ROUNDS
        """Seconds after which whoever waits for the turn should `check`."""
        self._watchdog.users += 1
        self._watchdog.expect(thread_id, turn_id)

    def check(self) -> SilentTurn | None:
        """Return the report of this turn's silence, once; None while there is none."""
        self._watchdog.check()  # also behind `close`: whoever waits for the turn may look once more
        return self._watchdog.reports.pop(self._turn[1], None)

    def close(self) -> None:
        """Watch no more."""
        watchdog = self._watchdog
        watchdog.forget(*self._turn)
        watchdog.reports.pop(self._turn[1], None)
        watchdog.users -= 1
        if not watchdog.users:
            del self._watchdogs[self._after]
            watchdog.close()
