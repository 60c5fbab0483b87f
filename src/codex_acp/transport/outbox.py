"""Queue a connection's messages: coalesce writes, and apply back-pressure in both directions.

All messages that are sent while the messages of one read are delivered become one write, right
after the delivery (`Delivery`): to wait for the loop's next iteration would cost as much as to
handle a message. Other messages that are sent in one iteration of the loop become one write. A
message that may still grow is held back until another message is sent or the write is due.

If too many answers wait for the peer, the peer's messages are not read: this stops a peer that
sends requests without end and reads no answers. Other waiting messages do not count, so a peer that
is only slow can still send. Must not know what the messages are.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from codex_acp.errors import TransportError
    from codex_acp.transport.link import Link


logger = logging.getLogger(__name__)

T = TypeVar("T")


def _at_next_iteration(write: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(write)


class Delivery:
    """Delivers the messages of one read, and runs the writes that follow from them."""

    def __init__(self) -> None:
        self.schedule: Callable[[Callable[[], None]], None] = _at_next_iteration
        """Schedules a write: for the end of the current delivery, else the next loop iteration."""

    def run(self, deliver: Callable[[T], None], messages: T) -> None:
        """Call ``deliver`` with ``messages``, then run the writes that were scheduled meanwhile."""
        if self.schedule is not _at_next_iteration:
            deliver(messages)  # nested: a link delivers from within its `write`
            return
        writes: list[Callable[[], None]] = []
        self.schedule = writes.append
        try:
            deliver(messages)
        finally:
            self.schedule = _at_next_iteration
            for write in writes:
                try:
                    write()
                except Exception:
                    logger.exception("messages could not be written")


_deliveries: WeakKeyDictionary[AbstractEventLoop, Delivery] = WeakKeyDictionary()


def delivery_of(loop: AbstractEventLoop) -> Delivery:
    """Return the delivery that the connections on ``loop`` share."""
    return _deliveries.setdefault(loop, Delivery())


UNREAD_ANSWERS_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of answers that wait for the peer, above which the peer's messages are not read. Room for a
large answer, because a peer may not read while it sends."""


class Outbox:
    """Collects lines for a link; `drain` waits until the peer has taken them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lines: list[bytes] = []
        self._unread_answers = 0
        """Bytes of answers since the peer last took all that was written."""
        self._wants_messages = True
        self._is_reading = True
        """Whether the link reads the peer's messages."""
        self._write_scheduled = False
        """Whether `flush` will be called. True of a closed outbox, so that it schedules none."""
        self._closed = False
        self._waiters: list[asyncio.Future[TransportError | None]] = []
        self.delivery: Delivery = Delivery()
        """The delivery of the event loop; set by `Connection.start`."""
        self.held: Callable[[], None] | None = None
        """The function that `hold` got, until `release` calls it."""
        self.paused: bool = False
        """Whether the peer is slow, as the link reports."""

    def add(self, line: bytes) -> None:
        """Send a line when the write is due, or at `flush`."""
        self._lines.append(line)
        if not self._write_scheduled:
            self._schedule_write()

    def hold(self, write: Callable[[], None]) -> None:
        """Keep ``write``, a function that adds lines, until `release` or `flush` calls it. A closed
        outbox calls it at once."""
        if self.held is not None:
            self.release()
        if self._closed:
            write()
            return
        self.held = write
        if not self._write_scheduled:
            self._schedule_write()

    def _schedule_write(self) -> None:
        self._write_scheduled = True
        self.delivery.schedule(self.flush)

    def release(self) -> None:
        """Call the held function, because another message is about to be sent. Never raises."""
        held, self.held = self.held, None
        if held is not None:
            try:
                held()
            except Exception:
                logger.exception("a message that was held back cannot be written")

    def add_answer(self, line: bytes) -> None:
        """Add an answer; stop reading the peer's messages while too many answers wait."""
        self.add(line)
        self._unread_answers += len(line)
        if self._unread_answers > UNREAD_ANSWERS_LIMIT:
            self.flush()
            self._update_reading()

    def flush(self) -> None:
        """Write all lines now, also those of the held function."""
        if self.held is not None:
            self.release()
        self._write_scheduled = self._closed
        lines, self._lines = self._lines, []
        if lines:
            self._link.write(b"".join(lines))
        if not self.paused:
            self._unread_answers = 0

    def resume(self) -> None:
        """Continue, because the peer has caught up or is gone."""
        self.paused = False
        self._unread_answers = 0
        self._update_reading()
        self._wake(None)

    def want_messages(self, wanted: bool) -> None:
        """Set whether the owner of the outbox wants the peer's messages."""
        self._wants_messages = wanted
        self._update_reading()

    def _update_reading(self) -> None:
        reads = self._wants_messages and self._unread_answers <= UNREAD_ANSWERS_LIMIT
        if reads != self._is_reading:
            self._is_reading = reads
            (self._link.resume_reading if reads else self._link.pause_reading)()

    def close(self, error: TransportError) -> None:
        """Drop all lines, and fail each `drain` with ``error``."""
        self._lines, self.held = [], None
        self._closed = self._write_scheduled = True
        self._wake(error)

    async def drain(self) -> None:
        """Flush, and wait while the peer is slow. Raises TransportError if the peer is gone."""
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


class ReadingGate:
    """Pauses reading while a holder cannot take more messages. Within ``with gate:``, reading goes
    on, because somebody waits for an answer of the peer."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holders: set[int] = set()
        self._waiting = 0  # open blocks of ``with gate:``
        self.paused: bool = False

    def hold(self, holder: object) -> None:
        """Pause until ``holder`` calls `release`, because it cannot take more. Idempotent."""
        self._holders.add(id(holder))
        self._update()

    def release(self, holder: object) -> None:
        """Note that ``holder`` can take more. Does nothing without a `hold`."""
        self._holders.discard(id(holder))
        self._update()

    def __enter__(self) -> None:
        self._waiting += 1
        self._update()

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        self._update()

    def _update(self) -> None:
        paused = bool(self._holders) and not self._waiting
        if paused != self.paused:
            self.paused = paused
            (self._pause if paused else self._resume)()
