"""Messages of a websocket as a link, once it is open: each is one text frame, one line here.

What client and server have in common; `websocket` connects, `websocket_server` accepts. Must not
know what the messages are. The package ``websockets`` is loaded when it is needed.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError

if TYPE_CHECKING:
    from asyncio import Task

    from websockets.asyncio.connection import Connection as WebSocket
    from websockets.exceptions import ConnectionClosed as Closed

    from codex_acp.transport.link import Receiver

__all__ = ["CLOSE_SECONDS", "HIGH_WATER_BYTES", "MessageLink"]

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""For what is unsent and the closing handshake; then the connection is cut."""

HIGH_WATER_BYTES: Final = 64 * 1024
"""Unsent bytes above which the writer is paused: the capacity of a pipe on Linux."""

FRAGMENT_BYTES: Final = 8 * 1024 * 1024
"""A larger message is sent in several frames: Codex takes none above 16 MiB."""

MAX_FRAGMENTS: Final = 4096
"""Frames of one message: empty ones are no bytes, and would be kept without end."""

TOO_BIG: Final = 1009
"""The close code for a message above the limit of its receiver (RFC 6455, section 7.4.1)."""

POLICY_VIOLATION: Final = 1008
"""The close code for whatever else is not taken."""


class MessageLink(ABC):
    """The half of a `Link` that both sides share; a subclass opens the connection.

    ``name`` stands for the peer in messages. ``message_limit`` is in bytes: a larger message ends
    the link, and the error says so.
    """

    def __init__(self, name: str, message_limit: int) -> None:
        self._name = name
        self._message_limit = message_limit
        self._receiver: Receiver | None = None
        self._running: Task[None] | None = None
        self._closing: Task[None] | None = None
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._writing_paused = False
        self._to_send = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._all_sent = asyncio.Event()
        self._connected = False
        self._told = False
        self._last_words: tuple[int, str] = (1000, "")

    def start(self, receiver: Receiver) -> None:
        """See `Link.start`."""
        if self._receiver is not None or self._closing is not None:
            message = "a link can be started only once"
            raise MisuseError(message)
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._run(), name=f"websocket {self._name}")

    def write(self, data: bytes) -> None:
        """See `Link.write`. Takes whole lines only."""
        if self._told or self._closing is not None:
            return
        for line in data.splitlines():
            self._unsent.append(line)
            self._unsent_size += len(line)
        self._to_send.set()
        self._all_sent.clear()
        if self._unsent_size > HIGH_WATER_BYTES and not self._writing_paused:
            self._writing_paused = True
            if self._receiver is not None:
                self._receiver.pause_writing()

    def pause_reading(self) -> None:
        """See `Link.pause_reading`."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """See `Link.resume_reading`."""
        self._may_read.set()

    async def aclose(self) -> None:
        """See `Link.aclose`. What is unsent gets a short time to be taken by the peer."""
        from codex_acp.transport.shielding import finish

        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await finish(self._closing)

    @abstractmethod
    async def _open(self) -> WebSocket:
        """The connection; a subclass says how."""

    def _why(self, failed: Exception) -> str:
        """Why there is no connection."""
        return f"the connection to {self._name} failed with {type(failed).__name__}: {failed}"

    async def _run(self) -> None:
        """Open it, then carry messages both ways until one side ends it."""
        error: TransportError | None
        try:
            connection = await self._open()
            try:
                error = await self._carry(connection)
            finally:
                await connection.close(*self._last_words)
        except asyncio.CancelledError:
            raise
        except TransportError as failed:
            error = failed
        except Exception as failed:
            logger.debug("the websocket to %s ended", self._name, exc_info=failed)
            error = ConnectionClosed(self._why(failed))
        self._tell_end(error)

    async def _carry(self, connection: WebSocket) -> TransportError | None:
        from websockets.exceptions import ConnectionClosed as Closed
        from websockets.exceptions import ConnectionClosedOK

        sender = asyncio.ensure_future(self._send_all(connection))
        self._connected = True
        try:
            while True:
                message = await self._next_message(connection)
                await self._may_read.wait()
                if message is not None and self._receiver is not None:
                    # JSON has line breaks between its parts only, where a blank does as well.
                    self._receiver.data_received(message.replace(b"\n", b" ") + b"\n")
        except ConnectionClosedOK:
            return None
        except Closed as closed:
            return ConnectionClosed(self._why_closed(closed))
        finally:
            sender.cancel()

    async def _next_message(self, connection: WebSocket) -> bytes | None:
        """None for a binary one, which ACP and Codex have no use for. Raises as ``recv``."""
        parts: list[str] = []
        count = 0
        async for part in connection.recv_streaming():
            count += 1
            if count > MAX_FRAGMENTS:
                await connection.close(POLICY_VIOLATION, "too many fragments")
                message = f"{self._name} sent a message of more than {MAX_FRAGMENTS} fragments"
                raise ConnectionClosed(message)
            if isinstance(part, str):
                parts.append(part)
        return "".join(parts).encode() if parts else None

    async def _send_all(self, connection: WebSocket) -> None:
        from websockets.exceptions import ConnectionClosed as Closed

        with suppress(Closed):  # the reading side tells it
            while True:
                await self._to_send.wait()
                await self._send_unsent(connection)
        self._resume_writer()

    async def _send_unsent(self, connection: WebSocket) -> None:
        while self._unsent:
            line = self._unsent[0]
            if len(line) <= FRAGMENT_BYTES:
                await connection.send(line, text=True)
            else:
                starts = range(0, len(line), FRAGMENT_BYTES)
                parts = [line[start : start + FRAGMENT_BYTES] for start in starts]
                await connection.send(parts, text=True)
            self._unsent.popleft()
            self._unsent_size -= len(line)
        self._to_send.clear()
        self._all_sent.set()
        self._resume_writer()

    def _resume_writer(self) -> None:
        if self._writing_paused:
            self._writing_paused = False
            if self._receiver is not None:
                self._receiver.resume_writing()

    async def _close(self) -> None:
        running = self._running
        if running is not None and not running.done():
            if self._connected and self._unsent:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._all_sent.wait(), CLOSE_SECONDS)
            running.cancel()
            await asyncio.wait({running}, timeout=2 * CLOSE_SECONDS)
        self._unsent.clear()
        self._tell_end(None)

    def _tell_end(self, error: TransportError | None) -> None:
        if self._told:
            return
        self._told = True
        if self._receiver is not None:
            self._receiver.link_closed(error)

    def _why_closed(self, closed: Closed) -> str:
        received, sent = closed.rcvd, closed.sent
        if received is not None and received.code == TOO_BIG and closed.rcvd_then_sent:
            return f"{self._name} takes no message as large as the last one"
        if sent is not None and sent.code == TOO_BIG:
            limit = self._message_limit
            return f"{self._name} sent a message above the limit of {limit} bytes"
        if received is None:
            return f"the connection to {self._name} was lost"
        return f"{self._name} closed the connection: {received}"
