"""Keeps the notifications that come before somebody can read them, in order, and hands them over.

That is until the modules that read it are loaded, which takes milliseconds, or until the history
of a session has been replayed, before which nothing new may be shown. Owns nothing but the order.
Nothing bounds what is kept: a thread that is opened seldom runs a turn, and reads nothing then.
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


def hand_over(kept: Sequence[tuple[str, JsonValue]], sink: NotificationSink) -> None:
    """Give ``sink`` what was kept."""
    for method, params in kept:
        try:
            sink.on_notification(method, params)
        except Exception:
            logger.exception("a sink failed at %s", method)
    if kept:
        sink.on_batch_end()


class HeldNotifications(NotificationSink):
    """A sink in place of a later one: of a thread, or for None of all."""

    def __init__(self, client: AppServerConnection, thread_id: str | None) -> None:
        self._client = client
        self._thread_id = thread_id
        self._kept: list[tuple[str, JsonValue]] = []
        if thread_id is None:
            client.subscribe_all(self)
        else:
            client.subscribe(thread_id, self)

    @property
    def methods(self) -> frozenset[str]:
        """The methods of what was kept."""
        return frozenset(method for method, _ in self._kept)

    def keep(self, earlier: Iterable[tuple[str, JsonValue]]) -> None:
        """Put what came before this sink was there in front of what it has kept itself."""
        self._kept[:0] = earlier

    def leave(self) -> None:
        """Hear nothing more, and forget what was kept; again is fine."""
        if self._thread_id is None:
            self._client.unsubscribe_all(self)
        else:
            self._client.unsubscribe(self._thread_id, self)
        self._kept = []

    def hand_over(self, sink: NotificationSink) -> None:
        """Leave, and give ``sink`` all that was kept; what comes it hears once it subscribes."""
        kept = self._kept
        self.leave()
        hand_over(kept, sink)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        self._kept.append((method, params))
