"""One ACP connection over streamable HTTP as a link: it receives the posted messages, and puts each
written message into an event stream.

An answer goes to the stream of its request; a message that names a session goes to the session's
stream. Unanswered questions are sent again to the next reader of their stream, because the stream
may have broken before they arrived. Must not know HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._json import text_at
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.jsonrpc import (
    ErrorResponse,
    Malformed,
    Notification,
    Request,
    Response,
    decode,
)
from codex_acp.transport.json_decoding import default_loads
from codex_acp.transport.shielding import finish
from codex_acp.transport.streamable_http import CLOSING, KEEP_ALIVE, LOAD, as_event, session_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.jsonrpc import Message, RequestId
    from codex_acp.transport.link import Receiver


logger = logging.getLogger(__name__)

HIGH_WATER_BYTES: Final = 64 * 1024
"""Bytes waiting for readers above which the writer is paused, as for a websocket."""

LOW_WATER_BYTES: Final = 16 * 1024
"""Bytes waiting for readers below which the writer is resumed."""

WAITING_BYTES: Final = 4 * 1024 * 1024
"""Bytes waiting in all streams, with or without a reader, above which the writer is paused, too."""

CLOSE_SECONDS: Final = 1.0
"""Seconds to send the waiting events when this side closes; then the streams are aborted."""

BATCH_BYTES: Final = 64 * 1024
"""Bytes of events that are sent at once."""

_Item: TypeAlias = "bytes | Callable[[], None]"
"""An event, or a function that is called when the events before it are sent."""

_SizeChanged: TypeAlias = "Callable[[int, int], None]"
"""Called with the change in bytes of all waiting events, and of the events with a reader."""


class OutgoingStream:
    """The events for one session or for the connection, until the stream's one reader takes them.

    The reader may come late, leave and come back."""

    def __init__(self, size_changed: _SizeChanged) -> None:
        self._size_changed = size_changed
        self._waiting: deque[_Item] = deque()
        self._size = 0
        self._sending = 0
        """Bytes that the reader took last, and that count as sent when it asks for more."""
        self._changed = asyncio.Event()
        """Set when an event comes, or the stream ends."""
        self._ended = False
        self.has_reader: bool = False
        self.abort_reader: Callable[[], None] = lambda: None
        """Set by the reader: ends the reader at once, even while its client takes nothing."""

    def put(self, event: bytes) -> None:
        self._waiting.append(event)
        self._add_to_size(len(event))
        self._changed.set()

    def prepend(self, events: list[bytes]) -> None:
        self._waiting.extendleft(reversed(events))
        self._add_to_size(sum(map(len, events)))
        self._changed.set()

    def call_when_sent(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once the events that wait now are sent, or have no reader."""
        if self.is_empty or not self.has_reader:
            callback()
        else:
            self._waiting.append(callback)

    def has(self, event: bytes) -> bool:
        """Return whether this event, the same object, still waits."""
        return any(item is event for item in self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether no event waits or is being sent."""
        return not self._waiting and not self._sending

    def attach(self) -> bool:
        """Attach a reader; return False if there is one, or the stream has ended."""
        if self.has_reader or self._ended:
            return False
        self.has_reader = True
        self._size_changed(0, self._size)
        return True

    def detach(self) -> None:
        """Detach the reader. Events that the reader took count as sent, even if they are lost."""
        self._finish_sending()
        self.has_reader = False
        self._size_changed(0, -self._size)
        for item in [item for item in self._waiting if not isinstance(item, bytes)]:
            self._waiting.remove(item)
            item()

    async def next_bytes(self, seconds: float) -> bytes | None:
        """Return the next bytes to send; None at the end. Return an empty event, which keeps the
        stream alive, after ``seconds`` without events."""
        self._finish_sending()
        while True:
            events: list[bytes] = []
            while self._waiting and self._sending < BATCH_BYTES:
                item = self._waiting[0]
                if not isinstance(item, bytes) and events:
                    break  # a callback is called when the events before it are sent
                self._waiting.popleft()
                if isinstance(item, bytes):
                    events.append(item)
                    self._sending += len(item)
                else:
                    item()
            if events:
                return events[0] if len(events) == 1 else b"".join(events)
            if self._ended:
                return None
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
                continue
            return KEEP_ALIVE

    def end(self) -> None:
        """End the stream after the events that wait."""
        self._ended = True
        self._changed.set()

    def _finish_sending(self) -> None:
        sent, self._sending = self._sending, 0
        self._add_to_size(-sent)

    def _add_to_size(self, added: int) -> None:
        if added:
            self._size += added
            self._size_changed(added, added if self.has_reader else 0)


class _AnswerRoute(NamedTuple):
    """The stream of a session, or (None) of the connection, to which an answer goes."""

    session: str | None
    behind: str | None = None
    """The session whose waiting events are sent before the answer."""
    closes: bool = False
    """Whether the stream ends after the answer."""


class _Question(NamedTuple):
    """A request that the client has not answered: its stream (as in `_AnswerRoute`) and event."""

    session: str | None
    event: bytes


class AcceptedHttpLink:
    """The link of one client; ``name`` names it in error messages. The link ends after
    ``idle_seconds`` without a reader, and has at most ``streams`` readers."""

    def __init__(self, name: str, *, idle_seconds: float, streams: int) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._max_streams = streams
        self._receiver: Receiver | None = None
        self._streams: dict[str | None, OutgoingStream] = {}
        """Session → its stream; None → the connection's stream."""
        self._routes: dict[RequestId, _AnswerRoute] = {}
        self._questions: dict[RequestId, _Question] = {}
        self._streamless: set[str] = set()
        """Sessions that the client has named in no header, and perhaps does not know of. Messages
        of the session go to the connection's stream until the client opens the session's stream."""
        self._initialize_id: RequestId | None = None
        self._initialize_answer: asyncio.Future[bytes] | None = None
        """Future of the answer to ``initialize``, while `initialize` waits for the answer."""
        self._size = 0
        """Waiting bytes of all streams."""
        self._size_with_reader = 0
        """Waiting bytes of the streams that have a reader."""
        self._writing_paused = False
        self.ended: bool = False
        self._reader_left = asyncio.Event()
        """Set each time that a reader leaves a stream."""
        self._started = asyncio.Event()
        self._may_read = asyncio.Event()  # cleared while reading is paused
        self._may_read.set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._close_reason = ""

    # Link

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._started.set()
        self._watch_readers()

    def write(self, data: bytes) -> None:
        """Write whole lines, each of which becomes an event of a stream."""
        if not self.ended:
            for line in data.splitlines():
                self._send(line)

    def pause_reading(self) -> None:
        self._may_read.clear()
        self._watch_readers()

    def resume_reading(self) -> None:
        self._may_read.set()
        self._watch_readers()

    async def aclose(self) -> None:
        """Close the link; the peer gets a short time to take unsent events."""

        async def wait_for_readers() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * CLOSE_SECONDS):  # `end` aborts readers before that
                    while any(stream.has_reader for stream in self._streams.values()):
                        self._reader_left.clear()
                        await self._reader_left.wait()

        self.end(None)
        await finish(asyncio.ensure_future(wait_for_readers()))

    def set_close_reason(self, code: int, reason: str) -> None:
        del code
        self._close_reason = " ".join(reason.split())

    # Posted messages

    async def initialize(self, request: Request, line: bytes, seconds: float) -> bytes:
        """Receive the connection's first request and return the answer. Raises TransportError."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._initialize_id, self._initialize_answer = request.id, answer
        try:
            async with asyncio.timeout(seconds):
                await self._started.wait()
                self._deliver(line)
                return await answer
        except TimeoutError:
            raise ConnectionClosed(f"{self._name} could not be answered") from None
        finally:
            self._initialize_answer = None

    async def post(self, message: Message | Malformed, line: bytes, session: str | None) -> None:
        """Receive a message posted for ``session``. Raises TransportError if the link has ended."""
        await self._may_read.wait()
        if self.ended:
            raise ConnectionClosed(f"the connection to {self._name} has ended")
        if isinstance(message, Request):
            route = _AnswerRoute(session, closes=message.method in CLOSING)
            if message.method == LOAD:
                route = _AnswerRoute(None, behind=session)
            self._routes.setdefault(message.id, route)
        elif isinstance(message, Response | ErrorResponse) and message.id is not None:
            self._questions.pop(message.id, None)
        self._deliver(line)

    def expect(self, session: str) -> None:
        """Note a session that will send messages, but of whose stream the client may not know."""
        stream = self._streams.get(session)
        if (stream is None or not stream.has_reader) and len(self._streamless) < self._max_streams:
            self._streamless.add(session)

    def session_of_question(self, message: Response | ErrorResponse) -> str | None:
        """Return the session of the question that a response answers."""
        question = None if message.id is None else self._questions.get(message.id)
        return None if question is None else question.session

    # Streams and their readers

    def open_stream(self, session: str | None) -> OutgoingStream | None:
        """Attach a reader to the stream of a session or (None) of the connection; return the
        stream, or None if it has a reader."""
        stream = self._stream(session)
        if self.ended or not stream.attach():
            return None
        self._watch_readers()
        if session is not None:
            self._streamless.discard(session)
        asked = [each.event for each in self._questions.values() if each.session == session]
        stream.prepend([event for event in asked if not stream.has(event)])
        return stream

    @property
    def has_max_streams(self) -> bool:
        """Whether no more streams may get a reader."""
        return sum(stream.has_reader for stream in self._streams.values()) >= self._max_streams

    def release(self, session: str | None, stream: OutgoingStream) -> None:
        stream.detach()
        self._reader_left.set()
        if stream.is_empty and self._streams.get(session) is stream:
            del self._streams[session]
        self._watch_readers()

    def end(self, error: TransportError | None) -> None:
        """End the connection. Idempotent."""
        if self.ended:
            return
        self.ended = True
        self._started.set()
        self._may_read.set()
        self._watch_readers()
        if self._initialize_answer is not None and not self._initialize_answer.done():
            closed = ConnectionClosed(f"the connection to {self._name} has ended")
            self._initialize_answer.set_exception(error or closed)
        loop = asyncio.get_running_loop()
        for stream in self._streams.values():
            if stream.has_reader and self._close_reason:  # sent as a comment of the event stream
                stream.put(b": " + self._close_reason.encode("ascii", "replace") + b"\n\n")
            stream.end()
            loop.call_later(CLOSE_SECONDS, stream.abort_reader)
        if self._receiver is not None:
            self._receiver.link_closed(error)

    # Written messages

    def _send(self, line: bytes) -> None:
        message = decode(line, default_loads())
        match message:
            case Response() | ErrorResponse() | Malformed():
                self._send_answer(message.id, line, ok=isinstance(message, Response))
            case Request():
                session = self._session_of(message)
                event = as_event(line)
                self._questions[message.id] = _Question(session, event)
                self._stream(session).put(event)
            case Notification(method="$/cancel_request", params=dict(params)):
                request_id = params.get("requestId")
                question = None
                if isinstance(request_id, int | str):
                    question = self._questions.pop(request_id, None)
                self._stream(None if question is None else question.session).put(as_event(line))
            case Notification():
                if text_at(message.params, "update", "sessionUpdate") == "subagent_update":
                    sub_agent = text_at(message.params, "update", "sessionId")
                    if sub_agent is not None:
                        self.expect(sub_agent)
                self._stream(self._session_of(message)).put(as_event(line))

    def _session_of(self, message: Request | Notification) -> str | None:
        """Return the session to whose stream a message goes; None: the connection's stream."""
        session = session_named(message.params)
        return None if session in self._streamless else session

    def _send_answer(self, request_id: RequestId | None, line: bytes, *, ok: bool) -> None:
        if self._initialize_answer is not None and request_id == self._initialize_id:
            if not self._initialize_answer.done():
                self._initialize_answer.set_result(line)
            return
        route = _AnswerRoute(None)
        if request_id is not None:
            route = self._routes.pop(request_id, route)
        stream, event = self._stream(route.session), as_event(line)
        if route.behind is not None and route.behind in self._streams:
            self._streams[route.behind].call_when_sent(lambda: stream.put(event))
        else:
            stream.put(event)
            if route.closes and ok and route.session is not None and stream.has_reader:
                del self._streams[route.session]
                stream.end()

    def _stream(self, session: str | None) -> OutgoingStream:
        if session not in self._streams:
            self._streams[session] = OutgoingStream(self._size_changed)
        return self._streams[session]

    def _deliver(self, line: bytes) -> None:
        if self._receiver is not None:
            # JSON has line breaks only between tokens, where a space means the same.
            self._receiver.data_received(line.replace(b"\n", b" ") + b"\n")

    # Back-pressure

    def _size_changed(self, added: int, added_with_reader: int) -> None:
        self._size += added
        self._size_with_reader += added_with_reader
        if self._receiver is None or self.ended:
            return
        full = self._size_with_reader > HIGH_WATER_BYTES or self._size > WAITING_BYTES
        if full and not self._writing_paused:
            self._writing_paused = True
            self._receiver.pause_writing()
        elif self._writing_paused and not full and self._size_with_reader <= LOW_WATER_BYTES:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _watch_readers(self) -> None:
        """End the link if no stream has a reader for `idle_seconds`. While reading is paused, since
        the client leaves too much unread, only a reader of the connection's stream counts."""
        read = {session for session, stream in self._streams.items() if stream.has_reader}
        has_reader = bool(read) if self._may_read.is_set() else None in read
        if has_reader or self.ended:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
                self._idle_timer = None
        elif self._idle_timer is None:
            loop = asyncio.get_running_loop()
            why = f"{self._name} has read no stream for {self._idle_seconds:g} s"
            self._idle_timer = loop.call_later(self._idle_seconds, self.end, ConnectionClosed(why))
