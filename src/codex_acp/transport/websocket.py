"""Make a link of a websocket: each message is a text, and arrives at the receiver as one line.

`start` imports the package ``websockets`` and connects. A failure to connect ends the link, like
any later failure. Must not know what the messages are.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError
from codex_acp.jsonrpc import DEFAULT_LINE_LIMIT
from codex_acp.transport.link import CLOSE_SECONDS, MessageLink
from codex_acp.transport.remote_address import (
    CONNECT_SECONDS,
    current_token,
    is_loopback,
    secrets_of_query,
    without_secrets,
)

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection
    from websockets.asyncio.connection import Connection as WebSocket

    from codex_acp.transport.remote_address import RemotePeer, Token


FRAGMENT_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of a frame; a larger message is sent in several: Codex refuses frames above 16 MiB."""
MAX_FRAGMENTS: Final = 4096
"""Most frames of one message: the limit of bytes does not stop empty frames."""
TOO_BIG: Final = 1009
"""The close code for a message above the limit of its receiver (RFC 6455, section 7.4.1)."""
POLICY_VIOLATION: Final = 1008
"""The close code for other violations of this side's rules (RFC 6455, section 7.4.1)."""


class WebSocketMessages(MessageLink):
    """Base of the links of both sides of a websocket; ``message_limit`` is in bytes.

    `MessageLink` calls `_converse`, `_send` and `_why`, and sets `_may_read`. The error that
    `_converse` returns ends the link.
    """

    _connection: WebSocket

    def __init__(self, name: str, message_limit: int) -> None:
        super().__init__(name)
        self._message_limit = message_limit
        self._close_reason: tuple[int, str] = (1000, "")

    @abstractmethod
    async def _open(self) -> WebSocket:
        """Return the open connection."""

    async def _converse(self) -> TransportError | None:
        from websockets.exceptions import ConnectionClosed as Closed
        from websockets.exceptions import ConnectionClosedOK

        self._connection = connection = await self._open()
        sender = asyncio.ensure_future(self._send_until_closed())
        self._connected = True
        try:
            while True:
                parts: list[str] = []
                fragments = 0
                async for part in connection.recv_streaming():
                    fragments += 1
                    if fragments > MAX_FRAGMENTS:
                        await connection.close(POLICY_VIOLATION, "too many fragments")
                        why = f"{self._name} sent a message of more than {MAX_FRAGMENTS} fragments"
                        return ConnectionClosed(why)
                    if isinstance(part, str):  # ACP and Codex have no use for binary messages
                        parts.append(part)
                await self._may_read.wait()
                if parts:
                    self._deliver("".join(parts).encode())
        except ConnectionClosedOK:
            return None
        except Closed as closed:
            received, sent = closed.rcvd, closed.sent
            if received is not None and received.code == TOO_BIG and closed.rcvd_then_sent:
                why = f"{self._name} takes no message as large as the last one"
            elif sent is not None and sent.code == TOO_BIG:
                why = f"{self._name} sent a message above the limit of {self._message_limit} bytes"
            elif received is None:
                why = f"the connection to {self._name} was lost"
            else:
                why = f"{self._name} closed the connection: {received}"
            return ConnectionClosed(why)
        finally:
            sender.cancel()
            await connection.close(*self._close_reason)

    async def _send_until_closed(self) -> None:
        from websockets.exceptions import ConnectionClosed as Closed

        with suppress(Closed):  # `_converse` reports the end
            await self._send_all()
        self._resume_writer()  # else a writer that waits for the peer would wait for ever

    async def _send(self, line: bytes) -> None:
        if len(line) <= FRAGMENT_BYTES:
            await self._connection.send(line, text=True)
        else:
            starts = range(0, len(line), FRAGMENT_BYTES)
            parts = [line[start : start + FRAGMENT_BYTES] for start in starts]
            await self._connection.send(parts, text=True)


PING_EVERY_SECONDS: Final = 20.0
"""Seconds between two pings."""


class WebSocketLink(WebSocketMessages):
    """A websocket as a `Link`.

    ``unix_path`` is a socket to connect to instead of the URL's host. A function as ``token`` is
    called when the link connects. The link ends with ConnectionClosed after a message above
    ``message_limit`` bytes, after a ping unanswered for ``ping_seconds`` (None: no limit), or when
    the connection fails or breaks.

    Raises MisuseError if the package websockets is not installed.
    """

    def __init__(
        self,
        url: str,
        peer: RemotePeer,
        *,
        unix_path: str | None = None,
        token: Token | None = None,
        message_limit: int = DEFAULT_LINE_LIMIT,
        ping_seconds: float | None = None,
    ) -> None:
        if find_spec("websockets") is None:
            raise MisuseError("websockets is not installed: pip install 'codex-acp-sdk[remote]'")
        super().__init__(peer.name, message_limit)
        self._url = url
        self._peer = peer
        self._unix_path = unix_path
        self._token = token
        self._sent_token: str | None = None
        self._ping_seconds = ping_seconds

    async def _open(self) -> ClientConnection:
        from websockets.asyncio.client import connect, unix_connect

        headers = {}
        self._sent_token = current_token(self._token)
        if self._sent_token is not None:
            headers["Authorization"] = f"Bearer {self._sent_token}"
        options: dict[str, Any] = {
            "additional_headers": headers,
            "compression": None,  # most peers are local or in a tunnel
            "max_size": self._message_limit,
            "open_timeout": CONNECT_SECONDS,
            "close_timeout": CLOSE_SECONDS,
            "ping_interval": PING_EVERY_SECONDS,
            "ping_timeout": self._ping_seconds,
        }
        if self._unix_path is not None:
            return await unix_connect(self._unix_path, self._url, proxy=None, **options)
        # Only the wss URL of another machine goes through a proxy.
        if self._url.startswith("ws:") or is_loopback(urlsplit(self._url).hostname or ""):
            options["proxy"] = None

        class ConnectWithoutRedirects(connect):
            """Follows no redirect, which would carry messages and token elsewhere."""

            def process_redirect(self, exc: Exception) -> Exception | str:
                return exc

        return await ConnectWithoutRedirects(self._url, **options)

    def _why(self, failed: Exception) -> str:
        from websockets.exceptions import InvalidStatus, WebSocketException

        secrets = (self._sent_token, *secrets_of_query(self._url))
        if isinstance(failed, InvalidStatus):
            response = failed.response
            text = (response.body or b"").decode(errors="replace").strip() or response.reason_phrase
            target = response.headers.get("Location")
            target = None if target is None else without_secrets(target, secrets)
            text = without_secrets(text, secrets)
            return self._peer.answered_text(response.status_code, text, target)
        if isinstance(failed, TimeoutError):
            return self._peer.silent_text()
        if isinstance(failed, OSError):
            return self._peer.unreachable_text(failed)
        if isinstance(failed, WebSocketException):
            return f"{self._name} is no {self._peer.kind}: {without_secrets(failed, secrets)}"
        why = f"{type(failed).__name__}: {without_secrets(failed, secrets)}"
        return f"connecting to {self._name} failed with {why}"
