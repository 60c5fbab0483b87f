"""One event stream of ACP over HTTP, opened again where nothing can have been lost.

A stream that the server ends in order has lost nothing: it keeps what comes until the next one
asks. One that breaks off may have: nobody replays it, so it ends the connection. Must not know
what the messages mean.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codex_acp.errors import ConnectionClosed
from codex_acp.transport.http_requests import HttpRequests, NotReached, Refused

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from codex_acp.transport.remote_peer import RemotePeer

PAUSES: Final = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each attempt to open a stream again that brought nothing the last time."""
LASTING_SECONDS: Final = 1.0
"""A stream that was open for so long was not closed at once."""
SILENT_SECONDS: Final = 60.0
"""Without a byte from a server that said by a comment that it is there: it no longer is."""
GONE: Final = (404, 410)
"""The server no longer knows what it was asked about."""
BUSY: Final = (409, 425, 429, 503)
"""Not now: the stream before this one may not be closed yet."""


class HttpStream:
    """``take`` is given the messages as they come, some at once, and may hold up the reading."""

    task: Task[None]
    """Task that reads the stream."""

    def __init__(
        self,
        requests: HttpRequests,
        headers: Mapping[str, str],
        peer: RemotePeer,
        limit: int,
        take: Callable[[list[bytes]], Awaitable[None]],
    ) -> None:
        self._requests = requests
        self._headers = headers
        self._peer = peer
        self._limit = limit
        self._take = take
        self._taking = False
        self._heard_at = self._now()
        self.answered: asyncio.Event = asyncio.Event()
        """Set once the server has said whether there is such a stream."""
        self.was_open: bool = False
        """Whether there was one."""

    async def run(self) -> str:
        """Until the server no longer knows it, in its own words. Raises ConnectionClosed."""
        in_vain = 0
        while True:
            begun = self._now()
            heard = False
            try:
                heard = await self._read()
            except Refused as refused:
                self.answered.set()
                answer = refused.answer
                if answer.status in GONE:
                    return f"{answer.status} {answer.words}"
                if answer.status not in BUSY or in_vain + 1 >= len(PAUSES):
                    raise ConnectionClosed(self._peer.answered(*answer.said)) from None
            except NotReached:  # so nothing was on its way
                if in_vain + 1 >= len(PAUSES):
                    raise
            in_vain = 0 if heard or self._now() - begun > LASTING_SECONDS else in_vain + 1
            if in_vain >= len(PAUSES):
                message = f"{self._peer.name} closes each stream as soon as it is opened"
                raise ConnectionClosed(message)
            await asyncio.sleep(PAUSES[in_vain])

    def quiet_for(self, seconds: float) -> bool:
        """Whether nothing has come for so long, and nothing waits to be taken."""
        return not self._taking and self._now() - self._heard_at >= seconds

    async def _read(self) -> bool:
        """Until the server ends it in order; whether there was a message."""
        heard = False
        events = EventStream(self._limit)
        async with self._requests.stream(self._headers) as chunks:
            self.was_open = True
            self.answered.set()
            while True:
                chunk = await self._next(chunks, events)
                if chunk is None:
                    break
                self._heard_at = self._now()
                try:
                    messages = events.feed(chunk)
                except EventTooLarge as wrong:
                    raise ConnectionClosed(f"{self._peer.name} {wrong}") from None
                if messages:
                    heard = self._taking = True
                    await self._take(messages)
                    self._taking = False
        if events.inside:
            raise ConnectionClosed(f"{self._peer.name} broke off in the middle of a message")
        return heard

    async def _next(self, chunks: AsyncIterator[bytes], events: EventStream) -> bytes | None:
        """None at the end."""
        try:
            async with asyncio.timeout(SILENT_SECONDS if events.commented else None):
                return await anext(chunks, None)
        except TimeoutError:
            raise ConnectionClosed(
                f"the connection to {self._peer.name} was lost: nothing has come for "
                f"{SILENT_SECONDS:g} s, not even its signs of life"
            ) from None

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


# Server-sent events: bytes to the data of each event, with a limit on what is held.

MAX_IDLE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of comments and unused fields between two events: a sign of life is a few bytes."""
FIELD_BYTES: Final = 8
"""Bytes of a line that tell its field: a byte order mark and ``data:``."""
MARK: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event of the stream is too large; the message goes on from the sender's name."""


class EventStream:
    """Takes chunks, gives what the events hold. ``limit`` is in bytes of one event's data."""

    __slots__ = (
        "_after_return", "_data", "_first", "_idle", "_limit", "_line", "_skipping", "commented",
    )  # fmt: skip

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data = bytearray()
        self._idle = 0
        self._skipping = False
        self._after_return = False
        self._first = True
        self.commented: bool = False
        """Whether there was anything besides messages, as a sign of life."""

    @property
    def inside(self) -> bool:
        """Whether an event has begun that has not ended."""
        return bool(self._data or self._line.lstrip(MARK))

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; the data of the events that it completes. Raises EventTooLarge."""
        if b"\r" in chunk or self._after_return:
            if self._after_return and chunk.startswith(b"\n"):
                chunk = chunk[1:]
            elif not chunk:
                return []
            self._after_return = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[bytes] = []
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if self._skipping or self._line:
                self._take_part(part)
                line = bytes(self._line)
                self._line.clear()
                if self._skipping:
                    self._skipping = False
                    continue
            else:
                line = part
            self._take_line(line, events)
        if rest:
            self._take_part(rest)
        return events

    def _take_part(self, part: bytes) -> None:
        """A part of a line; nothing is kept of one whose field has no use."""
        if self._skipping:
            self._count_idle(len(part))
            return
        self._line += part
        if len(self._line) >= FIELD_BYTES and not self._is_data(self._line):
            self._skipping, self._first = True, False
            self._count_idle(len(self._line))
            self._line.clear()
        elif len(self._line) + len(self._data) > self._limit + FIELD_BYTES:
            self._refuse()

    def _is_data(self, line: bytes | bytearray) -> bool:
        return line.startswith(b"data:") or (self._first and line.startswith(MARK + b"data:"))

    def _take_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(MARK)
        if not line:
            if self._data:
                events.append(bytes(self._data[:-1]))
                self._data.clear()
                self._idle = 0
            return
        if line.startswith(b"data:"):
            begin = 6 if line[5:6] == b" " else 5
            if len(line) - begin + len(self._data) > self._limit:
                self._refuse()
            self._data += line[begin:]
            self._data += b"\n"
        else:  # also a bare "data", which adds an empty line: no JSON needs it
            self._count_idle(len(line) + 1)

    def _count_idle(self, size: int) -> None:
        self.commented = True
        self._idle += size
        if self._idle > MAX_IDLE_BYTES:
            message = f"sent more than {MAX_IDLE_BYTES} bytes of comments with no message"
            raise EventTooLarge(message)

    def _refuse(self) -> None:
        raise EventTooLarge(f"sent a message above the limit of {self._limit} bytes")
