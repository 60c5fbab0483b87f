"""The archive of sessions, and whether one is open: methods of ACP's unstable schema.

Owns the answers that Codex does not give: that what is wished is so already, that there is no such
session. Source: definitions ``ArchiveSessionRequest`` and ``SessionStatusRequest`` of the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.models import (
    ArchiveSessionResponse,
    SessionStatusResponse,
    UnarchiveSessionResponse,
)
from codex_acp.adapter.refused_calls import refused_call
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.stored_threads import exists, stored_thread
from codex_acp.errors import ErrorReply, RpcError
from codex_acp.mapping.session.ids import canonical_id
from codex_acp.mapping.session.list import is_archived

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.sessions.methods import SessionMethods
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions


class SessionArchive:
    """Of one agent. ``methods`` closes a session; ``ending`` and ``ended`` are called when an open
    session is about to be archived, and when it is open no more, with why.
    """

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        methods: SessionMethods,
        ending: Callable[[str], None],
        ended: Callable[[str, str], None],
    ) -> None:
        self._sessions = sessions
        self._opener = opener
        self._methods = methods
        self._ending = ending
        self._ended = ended

    async def archive(self, request: v1.ArchiveSessionRequest) -> ArchiveSessionResponse:
        """``session/archive``: one that is open is closed first, and what runs in it cancelled.

        Raises RpcError: -32002, -32603 with Codex's reason.
        """
        session_id = canonical_id(request.session_id)
        self._sessions.not_below(session_id)
        self._ending(session_id)
        async with self._opener.lock(session_id):
            if session_id not in self._sessions:
                await self._move(session_id, "thread/archive", archived=True)
                return ArchiveSessionResponse()
            codex = await self._methods.stop(session_id)
            self._ended(session_id, "archived by the client")
            try:  # before Codex unloads it: what nobody has prompted yet would be gone
                await self._move(session_id, "thread/archive", archived=True)
            except RpcError:
                if codex is not None:
                    await self._opener.let_go(codex, session_id)
                raise
        return ArchiveSessionResponse()

    async def unarchive(self, request: v1.UnarchiveSessionRequest) -> UnarchiveSessionResponse:
        """``session/unarchive``: it is not opened. Raises as `archive`."""
        session_id = canonical_id(request.session_id)
        self._sessions.not_below(session_id)
        async with self._opener.lock(session_id):
            if session_id not in self._sessions:  # else it is in no archive
                await self._move(session_id, "thread/unarchive", archived=False)
        return UnarchiveSessionResponse()

    async def status(self, request: v1.SessionStatusRequest) -> SessionStatusResponse:
        """``session/status``: changes nothing. Raises RpcError: -32002, -32603.

        A sub-agent's session is open as long as the one above it.
        """
        session_id = canonical_id(request.session_id)
        if session_id in self._sessions or self._sessions.has_below(session_id):
            return SessionStatusResponse(status="open")
        codex = await self._opener.codex()
        if not await exists(codex, session_id):
            raise unknown_session(request.session_id)
        return SessionStatusResponse(status="saved")

    async def _move(self, session_id: str, method: str, *, archived: bool) -> None:
        """Have Codex move a thread. It refuses what is there already, with the same words."""
        codex = await self._opener.codex()
        try:
            await codex.call_raw(method, {"threadId": session_id})
        except ErrorReply as error:
            thread = await stored_thread(codex, session_id)
            if thread is None:
                raise unknown_session(session_id, error.message) from error
            if is_archived(thread) != archived:
                what = "archive the session" if archived else "take the session out of the archive"
                raise refused_call(f"Codex could not {what}", error) from error
