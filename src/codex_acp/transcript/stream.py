"""Read the transcript as an async iterator.

A bounded buffer stands between the transcript and one reader. The transcript never waits: if the
reader is slow, the buffer drops its oldest entries, and the reader gets their number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import anyio

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.transcript.events import Entry

DEFAULT_LIMIT = 1024
"""Most entries that wait: hundreds of turns have as many, of a few hundred bytes each."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Stands for ``count`` entries that were dropped, because the reader was too slow."""

    count: int


class EntryStream:
    """Entries in the order in which they were recorded; made by `Transcript.events`.

    The stream collects entries from the moment when it is made. When the transcript closes, the
    iteration ends after the waiting entries. When the stream is closed, it ends at once.
    """

    def __init__(self, limit: int, forget: Callable[[EntryStream], None]) -> None:
        if limit < 1:
            raise MisuseError(f"the limit of a stream must be at least 1, not {limit}")
        self._waiting: deque[Entry] = deque(maxlen=limit)
        self._dropped = 0
        self._forget = forget
        self._changed = anyio.Event()
        self._ended = False

    def __repr__(self) -> str:
        return f"EntryStream(waiting={len(self._waiting)}, dropped={self._dropped})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry | Dropped:
        """Wait for an entry. Return how many entries were dropped before it, or else the entry."""
        while not self._waiting:
            if self._ended:
                raise StopAsyncIteration
            await self._changed.wait()
        if self._dropped:
            marker, self._dropped = Dropped(self._dropped), 0
            return marker
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Stop collecting, drop the waiting entries and end the iteration. Idempotent."""
        self._forget(self)
        self._waiting.clear()
        self.end()

    # Called by the transcript.

    def put(self, entry: Entry) -> None:
        """Add one entry; drop the oldest if too many wait."""
        if self._ended:
            return
        if len(self._waiting) == self._waiting.maxlen:
            self._dropped += 1
        self._waiting.append(entry)
        self._wake()

    def end(self) -> None:
        """End the iteration after the waiting entries."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
