"""The text of a notification that goes on in the next one, past all who would decode it.

Owns when that may be: while one sink alone hears it, and nobody wants to see each line. Must not
know what the text is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex.connection.notification_router import NotificationRouter, NotificationSink
    from codex_acp.jsonrpc.message import Notification
    from codex_acp.transport.connection import Connection
    from codex_acp.transport.continuation import Continuation


class Continuations:
    """Those of one connection, one at a time."""

    def __init__(self, connection: Connection, router: NotificationRouter) -> None:
        self._connection = connection
        self._router = router
        router.when_changed = self._end

    def when_written(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` behind the read that is delivered, when what was sent is written."""
        self._connection.outbox.delivery.soon(callback)

    def of(
        self,
        notification: Notification,
        member: str,
        write: Callable[[bytes], bool],
        note: Callable[[bytes], None],
    ) -> Continuation | None:
        """See `Continuation.of`, of the last line; to be asked `when_written`."""
        from codex_acp.transport.continuation import Continuation
        from codex_acp.transport.json_decoding import fast_loads

        if self._connection.on_line is not None:
            return None
        last = self._connection.last
        return Continuation.of(last, notification, member, write, note, fast_loads)

    def begin(
        self, continuation: Continuation, method: str, thread_id: str, sink: NotificationSink
    ) -> None:
        """Let it take what comes next, if ``sink`` alone hears the thread's ``method``."""
        if self._router.hears_alone(thread_id, method, sink):
            self._connection.continuation = continuation

    def _end(self) -> None:
        self._connection.continuation = None
