"""Waits for what a prompt needs before it goes to its session, and bounds the wait.

Codex has the session's thread loaded (again, if it was lost), and the MCP servers that the client
gave the session have started. A ``session/cancel`` ends the waiting, as it would end the turn.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.cancel_scope import CancelScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions

logger = logging.getLogger(__name__)

MAX_TRIES: Final = 2
"""A Codex that was idle may have died unseen; one that was just started should not have."""


class PromptPreconditions:
    """Makes a session ready for a prompt, for all sessions of one agent."""

    def __init__(self, sessions: Sessions, opener: SessionOpener) -> None:
        self._sessions = sessions
        self._opener = opener
        self._waiting: dict[str, list[CancelScope]] = {}

    async def ensure_live(self, session_id: str) -> None:
        """Codex has the thread loaded when this returns.

        Raises RpcError -32603 if there is no Codex, -32002 if it does not have the thread.
        """
        if not self._sessions.is_live(session_id):
            await self._opener.move(session_id)

    async def run(
        self, session_id: str, prompt: Callable[[], Awaitable[PromptResult]], *, begun: bool = False
    ) -> PromptResult:
        """Run a prompt as soon as that can be, see `wait_ready`; at once if it has ``begun``.

        One of which a Codex that has just ended had read nothing is run once more, on the next.
        """
        from codex_acp.adapter.session.driver import NotTaken, PromptResult
        from codex_acp.adapter.session.machine import CANCELLED

        tries = 0
        while begun or await self.wait_ready(session_id):
            begun = False
            tries += 1
            try:
                return await prompt()
            except NotTaken as error:
                if tries == MAX_TRIES:
                    raise
                logger.warning("a prompt is run again, on another Codex: %s", error.message)
        return PromptResult(CANCELLED)

    async def wait_ready(self, session_id: str) -> bool:
        """Wait until a prompt can be run; False if it was cancelled. Raises as `live`."""
        opened = self._sessions.open_session(session_id)
        if opened is None or (self._sessions.is_live(session_id) and not opened.servers):
            return True
        scope = self.start_waiting(session_id)
        try:
            with scope:
                await self.ensure_live(session_id)
                await self._servers(session_id)
        finally:
            self.stop_waiting(session_id, scope)
        return not scope.cancel_called

    def start_waiting(self, session_id: str) -> CancelScope:
        """For a prompt that has no place among those of its session yet: `cancel` cancels it."""
        scope = CancelScope()
        self._waiting.setdefault(session_id, []).append(scope)
        return scope

    def is_waiting(self, session_id: str) -> bool:
        """Return whether a prompt of the session waits for something."""
        return session_id in self._waiting

    def stop_waiting(self, session_id: str, scope: CancelScope) -> None:
        """It waits no more."""
        self._waiting[session_id].remove(scope)
        if not self._waiting[session_id]:
            del self._waiting[session_id]

    def cancel(self, session_id: str) -> None:
        """The client cancelled the session's prompts, or closes it."""
        for scope in self._waiting.get(session_id, ()):
            scope.cancel()

    async def _servers(self, session_id: str) -> None:
        opened = self._sessions.open_session(session_id)
        if opened is None or not opened.servers:
            return
        slow = await self._sessions.events.mcp.started(session_id, opened.servers)
        waited, opened.servers = opened.servers, frozenset()
        session = self._sessions.known(session_id)
        if waited and slow and session is not None:
            names = ", ".join(f'"{name}"' for name in slow)
            session.say(f"Still starting, so their tools come later: the MCP servers {names}")
