"""The archive of sessions for one client of the network: only of what its token owns.

A session that another connection shows is not archived under its feet, as it is not deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codex_acp.mapping.session.ids import canonical_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.network.network_session import NetworkSession
    from codex_acp.adapter.network.registry import Registry


class MustOwn(Protocol):
    """Raises RpcError for a session that is not the client's; ``below``: a sub-agent's may be."""

    def __call__(self, session_id: str, *, below: bool = False) -> None: ...


class OwnedArchive:
    """See `SessionArchive`. ``endable`` gives a session that is open, and raises RpcError for one
    that another connection shows.
    """

    def __init__(
        self,
        agent: CodexAgent,
        registry: Registry,
        must_own: MustOwn,
        endable: Callable[[str], NetworkSession | None],
    ) -> None:
        self._agent = agent
        self._registry = registry
        self._must_own = must_own
        self._endable = endable

    async def archive(self, request: v1.ArchiveSessionRequest) -> v1.ArchiveSessionResponse:
        """See `SessionArchive.archive`."""
        request.session_id = session_id = canonical_id(request.session_id)
        self._must_own(session_id)
        async with self._registry.lock(session_id):
            session = self._endable(session_id)
            if session is None:
                return await self._agent.archive.archive(request)
            try:
                return await session.agent.archive.archive(request)
            finally:
                if session_id not in session.agent.parts[0]:
                    self._registry.closed(session_id, session)

    async def unarchive(self, request: v1.UnarchiveSessionRequest) -> v1.UnarchiveSessionResponse:
        """See `SessionArchive.unarchive`."""
        self._must_own(request.session_id)
        return await self._of(request.session_id).archive.unarchive(request)

    async def status(self, request: v1.SessionStatusRequest) -> v1.SessionStatusResponse:
        """See `SessionArchive.status`; open is what any connection has open."""
        self._must_own(request.session_id, below=True)
        return await self._of(request.session_id).archive.status(request)

    def _of(self, session_id: str) -> CodexAgent:
        """The agent that has a session, which may be another connection's."""
        return self._registry.agent_of(session_id) or self._agent
