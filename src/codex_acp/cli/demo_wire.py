"""``codex-acp-sdk demo --wire``: a link that shows each line that passes over it.

Must not know what the lines say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.errors import TransportError
    from codex_acp.transport.link import Link, Receiver


class ShownLink:
    """``link``, of which ``show`` is given each line, with an arrow: ``-->`` to the agent."""

    def __init__(self, link: Link, show: Callable[[str, bytes], None]) -> None:
        self._link = link
        self._sent = _Lines("-->", show)
        self._received = _Lines("<--", show)

    def start(self, receiver: Receiver) -> None:
        self._link.start(_Shown(receiver, self._received))

    def write(self, data: bytes) -> None:
        self._sent.add(data)
        self._link.write(data)

    def pause_reading(self) -> None:
        self._link.pause_reading()

    def resume_reading(self) -> None:
        self._link.resume_reading()

    async def aclose(self) -> None:
        await self._link.aclose()


class _Shown:
    """The receiver, behind the lines that it is given."""

    def __init__(self, receiver: Receiver, lines: _Lines) -> None:
        self._receiver = receiver
        self._lines = lines

    def data_received(self, data: bytes) -> None:
        self._lines.add(data)
        self._receiver.data_received(data)

    def link_closed(self, error: TransportError | None) -> None:
        self._receiver.link_closed(error)

    def pause_writing(self) -> None:
        self._receiver.pause_writing()

    def resume_writing(self) -> None:
        self._receiver.resume_writing()


class _Lines:
    """Whole lines of what comes in pieces."""

    def __init__(self, arrow: str, show: Callable[[str, bytes], None]) -> None:
        self._arrow = arrow
        self._show = show
        self._rest = b""

    def add(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._show(self._arrow, line)
