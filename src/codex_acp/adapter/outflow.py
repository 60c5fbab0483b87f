"""Send session events to the client, in order; coalesce and bound them while the client is slow.

While the client keeps up, each event is written at once; only adjacent pieces of a message that
come in one read are joined. While the client lags, events wait here. All adjacent pieces of a
message are joined. A change of a tool call replaces an earlier change if it sets all fields that
the earlier change sets. If still too much waits, reading from Codex pauses.
Must not know what an event means, or how a version of ACP writes an event.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from pydantic_core import to_json

from codex_acp.errors import TransportError
from codex_acp.jsonrpc import EncodedJson, notification_head
from codex_acp.mapping.events import (
    TextChunk,
    ThoughtChunk,
    ToolCallChanged,
    continued_text,
    replaces,
    with_pieces,
)
from codex_acp.wire.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.mapping.events import SessionEvent

logger = logging.getLogger(__name__)

MAX_WAITING_UPDATES: Final = 2_000
"""Updates that may wait, long or short."""

MAX_WAITING_TEXT: Final = 2 * 1024 * 1024
"""Characters that may wait: more than a model writes while a client hangs for a while."""

UPDATES_PER_WRITE: Final = 64
"""Waiting updates that are written before the next wait for a client that lags."""

_CHUNKS: Final = (TextChunk, ThoughtChunk)


Render: TypeAlias = "Callable[[SessionEvent], Sequence[bytes]]"
"""Renders an event as updates, in JSON, of the client's version of ACP."""


class _WaitingEvent:
    """An event that waits, with the later pieces of its text."""

    __slots__ = ("event", "pieces", "rendered", "session_id")

    def __init__(self, session_id: str, event: SessionEvent, render: Render) -> None:
        self.session_id = session_id
        self.event = event
        self.pieces: list[str] = []
        self.rendered = () if isinstance(event, _CHUNKS) else render(event)
        """The updates of the event as JSON; none for a chunk, which may still grow."""

    def joined(self, render: Render) -> Sequence[bytes]:
        """Return the updates of the event with its whole text, as JSON."""
        if isinstance(self.event, _CHUNKS):
            return render(with_pieces(self.event, self.pieces))
        return self.rendered

    @property
    def size(self) -> int:
        """About how many characters the event takes."""
        return sum(map(len, self.rendered)) + sum(map(len, self.pieces))


class Outflow:
    """Implements `SessionOutflow` for all sessions of one client. ``spawn`` runs the task that
    waits for a slow client; ``render`` renders an event."""

    def __init__(self, side: EitherAgentSide, spawn: Spawn, render: Render) -> None:
        self._side = side
        self._connection = side.connection
        self._outbox = side.connection.outbox
        self._render = render
        self._spawn = spawn
        self._waiting: OrderedDict[int, _WaitingEvent] = OrderedDict()
        """The events that wait, oldest first, by number."""
        self._next_number = 0
        self._calls: dict[tuple[str, str], int] = {}
        """Session and tool call → the number of its newest change that waits."""
        self.unread: int = 0
        """About how many characters wait for the client."""
        self._draining = False
        self._message: tuple[str, str, type] | None = None
        """Session, id and type of the message that was written last, piece by piece."""
        self._chunk_prefix = b""
        """The JSON of a chunk of `_message`, up to its text."""
        self._pieces: list[str] = []
        """Unwritten text of `_message`: `Outbox.hold` writes it before anything else is sent."""
        self._on_full: Callable[[bool], None] | None = None
        self._full = False

    def when_full(self, callback: Callable[[bool], None]) -> None:
        self._on_full = callback
        if self._full:
            callback(True)

    @property
    def client_gone(self) -> bool:
        return self._side.closed

    def send(self, session_id: str, event: SessionEvent) -> None:
        if self._waiting or not self._send_now(session_id, event):
            self._queue(session_id, event)

    def _send_now(self, session_id: str, event: SessionEvent) -> bool:
        """Write an event, or add its text to the pieces; return False if the client lags."""
        if not isinstance(event, _CHUNKS):
            if self._outbox.paused:
                return False
            self._write_all(session_id, self._render(event))
            return True
        message = (session_id, event.message_id, type(event))
        if self._pieces and message == self._message:
            self._pieces.append(event.text)
            return True
        if self._outbox.paused:
            return False
        if message != self._message:
            self._begin_chunk(message)
        self._pieces.append(event.text)
        self._outbox.hold(self._write_pieces)
        return True

    def _queue(self, session_id: str, event: SessionEvent) -> None:
        last = next(reversed(self._waiting.values()), None)
        text = None
        if last is not None and last.session_id == session_id:
            text = continued_text(event, last.event)
        if last is not None and text is not None:
            last.pieces.append(text)
            self.unread += len(text)
        else:
            self._append(session_id, event)
        self._report_full()
        if not self._draining:
            self._draining = True
            self._spawn(self._drain)

    def _append(self, session_id: str, event: SessionEvent) -> None:
        """Queue an event; remove the waiting change of a tool call that the event replaces."""
        if isinstance(event, ToolCallChanged):
            call = (session_id, event.id)
            older = self._calls.get(call)
            if older is not None and replaces(event, self._waiting[older].event):
                self.unread -= self._waiting.pop(older).size
            self._calls[call] = self._next_number
        waiting = _WaitingEvent(session_id, event, self._render)
        self._waiting[self._next_number] = waiting
        self._next_number += 1
        self.unread += waiting.size

    def flush(self) -> None:
        """Write all waiting events, however slow the client is, because an answer follows them."""
        self._write_waiting(len(self._waiting))

    async def wait_drained(self) -> None:
        """Wait until a client that lags has read most of what was sent. Raises TransportError."""
        while self._waiting or self._outbox.paused:
            await self._side.drain()
            self._write_waiting(UPDATES_PER_WRITE)

    def _write_waiting(self, count: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            number, waiting = self._waiting.popitem(last=False)
            self.unread -= waiting.size
            if isinstance(waiting.event, ToolCallChanged):
                call = (waiting.session_id, waiting.event.id)
                if self._calls.get(call) == number:
                    del self._calls[call]
            self._write_all(waiting.session_id, waiting.joined(self._render))
        self._report_full()

    def _write_all(self, session_id: str, updates: Sequence[bytes]) -> None:
        """Write a ``SessionNotification`` around the JSON of each update."""
        prefix = b'{"sessionId":' + encode(session_id) + b',"update":'
        for update in updates:
            self._side.session_update_encoded(EncodedJson(b"".join((prefix, update, b"}"))))

    def _begin_chunk(self, message: tuple[str, str, type]) -> None:
        """Write the pieces of the last message; encode the prefix of the chunks of ``message``."""
        self._write_pieces()
        self._message = session_id, message_id, kind = message
        self._chunk_prefix = (  # equal in all versions of ACP
            notification_head("session/update", version=True)
            + b',"params":{"sessionId":' + encode(session_id)
            + b',"update":{"sessionUpdate":"'
            + (b"agent_message_chunk" if kind is TextChunk else b"agent_thought_chunk")
            + b'","messageId":' + encode(message_id)
            + b',"content":{"type":"text","text":'
        )  # fmt: skip

    def _write_pieces(self) -> None:
        """Write the pieces as one chunk, without making a model first."""
        pieces, self._pieces = self._pieces, []
        if pieces:
            text = to_json("".join(pieces))
            self._connection.send(self._chunk_prefix + text + b"}}}}\n")  # closes the prefix

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._side.drain()
                self._write_waiting(UPDATES_PER_WRITE)
        except TransportError:
            logger.debug("%d updates were not sent: the client is gone", len(self._waiting))
            self._waiting.clear()
            self._calls.clear()
            self.unread = 0
            self._report_full()
        finally:
            self._draining = False

    def _report_full(self) -> None:
        full = len(self._waiting) > MAX_WAITING_UPDATES or self.unread > MAX_WAITING_TEXT
        if full != self._full:
            self._full = full
            if self._on_full is not None:
                self._on_full(full)
