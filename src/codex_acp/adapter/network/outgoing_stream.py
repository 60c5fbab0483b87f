"""The streams of one connection over streamable HTTP: what waits in each for whoever reads it.

Each has one reader at a time, who may come later, go, and come back. What is for a stream that
nobody reads waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp.transport.streamable_http import KEEP_ALIVE

if TYPE_CHECKING:
    from collections.abc import Callable

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
