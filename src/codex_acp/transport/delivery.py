"""When what is sent is written: behind the messages of the read in which it was sent.

To wait for the loop's next iteration instead would cost as much as all that is done for a message.
One for each event loop, which all its connections share. Must not know what is written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Delivery:
    """The messages of one read, while they are handed over."""

    __slots__ = ("writes",)

    def __init__(self) -> None:
        self.writes: list[Callable[[], None]] | None = None
        """What is called at the end; None: nothing is handed over now."""

    def run(self, deliver: Callable[[T], None], read: T) -> None:
        """Hand ``read`` over by ``deliver``, then write what was sent meanwhile."""
        if self.writes is not None:  # a link that delivers within what it was given to write
            deliver(read)
            return
        writes = self.writes = []
        try:
            deliver(read)
        finally:
            self.writes = None
            for write in writes:
                try:
                    write()
                except Exception:
                    logger.exception("what was sent could not be written")


_deliveries: WeakKeyDictionary[AbstractEventLoop, Delivery] = WeakKeyDictionary()


def delivery_of(loop: AbstractEventLoop) -> Delivery:
    """The one that the connections on ``loop`` share."""
    return _deliveries.setdefault(loop, Delivery())
