"""One connection over streamable HTTP as a link: what is posted comes in, what is written goes to
the stream it belongs to.

An answer follows its request, and whatever names a session goes to the session. Questions that were
sent and not answered are sent again to whoever opens their stream anew: the stream may have broken
before they arrived. Must not know what carries the requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from codex_acp._json import text_at
from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.jsonrpc.message import (
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

    from codex_acp.jsonrpc.message import JsonValue, Message, RequestId
    from codex_acp.transport.link import Receiver


logger = logging.getLogger(__name__)

HIGH_WATER_BYTES: Final = 64 * 1024
"""Bytes waiting for readers above which the writer is paused, as for a websocket."""

LOW_WATER_BYTES: Final = 16 * 1024
"""Below which it goes on."""

WAITING_BYTES: Final = 4 * 1024 * 1024
"""Bytes waiting in all streams, read or not, above which the writer is paused, too."""

CLOSE_SECONDS: Final = 1.0
"""For what is unsent when this side closes; then the streams are cut."""

_Key: TypeAlias = "tuple[type, RequestId]"


class _Way(NamedTuple):
    """Where an answer goes: to a session's stream or the connection's (None)."""

    session: str | None
    behind: str | None = None
    """The session whose stream has to be empty first."""
    closes: bool = False
    """Whether it is the last that the stream has to tell."""


class _Question(NamedTuple):
    """A request to the client that it has not answered."""

    session: str | None
    event: bytes


class AcceptedHttpLink:
    """``idle_seconds`` is how long it may be without any stream, ``streams`` how many it may have.

    ``name`` stands for the client in messages.
    """

    def __init__(self, name: str, *, idle_seconds: float, streams: int) -> None:
        self._name = name
        self._idle_seconds = idle_seconds
        self._most_streams = streams
        self._receiver: Receiver | None = None
        self._streams: dict[str | None, OutgoingStream] = {}
        self._ways: dict[_Key, _Way] = {}
        self._questions: dict[_Key, _Question] = {}
        self._streamless: set[str] = set()
        """Sessions of a client that asked for them without naming them in a header: it opens their
        streams when it hears of them, which is on the connection's."""
        self._first: tuple[_Key, asyncio.Future[bytes]] | None = None
        self._size = self._size_read = 0
        self._paused = False
        self._ended = asyncio.Event()
        self._left = asyncio.Event()
        """A reader has."""
        self._started = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._idle: asyncio.TimerHandle | None = None
        self._reason = ""

    # Link

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._started.set()
        self._wait_for_streams()

    def write(self, data: bytes) -> None:
        """Write whole lines, each of which becomes an event of a stream."""
        if not self._ended.is_set():
            for line in data.splitlines():
                self._send(line)

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def aclose(self) -> None:
        """Close the link; the peer gets a short time to take unsent events."""
        self.end(None)
        await finish(asyncio.ensure_future(self._readers_gone()))

    def say_at_end(self, code: int, reason: str) -> None:
        del code
        self._reason = " ".join(reason.split())

    # What is posted.

    async def first(self, request: Request, line: bytes, seconds: float) -> bytes:
        """Take the request that makes the connection; its answer. Raises TransportError."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._first = (_key(request.id), answer)
        try:
            async with asyncio.timeout(seconds):
                await self._started.wait()
                self._deliver(line)
                return await answer
        except TimeoutError:
            raise ConnectionClosed(f"{self._name} could not be answered") from None
        finally:
            self._first = None

    async def take(self, message: Message | Malformed, line: bytes, session: str | None) -> None:
        """Take what was posted for ``session``. Raises TransportError if the link has ended."""
        await self._may_read.wait()
        if self._ended.is_set():
            raise ConnectionClosed(f"the connection to {self._name} has ended")
        if isinstance(message, Request):
            way = _Way(session, closes=message.method in CLOSING)
            if message.method == LOAD:
                way = _Way(None, behind=session)
            self._ways.setdefault(_key(message.id), way)
        elif isinstance(message, Response | ErrorResponse) and message.id is not None:
            self._questions.pop(_key(message.id), None)
        self._deliver(line)

    def expect(self, session: str) -> None:
        """A session will be shown whose stream the client may not know to open yet."""
        stream = self._streams.get(session)
        if (stream is None or not stream.is_read) and len(self._streamless) < self._most_streams:
            self._streamless.add(session)

    def asked_of(self, message: Response | ErrorResponse) -> str | None:
        """The session in which a question was asked that this answers."""
        found = None if message.id is None else self._questions.get(_key(message.id))
        return None if found is None else found.session

    # What is read.

    def open(self, session: str | None) -> OutgoingStream | None:
        """The stream of a session, or of the connection, to be read; None if somebody does."""
        stream = self._stream(session)
        if self._ended.is_set() or not stream.begin():
            return None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if session is not None:
            self._streamless.discard(session)
        open_questions = [q.event for q in self._questions.values() if q.session == session]
        stream.put_first([event for event in open_questions if not stream.waits(event)])
        return stream

    @property
    def is_full(self) -> bool:
        """Whether it has as many streams as it may have."""
        return sum(stream.is_read for stream in self._streams.values()) >= self._most_streams

    def leave(self, session: str | None, stream: OutgoingStream) -> None:
        """Nobody reads it any more."""
        stream.leave()
        self._left.set()
        if stream.idle and self._streams.get(session) is stream:
            del self._streams[session]
        self._wait_for_streams()

    def end(self, error: TransportError | None) -> None:
        """The connection ends; again is fine."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._started.set()
        self._may_read.set()
        if self._idle is not None:
            self._idle.cancel()
        if self._first is not None and not self._first[1].done():
            gone = ConnectionClosed(f"the connection to {self._name} has ended")
            self._first[1].set_exception(error or gone)
        loop = asyncio.get_running_loop()
        for stream in self._streams.values():
            if stream.is_read and self._reason:
                stream.put(b": " + self._reason.encode("ascii", "replace") + b"\n\n")
            stream.end()
            loop.call_later(CLOSE_SECONDS, stream.cut)
        if self._receiver is not None:
            self._receiver.link_closed(error)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended.is_set()

    async def _readers_gone(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                while any(stream.is_read for stream in self._streams.values()):
                    self._left.clear()
                    await self._left.wait()

    # Where it goes.

    def _send(self, line: bytes) -> None:
        message = decode(line, default_loads())
        match message:
            case Response() | ErrorResponse() | Malformed():
                self._answer(message.id, line, well=isinstance(message, Response))
            case Request():
                session = self._where(message)
                event = as_event(line)
                self._questions[_key(message.id)] = _Question(session, event)
                self._stream(session).put(event)
            case Notification(method="$/cancel_request", params=dict(params)):
                request_id = params.get("requestId")
                found = None
                if isinstance(request_id, int | str):
                    found = self._questions.pop(_key(request_id), None)
                self._stream(None if found is None else found.session).put(as_event(line))
            case Notification():
                if (child := _announced(message.params)) is not None:
                    self.expect(child)
                self._stream(self._where(message)).put(as_event(line))

    def _where(self, message: Request | Notification) -> str | None:
        session = session_named(message.params)
        return None if session in self._streamless else session

    def _answer(self, request_id: RequestId | None, line: bytes, *, well: bool) -> None:
        key = None if request_id is None else _key(request_id)
        if self._first is not None and key == self._first[0]:
            if not self._first[1].done():
                self._first[1].set_result(line)
            return
        way = _Way(None) if key is None else self._ways.pop(key, _Way(None))
        stream, event = self._stream(way.session), as_event(line)
        if way.behind is not None and way.behind in self._streams:
            self._streams[way.behind].behind(lambda: stream.put(event))
        else:
            stream.put(event)
            if way.closes and well and way.session is not None and stream.is_read:
                del self._streams[way.session]
                stream.end()

    def _stream(self, session: str | None) -> OutgoingStream:
        found = self._streams.get(session)
        if found is None:
            found = self._streams[session] = OutgoingStream(self._changed)
        return found

    def _deliver(self, line: bytes) -> None:
        if self._receiver is not None:
            # JSON has line breaks between its parts only, where a blank does as well.
            self._receiver.data_received(line.replace(b"\n", b" ") + b"\n")

    # How much there is.

    def _changed(self, by: int, by_read: int) -> None:
        self._size += by
        self._size_read += by_read
        if self._receiver is None or self._ended.is_set():
            return
        full = self._size_read > HIGH_WATER_BYTES or self._size > WAITING_BYTES
        if full and not self._paused:
            self._paused = True
            self._receiver.pause_writing()
        elif self._paused and not full and self._size_read <= LOW_WATER_BYTES:
            self._paused = False
            self._receiver.resume_writing()

    def _wait_for_streams(self) -> None:
        """End the link if nobody opens a stream for too long."""
        if self._ended.is_set() or any(stream.is_read for stream in self._streams.values()):
            return
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        self.end(ConnectionClosed(f"{self._name} has read no stream for {self._idle_seconds:g} s"))


def _announced(params: JsonValue) -> str | None:
    """The session of a sub-agent that its client is told of."""
    is_one = text_at(params, "update", "sessionUpdate") == "subagent_update"
    return text_at(params, "update", "sessionId") if is_one else None


def _key(request_id: RequestId) -> _Key:
    return (type(request_id), request_id)


BATCH_BYTES: Final = 64 * 1024
"""Bytes of events that are handed over at once."""

_Item: TypeAlias = "bytes | Callable[[], None]"


class OutgoingStream:
    """Of one session, or of the connection. ``changed`` is told by how many bytes more, or less,
    wait: in all, and of what somebody reads.
    """

    def __init__(self, changed: Callable[[int, int], None]) -> None:
        self._changed = changed
        self._waiting: deque[_Item] = deque()
        self._size = 0
        self._taken = 0
        self._news = asyncio.Event()
        self._ended = False
        self.is_read: bool = False
        """Whether somebody reads it."""
        self.cut: Callable[[], None] = lambda: None
        """Ends its reader, however little they take."""

    def put(self, event: bytes) -> None:
        """An event more."""
        self._waiting.append(event)
        self._grow(len(event))
        self._news.set()

    def put_first(self, events: list[bytes]) -> None:
        """Before all that waits."""
        self._waiting.extendleft(reversed(events))
        self._grow(sum(map(len, events)))
        self._news.set()

    def behind(self, then: Callable[[], None]) -> None:
        """Call ``then`` when what waits now has gone, or can go nowhere."""
        if self.idle or not self.is_read:
            then()
        else:
            self._waiting.append(then)

    def waits(self, event: bytes) -> bool:
        """Whether this very event has not gone yet."""
        return any(item is event for item in self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting and not self._taken

    def begin(self) -> bool:
        """Somebody will read it from now on; False if somebody does."""
        if self.is_read or self._ended:
            return False
        self.is_read = True
        self._changed(0, self._size)
        return True

    def leave(self) -> None:
        """Nobody does any more. What they were given has gone, whether it arrived or not."""
        self._gone()
        self.is_read = False
        self._changed(0, -self._size)
        for item in [item for item in self._waiting if not isinstance(item, bytes)]:
            self._waiting.remove(item)
            item()

    async def next(self, seconds: float) -> bytes | None:
        """Return the next bytes to send; None at the end.

        When there is nothing for so many ``seconds``, what keeps the stream alive.
        """
        self._gone()
        while True:
            events = self._batch()
            if events:
                return events
            if self._ended:
                return None
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
                continue
            return KEEP_ALIVE

    def end(self) -> None:
        """Nothing more will come: its reader gets what waits, and the end."""
        self._ended = True
        self._news.set()

    def _batch(self) -> bytes:
        """As much as may go at once, up to the next that somebody waits to have gone."""
        found: list[bytes] = []
        while self._waiting and self._taken < BATCH_BYTES:
            item = self._waiting[0]
            if not isinstance(item, bytes):
                if found:
                    break
                self._waiting.popleft()
                item()
                continue
            self._waiting.popleft()
            found.append(item)
            self._taken += len(item)
        return found[0] if len(found) == 1 else b"".join(found)

    def _gone(self) -> None:
        taken, self._taken = self._taken, 0
        self._grow(-taken)

    def _grow(self, by: int) -> None:
        if by:
            self._size += by
            self._changed(by, by if self.is_read else 0)
