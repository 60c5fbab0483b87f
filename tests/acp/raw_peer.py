"""A peer that writes and reads plain JSON, for tests of one side of ACP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio

from codex_acp.errors import TransportError
from codex_acp.transport.link import MemoryLink

WAIT = 60.0
"""Seconds; nothing here takes more than milliseconds, a test that waits has failed."""


class RawPeer:
    """The other end of a memory link. Keeps every message it gets, in order."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link
        self.messages: list[dict[str, Any]] = []
        self.closed = False
        self._news = anyio.Event()
        self._rest = b""
        link.start(self)

    def send(self, *messages: dict[str, Any]) -> None:
        """All messages in one write, so that they arrive in one read."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        self.link.write("".join(lines).encode())

    def send_bytes(self, data: bytes) -> None:
        self.link.write(data)

    def replies(self, request_id: object) -> list[dict[str, Any]]:
        return [
            m for m in self.messages if "method" not in m and _same(m.get("id", ...), request_id)
        ]

    async def reply(self, request_id: object) -> dict[str, Any]:
        """The first answer to a request, waiting for it."""
        with anyio.fail_after(WAIT):
            while not (found := self.replies(request_id)):
                await self._news.wait()
        return found[0]

    async def sent(self, method: str) -> dict[str, Any]:
        """The first request or notification with this method, waiting for it."""
        with anyio.fail_after(WAIT):
            while True:
                for message in self.messages:
                    if message.get("method") == method:
                        return message
                await self._news.wait()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until that is true, which only a message can make it."""
        with anyio.fail_after(WAIT):
            while not true():
                await self._news.wait()

    async def ask(self, request_id: object, method: str, params: object = None) -> dict[str, Any]:
        """Send one request and wait for its answer."""
        self.send({"id": request_id, "method": method, "params": params})
        return await self.reply(request_id)

    async def settle(self) -> None:
        """Wait until the side has taken all that was sent before, and what came of it is here.

        It reads in order; the second round is for what its tasks then still had to do. The
        answers that show it are not kept.
        """
        for _ in range(2):
            self.messages.remove(await self.ask("marker", "_test/marker", {}))

    # What the link calls.

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.messages += [json.loads(line) for line in lines]
        self._wake()

    def link_closed(self, error: TransportError | None) -> None:
        del error
        self.closed = True
        self._wake()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right
