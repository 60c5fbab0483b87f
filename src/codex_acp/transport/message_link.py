"""A link of whole messages: a line each, for whoever writes and reads.

Owns the queue of what is unsent, back-pressure towards the writer, and that the end is told once.
How messages travel is a subclass's: frames of a websocket, or HTTP requests and event streams.
Must not know what the messages are.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from codex_acp.errors import ConnectionClosed, MisuseError, TransportError

if TYPE_CHECKING:
    from asyncio import Task

    from codex_acp.transport.link import Receiver

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 1.0
"""For what is unsent and the goodbye; then the connection is cut."""

HIGH_WATER_BYTES: Final = 64 * 1024
"""Unsent bytes above which the writer is paused: the capacity of a pipe on Linux."""


class MessageLink(ABC):
    """The half of a `Link` that knows no network. ``name`` stands for the peer in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
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
        return f"{type(self).__name__}({self._name!r})"

    def start(self, receiver: Receiver) -> None:
        if self._receiver is not None or self._closing is not None:
            raise MisuseError("a link can be started only once")
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self._run(), name=f"link to {self._name}")

    def write(self, data: bytes) -> None:
        """Write whole lines, each of which becomes a message."""
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
        """Connect, then carry messages both ways until one side ends it: why, None for a clean end.

        What is raised is told as the end, too, by `_why` if it is no TransportError.
        """

    @abstractmethod
    async def _send(self, line: bytes) -> None:
        """Send one message; for `_send_all`."""

    def _why(self, failed: Exception) -> str:
        """Why there is no connection."""
        return f"the connection to {self._name} failed with {type(failed).__name__}: {failed}"

    def _deliver(self, *messages: bytes) -> None:
        """Hand over what arrived. To be called when `_may_read` is set."""
        if self._receiver is not None and self._closing is None:
            # JSON has line breaks between its parts only, where a blank does as well.
            lines = (message.replace(b"\n", b" ") for message in messages)
            self._receiver.data_received(b"\n".join(lines) + b"\n")

    async def _run(self) -> None:
        error: TransportError | None
        try:
            error = await self._converse()
        except asyncio.CancelledError:
            raise
        except TransportError as failed:
            error = failed
        except Exception as failed:
            logger.debug("the link to %s ended", self._name, exc_info=failed)
            error = ConnectionClosed(self._why(failed))
        self._tell_end(error)

    async def _send_all(self) -> NoReturn:
        """Send what is written, in order; raises what `_send` does."""
        while True:
            await self._to_send.wait()
            while self._unsent:
                await self._send(self._unsent[0])
                self._unsent_size -= len(self._unsent.popleft())
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
