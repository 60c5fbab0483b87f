"""Wait, for a bounded time, until a session is ready for a prompt.

A session is ready when the newest Codex has loaded its thread (a Codex that was lost is replaced by
a new one), and the MCP servers that the client gave the session have started. A ``session/cancel``
ends the wait.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp.adapter.cancel_scope import CancelScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions

logger = logging.getLogger(__name__)


class PromptPreconditions:
    """Makes the sessions of one agent ready for prompts."""

    def __init__(self, sessions: Sessions, opener: SessionOpener) -> None:
        self._sessions = sessions
        self._opener = opener
        self._waiting: dict[str, list[CancelScope]] = {}
        """Id of a session → scopes of the prompts that wait."""

    async def ensure_live(self, session_id: str) -> None:
        """Load the session's thread in the newest Codex, if it is not loaded there. Raises RpcError
        -32603 if there is no Codex, -32002 if Codex does not have the thread."""
        if not self._sessions.is_live(session_id):
            await self._opener.load_again(session_id)

    async def run(
        self, session_id: str, prompt: Callable[[], Awaitable[PromptResult]], *, begun: bool = False
    ) -> PromptResult:
        """Call ``prompt`` when the session is ready; at once if the prompt has ``begun``. If Codex
        ended before it read anything of the prompt, run the prompt once more, on the next Codex:
        an idle Codex may have died unnoticed."""
        from codex_acp.adapter.session.driver import PromptResult, PromptUnread
        from codex_acp.adapter.session.machine import CANCELLED

        if not begun and not await self.wait_ready(session_id):
            return PromptResult(CANCELLED)
        try:
            return await prompt()
        except PromptUnread as error:
            logger.warning("a prompt is run again, on another Codex: %s", error.message)
        if not await self.wait_ready(session_id):
            return PromptResult(CANCELLED)
        return await prompt()

    async def wait_ready(self, session_id: str) -> bool:
        """Wait until the session is ready; return False after a cancel. Raises as `ensure_live`."""
        opened = self._sessions.open_session(session_id)
        if opened is None or (
            self._sessions.is_live(session_id) and not opened.awaited_mcp_servers
        ):
            return True
        scope = self.start_waiting(session_id)
        try:
            with scope:
                await self.ensure_live(session_id)
                await self._wait_for_servers(session_id)
        finally:
            self.stop_waiting(session_id, scope)
        return not scope.cancel_called

    def start_waiting(self, session_id: str) -> CancelScope:
        """Return a scope that `cancel` cancels, for a prompt that the session has yet to queue."""
        scope = CancelScope()
        self._waiting.setdefault(session_id, []).append(scope)
        return scope

    def is_waiting(self, session_id: str) -> bool:
        """Return whether a prompt waits for the session to be ready."""
        return session_id in self._waiting

    def stop_waiting(self, session_id: str, scope: CancelScope) -> None:
        """Forget the scope of a prompt that waits no more."""
        self._waiting[session_id].remove(scope)
        if not self._waiting[session_id]:
            del self._waiting[session_id]

    def cancel(self, session_id: str) -> None:
        """Cancel the prompts that wait: the client cancelled them, or closes the session."""
        for scope in self._waiting.get(session_id, ()):
            scope.cancel()

    async def _wait_for_servers(self, session_id: str) -> None:
        opened = self._sessions.open_session(session_id)
        if opened is None or not opened.awaited_mcp_servers:
            return
        startups = self._sessions.intake.mcp
        still_starting = await startups.wait_started(session_id, opened.awaited_mcp_servers)
        if not opened.awaited_mcp_servers:  # another prompt has waited, too, and told the person
            return
        opened.awaited_mcp_servers = frozenset()
        session = self._sessions.find(session_id)
        if still_starting and session is not None:
            names = ", ".join(f'"{name}"' for name in still_starting)
            session.say(f"Still starting, so their tools come later: the MCP servers {names}")
