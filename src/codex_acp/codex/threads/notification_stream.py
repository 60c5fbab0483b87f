"""Notifications as an async iterator of typed events.

Owns the buffer between the reader and whoever iterates. Built on a sink; must not know what the
events mean.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Self

import anyio

from codex_acp.errors import MisuseError, TransportError

if TYPE_CHECKING:
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

DEFAULT_LIMIT = 1024
"""Events that may wait before reading pauses: a burst of Codex is a few hundred."""


class NotificationStream:
    """The events of one thread, or of all (``thread_id`` None), in the server's order.

    Collects from the moment it is made, so make it before the call that causes the events. When
    ``limit`` events wait, the client stops reading until half of them were taken; what was read
    already still comes, and while a typed call waits for its answer reading goes on.

    Iterating ends when the stream is closed or the connection ended cleanly, and raises the
    TransportError (ProcessExited, say) otherwise, after the last event. Close it, with ``async
    with`` or `aclose`: a stream that nobody reads holds up its client.
    """

    def __init__(
        self,
        client: AppServerConnection,
        thread_id: str | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        if limit < 1:
            raise MisuseError(f"the limit of a stream must be at least 1, not {limit}")
        self._client = client
        self._thread_id = thread_id
        self._limit = limit
        self._waiting: deque[tuple[str, JsonValue]] = deque()
        self._changed = anyio.Event()
        self._ended = False
        self._error: TransportError | None = None
        if thread_id is None:
            client.subscribe_all(self)
        else:
            client.subscribe(thread_id, self)

    def __repr__(self) -> str:
        return f"NotificationStream(thread_id={self._thread_id!r}, waiting={len(self._waiting)})"

    async def __aenter__(self) -> Self:
        """The stream itself."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close it."""
        await self.aclose()

    def __aiter__(self) -> Self:
        """The stream itself."""
        return self

    async def __anext__(self) -> ServerNotification:
        """The next event; waits for it."""
        while not self._waiting:
            if self._ended:
                if self._error is not None:
                    raise self._error.with_traceback(None)
                raise StopAsyncIteration
            changed = self._changed
            await changed.wait()
        method, params = self._waiting.popleft()
        if len(self._waiting) <= self._limit // 2:
            self._client.resume_reading(self)
        return self._client.decode_notification(method, params)

    async def aclose(self) -> None:
        """Stop collecting and drop what waits; again is fine. An iteration that waits ends."""
        if self._thread_id is None:
            self._client.unsubscribe_all(self)
        else:
            self._client.unsubscribe(self._thread_id, self)
        self._waiting.clear()
        self._error = None
        self._end()

    # What the client calls.

    def on_notification(self, method: str, params: JsonValue) -> None:
        self._waiting.append((method, params))
        if len(self._waiting) >= self._limit:
            self._client.pause_reading(self)

    def on_batch_end(self) -> None:
        self._wake()

    def on_closed(self, error: TransportError | None) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._client.resume_reading(self)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
