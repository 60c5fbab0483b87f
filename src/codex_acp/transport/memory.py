"""Two links joined in memory, for tests: what one writes the other receives.

Behaves like a pair of pipes: ordered, asynchronous, with a bounded buffer and back-pressure.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codex_acp.errors import TransportError
    from codex_acp.transport.link import Receiver

_BUFFER_LIMIT: Final = 64 * 1024
"""Bytes waiting above which the writer is paused: the capacity of a pipe on Linux."""


def memory_pair(buffer_limit: int = _BUFFER_LIMIT) -> tuple[MemoryLink, MemoryLink]:
    """Two links; a writer is paused above ``buffer_limit`` unread bytes, resumed at none."""
    left, right = MemoryLink(buffer_limit), MemoryLink(buffer_limit)
    left.peer, right.peer = right, left
    return left, right


class MemoryLink:
    """One end of a pair; made by `memory_pair`."""

    peer: MemoryLink

    def __init__(self, buffer_limit: int) -> None:
        self._limit = buffer_limit
        self._receiver: Receiver | None = None
        self._inbound: list[bytes] = []
        self._inbound_size = 0
        self._inbound_ended = False
        self._paused = False
        self._scheduled = False
        self._closed = False
        self._told = False
        self._writer_paused = False

    def __repr__(self) -> str:
        return f"MemoryLink(closed={self._closed})"

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self.peer._inbound_size > self._limit:
            asyncio.get_running_loop().call_soon(self._pause_writer)
        self._schedule()

    def write(self, data: bytes) -> None:
        peer = self.peer
        if self._closed or peer._closed or not data:
            return
        peer._inbound.append(data)
        peer._inbound_size += len(data)
        peer._schedule()
        if peer._inbound_size > self._limit:
            self._pause_writer()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._schedule()

    def end_writing(self) -> None:
        """Half-close: the peer hears a clean end after all data; this end still receives."""
        self.peer._inbound_ended = True
        self.peer._schedule()

    def fail(self, error: TransportError) -> None:
        """Break this end only: its receiver hears ``error``, the peer hears nothing."""
        asyncio.get_running_loop().call_soon(self._end, error)

    async def aclose(self) -> None:
        if not self._closed:
            self.end_writing()
        self._end(None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        receiver = self._receiver
        if receiver is None or self._closed or self._paused:
            return
        if self._inbound:
            data = b"".join(self._inbound)
            self._inbound.clear()
            self._inbound_size = 0
            receiver.data_received(data)
            self.peer._resume_writer()
        if self._inbound_ended and not self._inbound and not self._paused:
            self._tell_end(None)

    def _pause_writer(self) -> None:
        if self._receiver is not None and not self._writer_paused and not self._closed:
            self._writer_paused = True
            self._receiver.pause_writing()

    def _resume_writer(self) -> None:
        if self._receiver is not None and self._writer_paused and not self._closed:
            self._writer_paused = False
            self._receiver.resume_writing()

    def _end(self, error: TransportError | None) -> None:
        self._closed = True
        self._inbound.clear()
        self._inbound_size = 0
        self._tell_end(error)
        self.peer._resume_writer()  # what it writes is dropped from now on

    def _tell_end(self, error: TransportError | None) -> None:
        if self._receiver is not None and not self._told:
            self._told = True
            self._receiver.link_closed(error)
