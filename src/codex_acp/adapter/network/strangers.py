"""Connections that have shown nothing yet: bounded in number, the oldest gives way.

So whoever opens many and says nothing pushes out their own, and a client that asks at once comes
in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Strangers:
    """At most ``most`` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[asyncio.Transport, None] = {}

    def come(self, transport: asyncio.Transport) -> None:
        """One more has connected."""
        self._waiting[transport] = None
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.abort()

    def known(self, transport: asyncio.Transport) -> None:
        """It has been let in, refused, or is gone; again is fine."""
        self._waiting.pop(transport, None)

    def cut_all(self) -> None:
        """The server ends."""
        for transport in tuple(self._waiting):
            transport.abort()
