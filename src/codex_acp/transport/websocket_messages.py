"""Messages of a websocket as a link, once it is open: each is one text frame, one line here.

What client and server have in common; `websocket` connects, `adapter.network.websockets` accepts.
Must not know what the messages are. The package ``websockets`` is loaded when it is needed.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import ConnectionClosed, TransportError
from codex_acp.transport.message_link import MessageLink

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection as WebSocket
    from websockets.exceptions import ConnectionClosed as Closed


FRAGMENT_BYTES: Final = 8 * 1024 * 1024
"""A larger message is sent in several frames: Codex takes none above 16 MiB."""

MAX_FRAGMENTS: Final = 4096
"""Frames of one message: empty ones are no bytes, and would be kept without end."""

TOO_BIG: Final = 1009
"""The close code for a message above the limit of its receiver (RFC 6455, section 7.4.1)."""

POLICY_VIOLATION: Final = 1008
"""The close code for whatever else is not taken."""


class WebSocketMessages(MessageLink):
    """The half of a link that both sides of a websocket share; a subclass opens the connection.

    ``message_limit`` is in bytes: a larger message ends the link, and the error says so.
    """

    _connection: WebSocket

    def __init__(self, name: str, message_limit: int) -> None:
        super().__init__(name)
        self._message_limit = message_limit
        self._last_words: tuple[int, str] = (1000, "")

    @abstractmethod
    async def _open(self) -> WebSocket:
        """The connection; a subclass says how."""

    async def _converse(self) -> TransportError | None:
        self._connection = connection = await self._open()
        try:
            return await self._carry(connection)
        finally:
            await connection.close(*self._last_words)

    async def _carry(self, connection: WebSocket) -> TransportError | None:
        from websockets.exceptions import ConnectionClosed as Closed
        from websockets.exceptions import ConnectionClosedOK

        sender = asyncio.ensure_future(self._send_until_closed())
        self._connected = True
        try:
            while True:
                message = await self._next_message(connection)
                await self._may_read.wait()
                if message is not None:
                    self._deliver(message)
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

    async def _send_until_closed(self) -> None:
        from websockets.exceptions import ConnectionClosed as Closed

        with suppress(Closed):  # the reading side tells it
            await self._send_all()
        self._resume_writer()

    async def _send(self, line: bytes) -> None:
        if len(line) <= FRAGMENT_BYTES:
            await self._connection.send(line, text=True)
        else:
            starts = range(0, len(line), FRAGMENT_BYTES)
            parts = [line[start : start + FRAGMENT_BYTES] for start in starts]
            await self._connection.send(parts, text=True)

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
