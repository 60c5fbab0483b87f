"""Hold notifications, in order, until their sink exists.

The sink's modules may have to be loaded first, which takes milliseconds. Or the history of the
session has to be replayed: no new event may be shown before the history. The number of held
notifications has no bound: a thread that is being opened seldom runs a turn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.codex.connection.notification_router import NotificationSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

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
