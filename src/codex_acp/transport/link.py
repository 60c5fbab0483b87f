"""Define links, which carry bytes both ways and push arriving bytes, like asyncio's transports.

Push, not pull: from the read of a descriptor to the handler of a message there is one
synchronous call path, with no task switch and no queue. Must not know what the bytes mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from codex_acp.errors import TransportError


class Receiver(Protocol):
    """Whoever is told what happens on a link. Nothing here may block or be async."""

    def data_received(self, data: bytes) -> None:
        """A non-empty chunk arrived; chunks keep their order."""

    def link_closed(self, error: TransportError | None) -> None:
        """The link has ended, said exactly once, after all data: None for a clean end."""

    def pause_writing(self) -> None:
        """The peer is slower than this side; what is written from now on piles up."""

    def resume_writing(self) -> None:
        """The peer has caught up, or is gone: nothing is gained by waiting for it."""


class Link(Protocol):
    """A byte stream to a peer and back, on the running event loop."""

    def start(self, receiver: Receiver) -> None:
        """Begin to deliver. Never calls the receiver before it has returned."""

    def write(self, data: bytes) -> None:
        """Send, in order, without waiting; dropped when the link can no longer write.

        May call `Receiver.pause_writing` before it returns, but never `Receiver.link_closed`.
        """

    def pause_reading(self) -> None:
        """Deliver no data until `resume_reading`, so that the peer feels the back-pressure."""

    def resume_reading(self) -> None:
        """Deliver again."""

    async def aclose(self) -> None:
        """Release everything within a bounded time. No data is delivered once this has begun.

        Not interrupted by cancellation; may be called again. The receiver is told
        ``link_closed(None)`` if it was told of no end before.
        """
