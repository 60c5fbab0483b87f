"""One request over HTTP and the response to it, in the words of ASGI; bounded in size and time."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from codex_acp.adapter.network.access_control import Refusal, only_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from codex_acp.adapter.network.http_sockets import HttpSocket

BODY_SECONDS: Final = 10.0
"""For the body of a request, and more for a large one."""

BODY_RATE: Final = 16 * 1024
"""Bytes a second at least: who sends slower holds what others could use."""

DISCARDED_BYTES: Final = 64 * 1024
"""Of the body of a request that is refused, which are read before it is: else some clients would
not see why."""

DISCARD_SECONDS: Final = 1.0


class RequestRefused(Exception):
    """A request is answered with ``refusal``."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class Exchange:
    """``scope``, ``receive`` and ``send`` are ASGI's; see `Headers` for the headers."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("latin-1")
        self.socket: HttpSocket = scope["state"]["socket"]
        self.version: str = scope["http_version"]
        self._headers = scope["headers"]
        self._receive = receive
        self._send = send
        self._complete = False
        self.more_headers: Sequence[tuple[str, str]] = ()
        """Headers that every response gets."""

    # Headers

    def get_all(self, key: str, /) -> list[str]:
        """All values of one name, in any case."""
        name = key.lower().encode()
        return [value.decode("latin-1") for found, value in self._headers if found.lower() == name]

    def header(self, name: str) -> str | None:
        """Return the only value of a header; None where it is missing or comes more than once."""
        return only_value(self, name)

    # What comes in.

    async def body(self, take: Callable[[int], Refusal | None]) -> bytes:
        """All of it. ``take`` is told of so many bytes more, and says whether that is too much.

        Raises RequestRefused, also if it comes too slowly.
        """
        try:
            return await self._body(take)
        except TimeoutError:
            slow = Refusal(HTTPStatus.REQUEST_TIMEOUT, "the body comes too slowly")
            raise RequestRefused(slow) from None

    async def _body(self, take: Callable[[int], Refusal | None]) -> bytes:
        loop = asyncio.get_running_loop()
        parts: list[bytes] = []
        async with asyncio.timeout(BODY_SECONDS) as limit:
            until = loop.time() + BODY_SECONDS
            while not self._complete:
                part = await self._part()
                if part:
                    refusal = take(len(part))
                    if refusal is not None:
                        raise RequestRefused(refusal)
                    parts.append(part)
                    until += len(part) / BODY_RATE
                    limit.reschedule(until)
        return b"".join(parts)

    async def discard(self, most: int = DISCARDED_BYTES) -> None:
        """Read what is left of the body, but only so much and not for long."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._complete and most > 0:
                    most -= len(await self._part())
        except (TimeoutError, ConnectionError):
            return

    async def gone(self) -> None:
        """Wait until the client is; what it still sends is of no interest."""
        try:
            while True:
                await self._part()
        except ConnectionError:
            return

    async def _part(self) -> bytes:
        """Raises ConnectionError if the client is gone."""
        event = await self._receive()
        if event["type"] == "http.disconnect":
            raise ConnectionResetError("the client is gone")
        self._complete = not event.get("more_body", False)
        part: bytes = event.get("body", b"")
        return part

    # What goes out.

    async def answer(
        self, status: int, body: bytes = b"", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Respond, with all of it."""
        await self.begin(status, [*headers, ("content-length", str(len(body)))])
        await self.write(body, more=False)

    async def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Respond; what `write` gives follows."""
        lines = [*headers, *self.more_headers]
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in lines],
            }
        )

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """A part of the response's body."""
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
