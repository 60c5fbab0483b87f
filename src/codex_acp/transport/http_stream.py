"""One event stream of ACP over HTTP, opened again where nothing can have been lost.

A stream that the server ends in order has lost nothing: it keeps what comes until the next one
asks. One that breaks off may have: nobody replays it, so it ends the connection. Must not know
what the messages mean.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from codex_acp.errors import ConnectionClosed
from codex_acp.transport.event_stream import EventStream, EventTooLarge
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
