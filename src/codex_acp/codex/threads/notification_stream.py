"""The notifications of a thread: an async iterator of typed events, and the states of its turns.

Owns the buffer between the reader and the task that iterates. `TurnMarks` follows the turns without
that buffer: an interrupt must know of a turn even if nobody iterates.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Self

import anyio

from codex_acp._json import text_at
from codex_acp.codex._generated import models
from codex_acp.codex.connection.notification_router import NotificationSink, is_unloaded
from codex_acp.errors import ErrorReply, refuse_unless

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc import JsonValue


DEFAULT_LIMIT = 1024
"""Events that may wait before reading pauses: Codex sends a few hundred in a burst."""


class NotificationStream:
    """The events of one thread, or of all (``thread_id`` None), in the server's order.

    The stream collects events from its creation, so make it before the call that causes them. When
    ``limit`` events wait, the client stops reading until half of them were taken. Events that were
    read already still arrive. While a call waits for its answer, the client reads all the same.

    Iterating ends when the stream is closed or the connection has ended cleanly; otherwise it
    raises the TransportError (ProcessExited, say) after the last event. Close the stream, with
    ``async with`` or `aclose`: a stream that nobody reads stops its client.
    """

    def __init__(
        self,
        client: AppServerConnection,
        thread_id: str | None = None,
        *,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        is_number = type(limit) is int and limit >= 1
        refuse_unless(is_number, "the limit of a stream must be at least 1", limit)
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
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerNotification:
        while not self._waiting:
            if self._ended:
                if self._error is not None:
                    raise self._error.with_traceback(None)
                raise StopAsyncIteration
            await self._changed.wait()
        method, params = self._waiting.popleft()
        if len(self._waiting) <= self._limit // 2:
            self._client.resume_reading(self)
        return self._client.decode_notification(method, params)

    async def aclose(self) -> None:
        """Stop collecting, and drop the waiting events; an iteration that waits ends."""
        if self._thread_id is None:
            self._client.unsubscribe_all(self)
        else:
            self._client.unsubscribe(self._thread_id, self)
        self._waiting.clear()
        self._error = None
        self._end()

    # Methods of a `NotificationSink`.

    def on_notification(self, method: str, params: JsonValue) -> None:
        self._waiting.append((method, params))
        if len(self._waiting) >= self._limit:
            self._client.pause_reading(self)

    def on_batch_end(self) -> None:
        self._wake()  # once for all events of one read; `TurnMarks` gets too few for that

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


TURN_MARKS: Final = frozenset({"turn/started", "turn/completed"})


class TurnMarks(NotificationSink):
    """The states of a thread's turns until `close`, and one turn to interrupt."""

    def __init__(self, client: AppServerConnection, thread_id: str) -> None:
        self._client = client
        self.thread_id = thread_id
        self.turn_id: str | None = None
        """Id of the turn that `interrupt` ends; `Turn` sets it when it knows the id."""
        self._changed = anyio.Event()
        self.begun: list[str] = []
        """Ids of turns in the order of their start."""
        self.ended: set[str] = set()
        self.lost: bool = False
        """Whether the connection has ended."""
        self.closed: bool = False
        """Whether Codex has closed the thread."""
        client.subscribe(thread_id, self)

    @property
    def runs(self) -> bool:
        """Whether neither turn nor thread nor connection has ended; true before the turn starts."""
        return not (self.lost or self.closed or self.turn_id in self.ended)

    def close(self) -> None:
        """Stop following the thread."""
        self._client.unsubscribe(self.thread_id, self)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true, or the connection or the thread has ended."""
        while not (self.lost or self.closed or condition()):
            await self._changed.wait()

    async def interrupt(self) -> None:
        """Interrupt the turn, unless it has just ended. Raises the errors of calls."""
        turn_id = self.turn_id or ""  # without an id, Codex interrupts the turn that starts
        while turn_id not in self.ended:
            # Codex refuses to interrupt a turn that has not begun, or that has ended. After an
            # error, a turn that had begun has ended; for another turn, wait for its start.
            had_begun = turn_id in self.begun
            try:
                params = models.TurnInterruptParams(thread_id=self.thread_id, turn_id=turn_id)
                await self._client.turn_interrupt(params)
            except ErrorReply:
                if had_begun:
                    return
                await self.wait_for(lambda: turn_id in self.ended or turn_id in self.begun)
                if self.closed:
                    return  # the turn cannot begin any more
            else:
                return

    async def wait_for_end(self) -> None:
        """Wait until the turn, the connection or the thread has ended."""
        await self.wait_for(lambda: not self.runs)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if is_unloaded(method, params):
            self.closed = True
            self._wake()
        turn_id = text_at(params, "turn", "id")
        if method not in TURN_MARKS or turn_id is None:
            return
        if method == "turn/started":
            self.begun.append(turn_id)
        else:
            self.ended.add(turn_id)
        self._wake()

    def on_closed(self, error: TransportError | None) -> None:
        del error
        self.lost = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
