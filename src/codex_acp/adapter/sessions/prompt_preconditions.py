"""Wait, for a bounded time, until a session is ready for a prompt.

A session is ready when Codex has its thread loaded (again, after a loss), and the MCP servers that
the client gave the session have started. A ``session/cancel`` ends the wait.
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
"""Runs of one prompt: the first may find that an idle Codex has died unnoticed."""


class PromptPreconditions:
    """Makes the sessions of one agent ready for prompts."""

    def __init__(self, sessions: Sessions, opener: SessionOpener) -> None:
        self._sessions = sessions
        self._opener = opener
        self._waiting: dict[str, list[CancelScope]] = {}
        """Id of a session → scopes of the prompts that wait."""

    async def ensure_live(self, session_id: str) -> None:
        """Have the newest Codex load the session's thread, unless it has. Raises RpcError -32603 if
        there is no Codex, -32002 if Codex does not have the thread."""
        if not self._sessions.is_live(session_id):
            await self._opener.move(session_id)

    async def run(
        self, session_id: str, prompt: Callable[[], Awaitable[PromptResult]], *, begun: bool = False
    ) -> PromptResult:
        """Call ``prompt`` when the session is ready; at once if the prompt has ``begun``. If Codex
        ended before it read anything of the prompt, run the prompt again on the next Codex."""
        from codex_acp.adapter.session.driver import PromptResult, PromptUnread
        from codex_acp.adapter.session.machine import CANCELLED

        tries = 0
        while begun or await self.wait_ready(session_id):
            begun = False
            tries += 1
            try:
                return await prompt()
            except PromptUnread as error:
                if tries == MAX_TRIES:
                    raise
                logger.warning("a prompt is run again, on another Codex: %s", error.message)
        return PromptResult(CANCELLED)

    async def wait_ready(self, session_id: str) -> bool:
        """Wait until the session is ready; return False after a cancel. Raises as `ensure_live`."""
        opened = self._sessions.open_session(session_id)
        if opened is None or (self._sessions.is_live(session_id) and not opened.servers):
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
        """Return a scope that `cancel` cancels, for a prompt that is not in the session's queue."""
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
        if opened is None or not opened.servers:
            return
        slow = await self._sessions.intake.mcp.wait_started(session_id, opened.servers)
        waited, opened.servers = opened.servers, frozenset()
        session = self._sessions.find(session_id)
        if waited and slow and session is not None:
            names = ", ".join(f'"{name}"' for name in slow)
            session.say(f"Still starting, so their tools come later: the MCP servers {names}")
