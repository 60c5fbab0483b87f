"""Queue a connection's messages: coalesce writes, and apply back-pressure in both directions.

All messages that are sent while those of one read are delivered become one write behind the last of
them (`Delivery`); to wait for the loop's next iteration instead would cost as much as all that is
done for a message. Other messages become one write for an iteration of the loop. What may still
grow is held back until something else is sent or the write is due.

Answers that the peer does not take are bounded: above that its further messages are not read, so
that who asks without end and never listens is held up, not kept. What else is written does not
count: a peer that is only slow, and wants to say so, is heard. Must not know what the messages
are.
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


def _at_the_next_iteration(write: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(write)


class Delivery:
    """The messages of one read, while they are handed over."""

    __slots__ = ("soon",)

    def __init__(self) -> None:
        self.soon: Callable[[Callable[[], None]], None] = _at_the_next_iteration
        """Have something written: at the end of the read, or else of the loop's iteration."""

    def run(self, deliver: Callable[[T], None], read: T) -> None:
        """Hand ``read`` over by ``deliver``, then write what was sent meanwhile."""
        if self.soon is not _at_the_next_iteration:
            deliver(read)  # by a link that delivers within what it was given to write
            return
        writes: list[Callable[[], None]] = []
        self.soon = writes.append
        try:
            deliver(read)
        finally:
            self.soon = _at_the_next_iteration
            for write in writes:
                try:
                    write()
                except Exception:
                    logger.exception("what was sent could not be written")


_deliveries: WeakKeyDictionary[AbstractEventLoop, Delivery] = WeakKeyDictionary()


def delivery_of(loop: AbstractEventLoop) -> Delivery:
    """Return the delivery that the connections on ``loop`` share."""
    return _deliveries.setdefault(loop, Delivery())


UNREAD_ANSWERS_LIMIT: Final = 16 * 1024 * 1024
"""Bytes of answers that the peer has not taken, above which it is not read: more than one large
answer, which a peer may be too busy to read while it sends."""


class Outbox:
    """Collects lines for a link, and holds those who wait for the peer to take them."""

    __slots__ = (
        "_closed",
        "_lines",
        "_not_wanted",
        "_reads",
        "_unread_answers",
        "_waiters",
        "busy",
        "delivery",
        "held",
        "link",
        "paused",
    )

    def __init__(self, link: Link) -> None:
        self.link: Link = link
        self._lines: list[bytes] = []
        self._unread_answers = 0
        self._not_wanted = False
        self._reads = True
        self.busy: bool = False
        """Whether anything waits to be written, or nothing can be written any more."""
        self._closed: bool = False
        self._waiters: list[asyncio.Future[TransportError | None]] = []
        self.delivery: Delivery = Delivery()
        """Of the loop that it writes on, once that is known."""
        self.held: Callable[[], None] | None = None
        """Function that adds its lines at `release`; None: nothing is held back."""
        self.paused: bool = False
        """Whether the link said that the peer is slow."""

    def add(self, line: bytes) -> None:
        """Send a line when the write is due, or at `flush`."""
        self._lines.append(line)
        if not self.busy:
            self.busy = True
            self.delivery.soon(self.flush)

    def hold(self, write: Callable[[], None]) -> None:
        """Have ``write`` add its lines at the next `release` or `flush`; at once on a closed
        link."""
        if self.held is not None:
            self.release()
        if self._closed:
            write()
            return
        self.held = write
        if not self.busy:
            self.busy = True
            self.delivery.soon(self.flush)

    def release(self) -> None:
        """Have what is held add its lines before something else is sent. Never raises."""
        held, self.held = self.held, None
        if held is not None:
            try:
                held()
            except Exception:
                logger.exception("what was held back cannot be written")

    def add_answer(self, line: bytes) -> None:
        """As `add`, for an answer; the peer is not read while too many of them wait for it."""
        self.add(line)
        self._unread_answers += len(line)
        if self._unread_answers > UNREAD_ANSWERS_LIMIT:
            self.flush()
            self._update_reading()

    def flush(self) -> None:
        """Send now what was added or is held."""
        if self.held is not None:
            self.release()
        self.busy = self._closed
        lines = self._lines
        if lines:
            self._lines = []
            self.link.write(lines[0] if len(lines) == 1 else b"".join(lines))
        if not self.paused:
            self._unread_answers = 0

    def resume(self) -> None:
        """The peer has caught up, or is gone and will take nothing more."""
        self.paused = False
        self._unread_answers = 0
        self._update_reading()
        self._wake(None)

    def want_messages(self, wanted: bool) -> None:
        """Read from the link, or pause it, as the owner can take more."""
        self._not_wanted = not wanted
        self._update_reading()

    def _update_reading(self) -> None:
        reads = not self._not_wanted and self._unread_answers <= UNREAD_ANSWERS_LIMIT
        if reads != self._reads:
            self._reads = reads
            (self.link.resume_reading if reads else self.link.pause_reading)()

    def close(self, error: TransportError) -> None:
        """Nothing can be written any more; whoever waits gets the error."""
        self._lines, self.held, self._closed, self.busy = [], None, True, True
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


class ReadingGate:
    """Pauses reading while someone holds it and nobody waits: ``with gate:`` is around a wait."""

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._holders: set[int] = set()
        self._waiting = 0
        self.paused: bool = False
        """Whether reading is paused now."""

    def hold(self, holder: object) -> None:
        """Pause until `release`: ``holder`` cannot take more. Again is fine."""
        self._holders.add(id(holder))
        self._update()

    def release(self, holder: object) -> None:
        """``holder`` can take more; without a `hold` it does nothing."""
        self._holders.discard(id(holder))
        self._update()

    def __enter__(self) -> None:
        """Somebody waits for an answer of the peer from now on."""
        self._waiting += 1
        if self._holders:
            self._update()

    def __exit__(self, *_: object) -> None:
        """End a wait for an answer of the peer."""
        self._waiting -= 1
        if self._holders:
            self._update()

    def _update(self) -> None:
        paused = bool(self._holders) and not self._waiting
        if paused != self.paused:
            self.paused = paused
            (self._pause if paused else self._resume)()
