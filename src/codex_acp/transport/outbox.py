"""What a connection has to write: coalesced per iteration of the loop, and paced.

All messages of one iteration become one write, in order. Must not know what the messages are.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.errors import TransportError
    from codex_acp.transport.link import Link

__all__ = ["Outbox"]


class Outbox:
    """Collects lines for a link, and holds those who wait for the peer to take them."""

    __slots__ = ("_lines", "_link", "_waiters", "paused")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lines: list[bytes] = []
        self._waiters: list[asyncio.Future[TransportError | None]] = []
        self.paused = False
        """Whether the link said that the peer is slow."""

    def add(self, line: bytes) -> None:
        """Send a line at the end of this iteration of the loop, or at `flush`."""
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        """Send now what was added."""
        lines = self._lines
        if lines:
            self._lines = []
            self._link.write(lines[0] if len(lines) == 1 else b"".join(lines))

    def resume(self) -> None:
        """The peer has caught up."""
        self.paused = False
        self._wake(None)

    def close(self, error: TransportError) -> None:
        """Nothing can be written any more; whoever waits gets the error."""
        self._lines = []
        self._wake(error)

    async def drain(self) -> None:
        """Flush, and wait while the peer is slow. Raises the TransportError if it is gone."""
        self.flush()
        while self.paused:
            waiter: asyncio.Future[TransportError | None]
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            error = await waiter
            if error is not None:
                raise error.with_traceback(None)

    def _wake(self, error: TransportError | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(error)
