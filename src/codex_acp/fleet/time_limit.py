"""The time that a task may take, which does not run while one of its questions waits."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


class TimeLimit:
    """``async with TimeLimit(seconds) as limit:`` raises TimeoutError when they are over; None for
    no limit. A failed block whose own code raised TimeoutError is told from it by `expired`."""

    def __init__(self, seconds: float | None) -> None:
        self._left = seconds
        self._pauses = 0
        self._since = 0.0

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(self._left)
        self._since = self._loop.time()
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self._timeout.__aexit__(*exc)

    @property
    def expired(self) -> bool:
        """Whether it is over."""
        return self._timeout.expired()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time does not run meanwhile; several may overlap."""
        self._pauses += 1
        if self._pauses == 1 and self._left is not None and not self._timeout.expired():
            self._left -= self._loop.time() - self._since
            with suppress(RuntimeError):
                self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and self._left is not None and not self._timeout.expired():
                self._since = self._loop.time()
                with suppress(RuntimeError):  # the block has been left meanwhile
                    self._timeout.reschedule(self._since + max(self._left, 0.0))
