"""Hold what the connections of one server share: Codex, and the registry of open sessions.

Knows no transport: whoever accepts a connection gives its link to `Hub.serve`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from codex_acp.acp.conventions import acp_connection
from codex_acp.acp.either_agent_side import EitherAgentSide
from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.network.connection import NetworkConnection
from codex_acp.adapter.network.registry import Registry
from codex_acp.adapter.serve import ANSWER_SECONDS, PROMPT, VERSIONS, extensions_of
from codex_acp.adapter.side_tasks import guarded
from codex_acp.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from codex_acp.acp.dialects import Handlers
    from codex_acp.acp.v2 import AgentHandlers
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.owners import Owners
    from codex_acp.adapter.network.tokens import Token, Tokens
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.transcript.log import Transcript
    from codex_acp.transport.link import Link

logger = logging.getLogger(__name__)

POLICY_VIOLATION: Final = 1008
"""The close code for a client that is put out (RFC 6455, section 7.4.1)."""

GOING_AWAY: Final = 1001
"""The close code of a server that ends."""


class NetworkLink(Protocol):
    """A link that can also tell its peer why it closes."""

    def say_at_end(self, code: int, reason: str) -> None:
        """When this side closes the link, say why."""


class Hub:
    """``new_server`` makes an app-server, which starts when it is needed; ``shared``: one for all
    connections. ``spawn`` runs tasks that outlive connections; ``versions`` of ACP are offered.
    """

    def __init__(
        self,
        new_server: Callable[[], AppServer],
        spawn: Spawn,
        tokens: Tokens,
        owners: Owners,
        limits: Limits,
        transcript: Transcript,
        *,
        shared: bool = True,
        versions: Collection[int] = VERSIONS,
        when_loaded: Callable[[], None] | None = None,
    ) -> None:
        self._new_server = new_server
        self._spawn = spawn
        self._tokens = tokens
        self._limits = limits
        self._transcript = transcript
        self._shared = shared
        self._versions = versions
        self._when_loaded = when_loaded
        self.registry: Registry = Registry(guarded(spawn), owners, limits)
        self.connections: dict[str, NetworkConnection] = {}
        """By id, those that are served now."""
        self._sides: set[EitherAgentSide] = set()
        self._servers: dict[CodexAgent, AppServer] = {}
        self._common: CodexAgent | None = None

    async def serve(
        self, link: Link, network_link: NetworkLink, token: Token, connection_id: str
    ) -> None:
        """Serve one client until it disconnects, or has to be put out."""
        name = f"client {connection_id[:8]}"
        connection = acp_connection(
            link,
            name=name,
            line_limit=self._limits.message_bytes,
            on_line=self._transcript.tap("client"),
        )
        agent = self.agent()
        ours = NetworkConnection(self.registry, token, agent)
        side = EitherAgentSide(
            connection,
            (lambda: _in_v1(ours)) if 1 in self._versions else None,
            (lambda: _in_v2(ours)) if 2 in self._versions else None,
        )

        def put_out(why: str) -> None:
            logger.warning("%s is put out: %s", name, why)
            network_link.say_at_end(POLICY_VIOLATION, why)
            self.registry.spawn(side.aclose)

        ours.join(side, put_out)
        self.connections[connection_id] = ours
        self._sides.add(side)
        watch = asyncio.ensure_future(ours.watch(self._tokens))
        network_link.say_at_end(GOING_AWAY, "the server ends")
        try:
            await side.run()
        except TransportError as error:
            logger.info("%s is gone: %s", name, error)
        finally:
            watch.cancel()
            del self.connections[connection_id]
            self._sides.discard(side)
            self.registry.left(ours.client)
            if not self._shared:
                self.registry.spawn(lambda: self._end_unused(agent))

    def agent(self) -> CodexAgent:
        """The agent for one more connection."""
        if not self._shared:
            return self._new_agent()
        if self._common is None:
            self._common = self._new_agent()
        return self._common

    def _new_agent(self) -> CodexAgent:
        server = self._new_server()
        server.when_connected(lambda: self._transcript.tap("codex"))
        agent = CodexAgent(server, self._spawn, self._transcript, self._when_loaded)
        self._servers[agent] = server
        return agent

    async def _end_unused(self, agent: CodexAgent) -> None:
        """End a Codex that was one connection's, when no session is left on it."""
        await self.registry.unused(agent)
        server = self._servers.pop(agent, None)
        if server is not None:
            agent.leave()
            await server.aclose()

    async def end_connections(self) -> None:
        """Cancel what runs, and close each connection behind its prompts' answers; bounded."""
        await asyncio.gather(*(agent.end_prompts() for agent in self._servers))
        await asyncio.gather(*(side.close_behind(PROMPT, ANSWER_SECONDS) for side in self._sides))

    async def aclose(self) -> None:
        """End every Codex and all of their children; bounded."""
        servers, self._servers = self._servers, {}
        for agent in servers:
            agent.leave()
        await asyncio.gather(*(server.aclose() for server in servers.values()))


def _in_v1(connection: NetworkConnection) -> Handlers:
    """Loaded with the first client that speaks v1."""
    from codex_acp.adapter.agent_v1 import AgentInV1

    return AgentInV1(connection).handlers(extensions_of(connection.agent_of, 1))


def _in_v2(connection: NetworkConnection) -> AgentHandlers:
    """Loaded with the first client that speaks v2."""
    from codex_acp.adapter.agent_v2 import AgentInV2

    agent = AgentInV2(connection, connection.agent_of)
    return agent.handlers(extensions_of(connection.agent_of, 2))
