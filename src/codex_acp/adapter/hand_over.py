"""Hand sessions over between processes of this package: Codex lets one process write a thread.

Another process asks this process for a session. If something runs in the session, this process
answers "busy". Else it unloads the session's thread and tells the client, whose next prompt takes
the session back. Loaded with the first session that is open here or in another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.codex.connection.thread_peers import MAX_NAME, Asker, State, ThreadPeers
from codex_acp.routing.display import inline

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import OpenSession, Sessions


class HandOver:
    """Gives one agent's sessions to other processes. ``client_name`` returns its client's name."""

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        client_name: Callable[[], str],
    ) -> None:
        self._sessions = sessions
        self._opener = opener
        self.peers: ThreadPeers = ThreadPeers(client_name, self._let_go)
        """Asks other processes for sessions, and answers them; `CodexAgent` has it listen."""

    async def _let_go(self, session_id: str, asker: Asker) -> State:
        """Unload a session's threads if nothing runs in the session; return the session's state."""
        opened = self._sessions.open_session(session_id)
        if opened is None:
            return "opening" if session_id in self._opener.openings else "unknown"
        if not may_access(opened.client, asker.owner):
            return "unknown"
        session = opened.session
        if asker.cancels:
            self._opener.waiting_prompts.cancel(session_id)
            if session is not None:
                session.cancel()
        if session is not None and (asker.cancels or session.driver.machine.activity == "idle"):
            await session.driver.wait_idle()  # the client sees ``idle`` before the driver is idle
        if self._is_busy(session_id, opened):
            return "busy"
        async with self._opener.lock(session_id):
            # Check again after each wait: a request of the client may have come meanwhile.
            if self._sessions.open_session(session_id) is not opened:
                return "unknown"
            if self._is_busy(session_id, opened):
                return "busy"
            if not self._sessions.is_live(session_id):
                return "unknown"
            await self._opener.store_unprompted(session_id)
            session = self._sessions.find(session_id)
            if session is None or self._is_busy(session_id, opened):
                return "busy"
            opened.unloaded = True  # the next prompt takes the session back
            asker_name = inline(asker.client)[:MAX_NAME]
            session.say(f"This session went to {asker_name}; a prompt here takes it back.")
            for thread_id in (*session.sub_agents.threads, session_id):
                await self._opener.unload(opened.codex, thread_id)
            return "free"

    def _is_busy(self, session_id: str, opened: OpenSession) -> bool:
        """Return whether a prompt waits, or a prompt, sub-agent or background command runs."""
        session = opened.session
        return (
            opened.may_start_sub_agents()
            or session_id in self._opener.waiting_prompts
            or (session is not None and bool(session.state_event.background))
        )


def may_access(client: SessionClient | None, owner: str | None) -> bool:
    """Return whether ``owner`` (None: any owner) may have the session that ``client`` shows."""
    session_owner = None if client is None else client.owner
    return session_owner is None or owner in (None, session_owner)
