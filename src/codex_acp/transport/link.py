"""Define links, which carry bytes both ways and push arriving bytes, like asyncio's transports.

Pushing makes one synchronous call path from the read of a descriptor to the handler of a message,
with no task switch and no queue. Must not know what the bytes mean.

`MessageLink` is the base of links on which whole messages travel: frames of a websocket, or HTTP
requests and event streams. `memory_pair` joins two links in memory.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError

if TYPE_CHECKING:
    from asyncio import Task


class Receiver(Protocol):
    """Receives the data and the state of a link. No method may block or be async."""

    def data_received(self, data: bytes) -> None:
        """Handle a non-empty chunk; chunks come in order."""

    def link_closed(self, error: TransportError | None) -> None:
        """Handle the end of the link, once, after all data. ``error`` is None for a clean end."""

    def pause_writing(self) -> None:
        """Note that the peer is slow: bytes that are written from now on wait in memory."""

    def resume_writing(self) -> None:
        """Note that the peer has caught up or is gone: nobody needs to wait for it."""


class Link(Protocol):
    """A byte stream to a peer and back, on the running event loop."""

    def start(self, receiver: Receiver) -> None:
        """Deliver to ``receiver`` from now on, but nothing before this returns."""

    def write(self, data: bytes) -> None:
        """Send in order, without waiting; may call ``pause_writing``, but never ``link_closed``."""

    def pause_reading(self) -> None:
        """Deliver no data until `resume_reading`, so that the peer feels the back-pressure."""

    def resume_reading(self) -> None:
        """Deliver data again."""

    async def aclose(self) -> None:
        """Deliver no more, and release all resources in bounded time, even if the caller is
        cancelled. Call ``link_closed(None)``, unless ``link_closed`` was called before. Idempotent.
        """


logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""Seconds to send unsent messages, then as many for the closing handshake; then the link is cut."""

HIGH_WATER_BYTES: Final = 64 * 1024
"""Unsent bytes above which the writer is paused: the capacity of a pipe on Linux."""


class MessageLink(ABC):
    """Base of the links that carry whole messages; ``name`` names the peer in error messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._receiver: Receiver | None = None
        self._running: Task[None] | None = None
        self._closing: Task[None] | None = None
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue()
        self._unsent_size = 0  # bytes
        self._writing_paused = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._connected = False  # whether the peer has accepted the connection; set by the subclass
        self._end_reported = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    def start(self, receiver: Receiver) -> None:
        if self._receiver is not None or self._closing is not None:
            raise MisuseError("a link can be started only once")
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._run(), name=f"link to {self._name}")

    def write(self, data: bytes) -> None:
        """Write whole lines, each of which becomes a message."""
        if self._end_reported or self._closing is not None:
            return
        for line in data.splitlines():
            self._unsent.put_nowait(line)
            self._unsent_size += len(line)
        if self._unsent_size > HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def aclose(self) -> None:
        """Close the link; the peer gets a short time to take unsent messages."""
        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await finish(self._closing)

    @abstractmethod
    async def _converse(self) -> TransportError | None:
        """Connect, carry messages until a side closes; return the error, None for a clean end."""

    @abstractmethod
    async def _send(self, line: bytes) -> None:
        """Send one message. Called by `_send_all`."""

    def _why(self, failed: Exception) -> str:
        """Return a text about the failure of the connection, for a person."""
        return f"the connection to {self._name} failed with {type(failed).__name__}: {failed}"

    def _deliver(self, *messages: bytes) -> None:
        """Pass messages to the receiver. To be called only while `_may_read` is set."""
        if self._receiver is not None and self._closing is None:
            # JSON has line breaks only between tokens, where a space means the same.
            lines = (message.replace(b"\n", b" ") for message in messages)
            self._receiver.data_received(b"\n".join(lines) + b"\n")

    async def _run(self) -> None:
        error: TransportError | None
        try:
            error = await self._converse()
        except TransportError as failed:
            error = failed
        except Exception as failed:
            logger.debug("the link to %s ended", self._name, exc_info=failed)
            error = ConnectionClosed(self._why(failed))
        self._report_end(error)

    async def _send_all(self) -> NoReturn:
        """Send the written messages in order. Raises what `_send` raises."""
        while True:
            line = await self._unsent.get()
            await self._send(line)
            self._unsent.task_done()
            self._unsent_size -= len(line)
            if self._unsent.empty():
                self._resume_writer()

    def _resume_writer(self) -> None:
        if self._writing_paused:
            self._writing_paused = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    async def _close(self) -> None:
        running = self._running
        if running is not None and not running.done():
            if self._connected:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._unsent.join(), CLOSE_SECONDS)
            running.cancel()
            await asyncio.wait({running}, timeout=2 * CLOSE_SECONDS)  # for the closing handshake
        self._report_end(None)

    def _report_end(self, error: TransportError | None) -> None:
        if self._end_reported:
            return
        self._end_reported = True
        if self._receiver is not None:
            self._receiver.link_closed(error)


def memory_pair(buffer_limit: int = HIGH_WATER_BYTES) -> tuple[MemoryLink, MemoryLink]:
    """Return two joined links. A writer is paused above ``buffer_limit`` unread bytes, and resumed
    once all bytes are read."""
    left, right = MemoryLink(buffer_limit), MemoryLink(buffer_limit)
    left.peer, right.peer = right, left
    return left, right


class MemoryLink:
    """One end of a pair; made by `memory_pair`."""

    peer: MemoryLink

    def __init__(self, buffer_limit: int) -> None:
        self._limit = buffer_limit
        self._receiver: Receiver | None = None
        self._inbound = bytearray()  # bytes of the peer that are not delivered yet
        self._inbound_ended = False
        self._reading_paused = False
        self._delivery_scheduled = False
        self._closed = False
        self._end_reported = False
        self._writing_paused = False  # the receiver of this end must not write

    def __repr__(self) -> str:
        return f"MemoryLink(closed={self._closed})"

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if len(self.peer._inbound) > self._limit:
            asyncio.get_running_loop().call_soon(self._pause_writer)
        self._schedule()

    def write(self, data: bytes) -> None:
        peer = self.peer
        if self._closed or peer._closed or not data:
            return
        peer._inbound += data
        peer._schedule()
        if len(peer._inbound) > self._limit:
            self._pause_writer()

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._schedule()

    def end_writing(self) -> None:
        """Give the peer a clean end after all data; this end still receives."""
        self.peer._inbound_ended = True
        self.peer._schedule()

    def fail(self, error: TransportError) -> None:
        """Break this end only: its receiver gets ``error``, the peer gets nothing."""
        asyncio.get_running_loop().call_soon(self._end, error)

    async def aclose(self) -> None:
        if not self._closed:
            self.end_writing()
        self._end(None)

    def _schedule(self) -> None:
        if not self._delivery_scheduled:
            self._delivery_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._delivery_scheduled = False
        receiver = self._receiver
        if receiver is None or self._closed or self._reading_paused:
            return
        if self._inbound:
            data = bytes(self._inbound)
            self._inbound.clear()
            receiver.data_received(data)
            self.peer._resume_writer()
        if self._inbound_ended and not self._inbound and not self._reading_paused:
            self._report_end(None)

    def _pause_writer(self) -> None:
        if self._receiver is not None and not self._writing_paused and not self._closed:
            self._writing_paused = True
            self._receiver.pause_writing()

    def _resume_writer(self) -> None:
        if self._receiver is not None and self._writing_paused and not self._closed:
            self._writing_paused = False
            self._receiver.resume_writing()

    def _end(self, error: TransportError | None) -> None:
        self._closed = True
        self._inbound.clear()
        self._report_end(error)
        self.peer._resume_writer()  # from now on, the peer's `write` drops its data

    def _report_end(self, error: TransportError | None) -> None:
        if self._receiver is not None and not self._end_reported:
            self._end_reported = True
            self._receiver.link_closed(error)
