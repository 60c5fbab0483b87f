"""A link over HTTP, joined to a server of a test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from codex_acp.transport.http_link import HttpLink
from tests.transport.http_peer import HttpPeer, Special
from tests.transport.link_receiver import LinkReceiver

WAIT = 30
"""Seconds for a test."""


class Joined:
    """Both ends."""

    def __init__(self, peer: HttpPeer, link: HttpLink) -> None:
        self.peer = peer
        self.link = link
        self.receiver = LinkReceiver()
        self._ids = 0

    @property
    def received(self) -> list[Any]:
        """The messages that came."""
        return [json.loads(line) for line in self.receiver.lines]

    def send(self, message: dict[str, Any]) -> None:
        """A message, as it is."""
        self.link.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, session: str | None = None) -> int:
        """Send a request; its id."""
        self._ids += 1
        params = {} if session is None else {"sessionId": session}
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids

    async def outcome(self, request_id: int) -> Any:
        """The answer to a request."""
        found: list[Any] = []

        def answered() -> bool:
            found[:] = [m for m in self.received if m.get("id") == request_id and "method" not in m]
            return bool(found)

        await self.receiver.until(answered)
        return found[0]

    async def taken(self, request_id: int) -> None:
        """Wait until the peer has a request."""
        await self.peer.until(lambda: self.peer.has(request_id))

    async def settle(self, request_id: int, stream: str | None, **result: Any) -> None:
        """Have a request answered on a stream."""
        await self.taken(request_id)
        await (await self.peer.stream(stream)).send({"id": request_id, "result": result})
        await self.outcome(request_id)

    async def session(self, name: str = "one") -> None:
        """Have one, with its stream open."""
        await self.settle(self.ask("session/new"), None, sessionId=name)
        await self.peer.stream(name)


@asynccontextmanager
async def joined(
    special: Special | None = None, *, begin: bool = True, **options: Any
) -> AsyncIterator[Joined]:
    """A started link; with ``begin`` it is initialized."""
    async with HttpPeer(special) as peer:
        link = HttpLink(peer.url, name="the agent", **options)
        both = Joined(peer, link)
        link.start(both.receiver)
        try:
            with anyio.fail_after(WAIT):
                if begin:
                    await both.outcome(both.ask("initialize"))
                yield both
        finally:
            await link.aclose()
