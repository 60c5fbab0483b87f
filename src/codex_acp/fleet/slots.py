"""How many tasks run at once. One that waits for an answer holds no slot."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slots:
    """``count`` tasks run, and at most ``parked`` more wait for an answer meanwhile: each still
    has its session, so that they may not be without number. Above that they hold their slot."""

    def __init__(self, count: int, parked: int) -> None:
        self._free = count
        self._parkable = parked
        self._news = asyncio.Event()

    async def take(self) -> None:
        """Wait for a slot."""
        while self._free <= 0:
            self._news.clear()
            await self._news.wait()
        self._free -= 1

    def give(self) -> None:
        """Give the slot back."""
        self._free += 1
        self._news.set()

    async def rest(self, seconds: float) -> None:
        """Whoever has a slot leaves it for so long, and has one again afterwards."""
        self.give()
        try:
            await asyncio.sleep(seconds)
            await self.take()
        except BaseException:
            self._free -= 1
            raise

    @contextmanager
    def parked(self) -> Iterator[None]:
        """A task waits for an answer. When it has one it goes on at once: there may be more tasks
        than slots until one of them ends."""
        if self._parkable <= 0:
            yield
            return
        self._parkable -= 1
        self.give()
        try:
            yield
        finally:
            self._parkable += 1
            self._free -= 1
