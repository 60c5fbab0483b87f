"""One side of ACP on a memory link, a raw peer at the other end, and the schema tap between."""

from __future__ import annotations

from typing import Any, Self

from codex_acp.acp import (
    AgentNotificationHandlers,
    AgentRequestHandlers,
    AgentSide,
    ClientNotificationHandlers,
    ClientRequestHandlers,
    ClientSide,
    acp_connection,
)
from codex_acp.errors import InvalidPayload
from codex_acp.jsonrpc import Notification
from codex_acp.transport.link import memory_pair
from tests.acp.raw_peer import RawPeer
from tests.acp.tables import (
    INITIALIZE,
    agent_notifications,
    agent_requests,
    client_notifications,
    client_requests,
)
from tests.support.acp_schema import SchemaTap, SideName


class _Bench:
    """Runs the side; at the end checks that all it sent fits and that it answered everything."""

    name: SideName
    side: AgentSide | ClientSide

    def __init__(self, buffer_limit: int = 64 * 1024) -> None:
        self.link, far = memory_pair(buffer_limit)
        self.tap = SchemaTap()
        self.peer = RawPeer(far)
        self.invalid: list[tuple[Notification, InvalidPayload]] = []
        self.connection = acp_connection(self.link, name="the peer", on_line=self.tap.on(self.name))
        self.peer_is_gone = False

    def note_invalid(self, notification: Notification, error: InvalidPayload) -> None:
        self.invalid.append((notification, error))

    async def __aenter__(self) -> Self:
        await self.side.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        await self.side.__aexit__(kind, *rest)
        assert not self.side._open, "no request may be kept after its handler has ended"
        if kind is None:
            self.tap.check()
            assert self.peer_is_gone or self.tap.unanswered(self.name) == []


class AgentBench(_Bench):
    """An agent under test."""

    name: SideName = "agent"

    def __init__(
        self,
        requests: AgentRequestHandlers | None = None,
        notifications: AgentNotificationHandlers | None = None,
        *,
        buffer_limit: int = 64 * 1024,
    ) -> None:
        super().__init__(buffer_limit)
        self.agent = self.side = AgentSide(
            self.connection,
            requests or agent_requests(),
            notifications or agent_notifications(),
            on_invalid_notification=self.note_invalid,
        )

    async def initialize(self) -> dict[str, object]:
        return await self.peer.ask("init", "initialize", INITIALIZE)


class ClientBench(_Bench):
    """A client under test."""

    name: SideName = "client"

    def __init__(
        self,
        requests: ClientRequestHandlers | None = None,
        notifications: ClientNotificationHandlers | None = None,
    ) -> None:
        super().__init__()
        self.client = self.side = ClientSide(
            self.connection,
            requests or client_requests(),
            notifications or client_notifications(),
            on_invalid_notification=self.note_invalid,
        )
