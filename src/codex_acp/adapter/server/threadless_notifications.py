"""Keep notifications until their sink exists, and deliver notifications without a thread.

A notification without a thread is about the account, the configuration or the process. Every open
session gets such a notification; while a thread is being opened, only the session of this thread.
A notification of an unknown thread is kept: the thread may be about to be opened, or be a new
sub-agent's. `HeldNotifications` holds the notifications of a session whose modules have to be
loaded first, or whose history has to be replayed. Must not know what a notification means.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from codex_acp._record import NamedTuple
from codex_acp.codex.connection.notification_router import NotificationSink, thread_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue

MAX_KEPT: Final = 10_000
"""Notifications to keep; the oldest are dropped. Opening a thread causes a few dozen."""

MAX_SECONDS: Final = 60.0
"""Age at which a notification is dropped: Codex soon names the sub-agent that it belongs to."""


class _KeptNotification(NamedTuple):
    arrived_at: float
    """Seconds, by the monotonic clock."""
    thread_id: str | None
    method: str
    params: JsonValue


class ThreadlessNotifications(NotificationSink):
    """A sink of one connection; ``open_sinks`` returns the sinks of its open sessions.

    ``may_start_sub_agents`` returns whether anything runs that may start a sub-agent: Codex sends
    notifications of a sub-agent's thread before it names the thread."""

    def __init__(
        self,
        codex: AppServerConnection,
        open_sinks: Callable[[], Iterable[NotificationSink]],
        may_start_sub_agents: Callable[[], bool],
    ) -> None:
        self._open_sinks = open_sinks
        self._may_start_sub_agents = may_start_sub_agents
        self._kept: list[_KeptNotification] = []
        self._openings = 0
        codex.subscribe(None, self)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Keep all unclaimed notifications while a thread is opened, in a ``with`` block."""
        self._openings += 1
        try:
            yield
        finally:
            self._openings -= 1
            if not self._openings and not self._may_start_sub_agents():
                self._kept = [kept for kept in self._kept if kept.thread_id is None]

    def take(self, *threads: str | None) -> list[tuple[str, JsonValue]]:
        """Remove and return the kept notifications of ``threads`` (None: without a thread)."""
        taken = [(kept.method, kept.params) for kept in self._kept if kept.thread_id in threads]
        if taken:
            self._kept = [kept for kept in self._kept if kept.thread_id not in threads]
        return taken

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        thread_id = thread_of(params)
        if thread_id is None and not self._openings:
            sinks = list(self._open_sinks())
            for sink in sinks:
                sink.on_notification(method, params)
            if sinks:
                return
        elif not self._openings and not self._may_start_sub_agents():
            return  # the thread is of an ended sub-agent, or of a closed session
        now = monotonic()
        oldest = now - MAX_SECONDS
        if not self._openings and self._kept and self._kept[0].arrived_at < oldest:
            self._kept = [
                kept for kept in self._kept if kept.thread_id is None or kept.arrived_at >= oldest
            ]
        self._kept.append(_KeptNotification(now, thread_id, method, params))
        del self._kept[:-MAX_KEPT]

    def on_closed(self, error: TransportError | None) -> None:
        """Forget the kept notifications; each session has its own sink for the end."""
        del error
        self._kept = []


logger = logging.getLogger(__name__)


def deliver(held: Sequence[tuple[str, JsonValue]], sink: NotificationSink) -> None:
    """Pass held notifications to ``sink``, as one batch."""
    for method, params in held:
        try:
            sink.on_notification(method, params)
        except Exception:
            logger.exception("a sink failed at %s", method)
    if held:
        sink.on_batch_end()


class HeldNotifications(NotificationSink):
    """A sink that takes the place of a later sink, for one thread, or for all threads (None)."""

    def __init__(self, codex: AppServerConnection, thread_id: str | None) -> None:
        self._codex = codex
        self._thread_id = thread_id
        self._held: list[tuple[str, JsonValue]] = []
        if thread_id is None:
            codex.subscribe_all(self)
        else:
            codex.subscribe(thread_id, self)

    @property
    def methods(self) -> frozenset[str]:
        """The methods of the held notifications."""
        return frozenset(method for method, _ in self._held)

    def put_first(self, earlier: Iterable[tuple[str, JsonValue]]) -> None:
        """Put earlier notifications in front of the held ones."""
        self._held[:0] = earlier

    def leave(self) -> None:
        """Unsubscribe, and forget the held notifications. Idempotent."""
        if self._thread_id is None:
            self._codex.unsubscribe_all(self)
        else:
            self._codex.unsubscribe(self._thread_id, self)
        self._held = []

    def hand_over(self, sink: NotificationSink) -> None:
        """Unsubscribe, and pass the held notifications to ``sink``, which has to subscribe."""
        held = self._held
        self.leave()
        deliver(held, sink)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        self._held.append((method, params))
