"""Serve HTTP/1.1 and HTTP/2 on accepted connections, with the package ``hypercorn``.

Hypercorn limits neither the connections of an owner nor the rate of requests: `HttpSocket` limits
both. Some classes of Hypercorn 0.18 are replaced, for all of this process, by the classes below.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.frame_buffer import FrameBuffer
from hypercorn import protocol as protocols
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.h11 import H11Protocol
from hyperframe.frame import SettingsFrame

from codex_acp.adapter.network.http_app import HttpApp
from codex_acp.adapter.network.http_sockets import HttpSocket
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypercorn.protocol.events import Event
    from hyperframe.frame import Frame

    from codex_acp.adapter.network.access_control import AccessControl, PendingConnections
    from codex_acp.adapter.network.connection import Hub

logger = logging.getLogger(__name__)

READ_BYTES: Final = 64 * 1024
"""Bytes of a connection that are read before Hypercorn needs them."""

KEEP_SECONDS: Final = 60.0
"""Seconds that a TCP connection without a request is kept."""

HEADER_BYTES: Final = 16 * 1024
"""Bytes of the headers of one request."""

POSTS_AT_ONCE: Final = 64
"""POST requests at once on one HTTP/2 connection, besides its event streams."""


class HttpServer:
    """Serves HTTP for ``hub``. ``pending`` are the connections that have shown no token yet."""

    def __init__(self, hub: Hub, access: AccessControl, pending: PendingConnections) -> None:
        hypercorn_h2.__dict__["StreamBuffer"] = _BoundedBuffer
        protocols.__dict__["H2Protocol"] = _H2Connection
        protocols.__dict__["H11Protocol"] = _H11Connection
        self._app = HttpApp(hub, access)
        self._access = access
        self._pending = pending
        self._sockets: set[HttpSocket] = set()
        """The open TCP connections."""
        self._owned: Counter[str] = Counter()
        """Owner → number of TCP connections that have shown a token."""
        self._asgi: Any = ASGIWrapper(self._app)
        self._context = WorkerContext(None)
        self._config = config = Config()
        config.accesslog = None
        config.errorlog = logging.getLogger(f"{__name__}.hypercorn")
        config.include_server_header = False
        config.h11_max_incomplete_size = config.h2_max_header_list_size = HEADER_BYTES
        config.h2_max_concurrent_streams = access.limits.streams + POSTS_AT_ONCE
        config.keep_alive_timeout = KEEP_SECONDS
        config.keep_alive_max_requests = sys.maxsize  # else a long session would end in the middle

    def serve(self, transport: asyncio.Transport, data: bytes) -> None:
        """Serve an accepted connection; ``data`` are the bytes that the client has sent already."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        tcp = HttpSocket(transport, self._access, self._pending, self._owned)
        self._sockets.add(tcp)
        protocol = asyncio.StreamReaderProtocol(reader, partial(self._run, tcp), loop=loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)

    async def aclose(self) -> None:
        """End all connections, in bounded time."""
        await self._app.aclose()
        await self._context.terminated.set()
        for tcp in tuple(self._sockets):
            tcp.abort()

    async def _run(
        self, tcp: HttpSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        state = {"socket": tcp}  # for `http_app.Exchange`, in the scope of each request
        try:
            await _Connection(self._asgi, loop, self._config, self._context, state, reader, writer)
        except asyncio.CancelledError:
            # The server ends. Python 3.11 logs a traceback for a cancelled task.
            logger.debug("the connection of %s is cancelled", tcp.peer)
        except Exception as error:  # noqa: BLE001 - a client must not fill the log with tracebacks
            logger.debug("the connection of %s has failed: %r", tcp.peer, error)
        finally:
            self._sockets.discard(tcp)
            tcp.release()
            tcp.abort()


class _Connection(TCPServer):
    """One connection, served when awaited. Unlike Hypercorn, stops its idle timer at its end."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()


class _EndedStream:
    """Takes the place of a stream that has ended, and ignores late events of this stream."""

    async def handle(self, event: object) -> None:
        del event


class _Streams(dict[int, Any]):
    """The streams of an HTTP/2 connection. A client may send more of a body whose request was
    refused. Hypercorn 0.18 then ends the whole connection with a KeyError for the stream."""

    def __missing__(self, stream_id: int) -> _EndedStream:
        return _EndedStream()


class _BoundedBuffer(hypercorn_h2.StreamBuffer):
    """A buffer whose writer waits while more bytes than the high-water mark are unsent. Hypercorn
    0.18 does not pause the writer: it compares the mark with the last write instead."""

    async def push(self, data: bytes) -> None:
        await super().push(data)
        while len(self.buffer) >= hypercorn_h2.BUFFER_HIGH_WATER and not self._complete:
            await self._paused.clear()
            await self._paused.wait()  # Hypercorn sets this event when it has sent something


class _CountedFrames(FrameBuffer):
    """Received frames, which are counted before h2 reads their content. h2 calls ``__next__`` for
    each frame, also for a frame that it then joins to the next frame: every frame counts."""

    admit: Callable[[Frame], bool]

    def __next__(self) -> Frame:
        frame = super().__next__()
        if not self.admit(frame):
            raise ProtocolError("too many frames")
        return frame


def _count_frames(connection: H2Connection, admit: Callable[[Frame], bool]) -> None:
    frames: Any = connection.incoming_buffer
    frames.__class__, frames.admit = _CountedFrames, admit  # h2 has made the object


def check_counting() -> None:
    """Raise MisuseError if this version of h2 does not let its frames be counted."""
    connection = H2Connection(H2Configuration(client_side=False))
    counted: list[Frame] = []

    def admit(frame: Frame) -> bool:
        counted.append(frame)
        return True

    _count_frames(connection, admit)
    connection.receive_data(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize())
    if not counted:
        raise MisuseError("the frames of this version of h2 cannot be counted: use 4.4")


class _H11Connection(H11Protocol):
    """An HTTP/1.1 connection that ignores ``Upgrade: h2c``, which some clients send with each
    first GET: Hypercorn would change to HTTP/2, and the frames would not be counted."""

    async def _check_protocol(self, event: Any) -> None:
        if event.method == b"PRI":  # the first line of HTTP/2, which Hypercorn recognises here
            await super()._check_protocol(event)


class _H2Connection(hypercorn_h2.H2Protocol):
    """An HTTP/2 connection that counts frames, survives late data, and resets dropped streams."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.streams = _Streams()
        self._socket: HttpSocket = self.connection_state["socket"]
        _count_frames(self.connection, self._socket.admit_frame)

    async def initiate(self, *upgrade: Any) -> None:
        if upgrade or self._socket.has_requests:  # only a new connection may speak HTTP/2
            self._socket.abort()
        else:
            await super().initiate()

    async def stream_send(self, event: Event) -> None:
        """Send an event; before the end of a stream that was given up, reset the stream."""
        buffer = self.stream_buffers.get(event.stream_id)
        if isinstance(event, StreamClosed) and buffer is not None and not buffer._complete:
            await buffer.close()
            with suppress(ProtocolError):  # the client was first
                self.connection.reset_stream(event.stream_id, ErrorCodes.CANCEL)
            await self._flush()
        await super().stream_send(event)
