"""When what is sent is written: behind the messages of the read in which it was sent.

To wait for the loop's next iteration instead would cost as much as all that is done for a message.
One for each event loop, which all its connections share. Must not know what is written.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

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
    """The one that the connections on ``loop`` share."""
    return _deliveries.setdefault(loop, Delivery())
