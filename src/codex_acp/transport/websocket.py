"""A websocket as a link: each message is one text frame, and one line for whoever reads.

Connects when it is started, so that what is wrong is told as the end of the link. Needs the
package ``websockets``, which is loaded then. Must not know what the messages are.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError
from codex_acp.jsonrpc.framing import DEFAULT_LINE_LIMIT

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable

    from websockets.asyncio.client import ClientConnection
    from websockets.exceptions import ConnectionClosed as Closed

    from codex_acp.transport.link import Receiver

__all__ = ["WebSocketLink"]

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 10.0
"""For the connection and its handshake."""

CLOSE_SECONDS: Final = 1.0
"""For what is unsent and the closing handshake; then the connection is cut."""

HIGH_WATER_BYTES: Final = 64 * 1024
"""Unsent bytes above which the writer is paused: the capacity of a pipe on Linux."""

FRAGMENT_BYTES: Final = 8 * 1024 * 1024
"""A larger message is sent in several frames: Codex takes none above 16 MiB."""

TOO_BIG: Final = 1009
"""The close code for a message above the limit of its receiver (RFC 6455, section 7.4.1)."""


class WebSocketLink:
    """A websocket as a `Link`.

    ``name`` stands for the peer in messages. ``unix_path`` connects over that socket in place of
    the URL's host. ``token`` is asked for when connecting, for ``Authorization: Bearer``.
    ``message_limit`` is in bytes: a larger message ends the link, and the error says so.
    The receiver hears ConnectionClosed with the reason when it cannot connect, or is cut off.

    Raises MisuseError if the package websockets is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        unix_path: str | None = None,
        token: Callable[[], str] | None = None,
        message_limit: int = DEFAULT_LINE_LIMIT,
    ) -> None:
        if find_spec("websockets") is None:
            message = "websockets is not installed: pip install 'codex-acp-sdk[remote]'"
            raise MisuseError(message)
        self._url = url
        self._name = name
        self._unix_path = unix_path
        self._token = token
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

    def __repr__(self) -> str:
        return f"WebSocketLink({self._name!r})"

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

    async def _run(self) -> None:
        """Connect, then carry messages both ways until one side ends it."""
        error: TransportError | None
        try:
            connection = await self._connect()
            try:
                error = await self._carry(connection)
            finally:
                await connection.close()
        except asyncio.CancelledError:
            raise
        except Exception as failed:
            logger.debug("the websocket to %s ended", self._name, exc_info=failed)
            error = ConnectionClosed(self._why(failed))
        self._tell_end(error)

    async def _connect(self) -> ClientConnection:
        from websockets.asyncio.client import connect, unix_connect

        headers = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token().strip()}"
        options: dict[str, Any] = {
            "additional_headers": headers,
            "compression": None,  # the other end is this machine, or a tunnel
            "max_size": self._message_limit,
            "open_timeout": CONNECT_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "ping_timeout": None,  # who does not read for a while must not be cut off for it
        }
        if self._unix_path is not None:
            return await unix_connect(self._unix_path, self._url, proxy=None, **options)
        if self._url.startswith("ws:"):  # a proxy is for what is far away, and that is wss
            options["proxy"] = None
        return await connect(self._url, **options)

    async def _carry(self, connection: ClientConnection) -> TransportError | None:
        from websockets.exceptions import ConnectionClosed as Closed
        from websockets.exceptions import ConnectionClosedOK

        sender = asyncio.ensure_future(self._send_all(connection))
        self._connected = True
        try:
            while True:
                message: bytes = await connection.recv(decode=False)
                await self._may_read.wait()
                if self._receiver is not None:
                    # JSON has line breaks between its parts only, where a blank does as well.
                    self._receiver.data_received(message.replace(b"\n", b" ") + b"\n")
        except ConnectionClosedOK:
            return None
        except Closed as closed:
            return ConnectionClosed(self._why_closed(closed))
        finally:
            sender.cancel()

    async def _send_all(self, connection: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed as Closed

        with suppress(Closed):  # the reading side tells it
            while True:
                await self._to_send.wait()
                await self._send_unsent(connection)
        self._resume_writer()

    async def _send_unsent(self, connection: ClientConnection) -> None:
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

    def _why(self, failed: Exception) -> str:
        """Why there is no connection."""
        from websockets.exceptions import InvalidStatus, WebSocketException

        if isinstance(failed, InvalidStatus):
            response = failed.response
            said = (response.body or b"")[:200].decode(errors="replace").strip()
            what = f"{response.status_code} {said or response.reason_phrase}"
            if response.status_code in (401, 403):
                return f"{self._name} refused the token: {what}; see its --ws-auth"
            return f"{self._name} is no app-server: it answered {what}"
        if isinstance(failed, TimeoutError):
            return f"{self._name} did not answer within {CONNECT_SECONDS:g} s"
        if isinstance(failed, OSError):
            return f"nobody can be reached at {self._name}: {failed}"
        if isinstance(failed, WebSocketException):
            return f"{self._name} is no app-server: {failed}"
        return f"connecting to {self._name} failed with {type(failed).__name__}: {failed}"

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
