"""Archive and unarchive sessions, and return their status: methods of ACP's unstable schema.

Adds the answers that Codex lacks: the session is already there, or does not exist. Source:
definitions ``ArchiveSessionRequest`` and ``SessionStatusRequest`` of the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.adapter.sessions.opening_errors import refused_call, unknown_session
from codex_acp.adapter.sessions.session_locks import acquire_within
from codex_acp.adapter.sessions.stored_threads import (
    exists,
    raise_if_open_elsewhere,
    stored_thread,
)
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.mapping.events import StateChanged
from codex_acp.mapping.session import is_archived
from codex_acp.mapping.session_setup import canonical_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.sessions.methods import SessionMethods
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.codex.connection.app_server_connection import AppServerConnection


class SessionArchive:
    """The archive of one agent. ``methods`` closes a session; ``on_ending`` is called before."""

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        methods: SessionMethods,
        on_ending: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._opener = opener
        self._methods = methods
        self._on_ending = on_ending

    async def archive(self, session_id: str) -> None:
        """Archive a session (``session/archive``); an open session is cancelled and closed first.

        Raises RpcError: -32002, -32600 if another process has it open, -32603 with Codex's reason.
        """
        session_id = canonical_id(session_id)
        self._sessions.refuse_sub_agent(session_id)
        self._on_ending(session_id)

        async def archive(codex: AppServerConnection | None) -> None:
            try:  # while the thread is loaded: unloading loses a thread that was never prompted
                await self._move(session_id, "thread/archive", archived=True)
            except RpcError:
                if codex is not None:
                    await self._opener.unload(codex, session_id)
                raise

        await self._methods.end(session_id, "archived by the client", archive)

    async def unarchive(self, session_id: str) -> None:
        """Take a session out of the archive (``session/unarchive``), without opening it. Raises
        what `archive` raises."""
        session_id = canonical_id(session_id)
        self._sessions.refuse_sub_agent(session_id)
        lock = self._opener.lock(session_id)
        has_lock = await acquire_within(lock)
        try:
            if session_id not in self._sessions:  # an open session is not in the archive
                await self._move(session_id, "thread/unarchive", archived=False)
        finally:
            if has_lock:
                lock.release()

    async def status(self, session_id: str) -> StateChanged | None:
        """Return the activity of an open session, None for a session that is only stored.

        A sub-agent's session is open as long as the session above it. Raises RpcError: -32002,
        -32603.
        """
        known = canonical_id(session_id)
        opened, above = self._sessions.open_session(known), self._sessions.session_above(known)
        if opened is not None and opened.session is not None:
            return opened.session.state
        if opened is not None:  # not used yet, so nothing runs in it
            return StateChanged("idle", background=())
        if above is not None:
            return above.sub_agents.state(known)
        if not await exists(await self._opener.codex(), known):
            raise unknown_session(session_id)
        return None

    async def _move(self, session_id: str, method: str, *, archived: bool) -> None:
        """Have Codex move a thread; ignore the error if the thread is already there."""
        codex = await self._opener.codex()
        try:
            await codex.call_raw(method, {"threadId": session_id})
        except ErrorReply as error:
            await raise_if_open_elsewhere(codex, session_id, error)
            thread = await stored_thread(codex, session_id)
            if thread is None:
                raise unknown_session(session_id, error.message) from error
            if is_archived(thread) != archived:
                what = "archive the session" if archived else "take the session out of the archive"
                raise refused_call(f"Codex could not {what}", error) from error
