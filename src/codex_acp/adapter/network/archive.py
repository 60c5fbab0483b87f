"""The archive of sessions for one client of the network: only of what its token owns.

A session that another connection shows is not archived under its feet, as it is not deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codex_acp.mapping.session_setup import canonical_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.network.network_session import NetworkSession
    from codex_acp.adapter.network.registry import Registry
    from codex_acp.mapping.events import StateChanged


class MustOwn(Protocol):
    """Raises RpcError for a session that is not the client's; ``below``: a sub-agent's may be."""

    def __call__(self, session_id: str, *, below: bool = False) -> None: ...


class OwnedArchive:
    """Archive sessions for one owner, as `SessionArchive` does for all. ``endable`` gives a session
    that is open, and raises RpcError for one that another connection shows.
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

    async def archive(self, session_id: str) -> None:
        """Move a session of this owner to the archive."""
        session_id = canonical_id(session_id)
        self._must_own(session_id)
        async with self._registry.alone(session_id):
            session = self._endable(session_id)
            if session is None:
                await self._agent.archive.archive(session_id)
                return
            try:
                await session.agent.archive.archive(session_id)
            finally:
                self._registry.closed_by_agent(session_id, session)

    async def unarchive(self, session_id: str) -> None:
        """Bring a session of this owner back from the archive."""
        self._must_own(session_id)
        await self._of(session_id).archive.unarchive(session_id)

    async def status(self, session_id: str) -> StateChanged | None:
        """Return the state of a session that any connection has open; None if it is only stored."""
        self._must_own(session_id, below=True)
        return await self._of(session_id).archive.status(session_id)

    def _of(self, session_id: str) -> CodexAgent:
        """The agent that has a session, which may be another connection's."""
        return self._registry.agent_of(session_id) or self._agent
