"""What Codex reports before the modules that read it are loaded: kept, in order, and handed over.

Owns nothing but the order. Nothing bounds what is kept, because loading follows within
milliseconds and reads nothing meanwhile.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.codex.client import CodexClient
    from codex_acp.codex.sinks import NotificationSink
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["EarlyNotifications"]

logger = logging.getLogger(__name__)


class EarlyNotifications:
    """A sink in place of a later one: of a thread, or for None of all."""

    def __init__(self, client: CodexClient, thread_id: str | None) -> None:
        self._client = client
        self._thread_id = thread_id
        self._kept: list[tuple[str, JsonValue]] = []
        if thread_id is None:
            client.subscribe_all(self)
        else:
            client.subscribe(thread_id, self)

    def hand_over(self, sink: NotificationSink) -> None:
        """Give ``sink``, which has subscribed itself just now, all that was kept; leave."""
        if self._thread_id is None:
            self._client.unsubscribe_all(self)
        else:
            self._client.unsubscribe(self._thread_id, self)
        kept, self._kept = self._kept, []
        for method, params in kept:
            try:
                sink.on_notification(method, params)
            except Exception:
                logger.exception("a sink failed at %s", method)
        if kept:
            sink.on_batch_end()

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`."""
        self._kept.append((method, params))

    def on_batch_end(self) -> None:
        """See `NotificationSink`."""

    def on_closed(self, error: TransportError | None) -> None:
        """See `NotificationSink`: the later sink hears it when it subscribes."""
