"""Whoever listens to a link in a test."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from codex_acp.errors import ConnectionClosed, TransportError


class LinkReceiver:
    """Notes what the link tells, and wakes who waits for it."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ends: list[TransportError | None] = []
        self.writing: list[str] = []
        self._changed = anyio.Event()

    @property
    def lines(self) -> list[bytes]:
        """All that came, a message each."""
        return b"".join(self.chunks).splitlines()

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self._wake()

    def link_closed(self, error: TransportError | None) -> None:
        self.ends.append(error)
        self._wake()

    def pause_writing(self) -> None:
        self.writing.append("pause")

    def resume_writing(self) -> None:
        self.writing.append("resume")
        self._wake()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            changed = self._changed
            await changed.wait()

    async def end(self) -> str:
        """The words of the end."""
        await self.until(lambda: bool(self.ends))
        (error,) = self.ends
        assert isinstance(error, ConnectionClosed)
        return str(error)

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
