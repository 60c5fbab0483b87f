"""The archive of sessions, and whether one is open: methods of ACP's unstable schema.

Owns the answers that Codex does not give: that what is wished is so already, that there is no such
session. Source: definitions ``ArchiveSessionRequest`` and ``SessionStatusRequest`` of the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.stored_threads import exists, stored_thread
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.session.ids import canonical_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.sessions.methods import SessionMethods
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["SessionArchive"]


class SessionArchive:
    """Of one agent. ``methods`` closes a session; ``ending`` and ``ended`` are called
    when an open session is about to be archived, and when it is open no more.
    """

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        methods: SessionMethods,
        ending: Callable[[str], None],
        ended: Callable[[str], None],
    ) -> None:
        self._sessions = sessions
        self._opener = opener
        self._methods = methods
        self._ending = ending
        self._ended = ended

    async def archive(self, request: v1.ArchiveSessionRequest) -> v1.ArchiveSessionResponse:
        """``session/archive``: one that is open is closed first, and what runs in it cancelled.

        Raises RpcError: -32002, -32603 with Codex's reason.
        """
        session_id = canonical_id(request.session_id)
        self._sessions.not_below(session_id)
        self._ending(session_id)
        async with self._opener.lock(session_id):
            if session_id not in self._sessions:
                await self._move(session_id, "thread/archive", archived=True)
                return cast("v1.ArchiveSessionResponse", _answer("ArchiveSessionResponse", {}))
            codex = await self._methods.stop(session_id)
            self._ended(session_id)
            try:  # before Codex unloads it: what nobody has prompted yet would be gone
                await self._move(session_id, "thread/archive", archived=True)
            except RpcError:
                if codex is not None:
                    await self._opener.let_go(codex, session_id)
                raise
        return cast("v1.ArchiveSessionResponse", _answer("ArchiveSessionResponse", {}))

    async def unarchive(self, request: v1.UnarchiveSessionRequest) -> v1.UnarchiveSessionResponse:
        """``session/unarchive``: it is not opened. Raises as `archive`."""
        session_id = canonical_id(request.session_id)
        self._sessions.not_below(session_id)
        async with self._opener.lock(session_id):
            if session_id not in self._sessions:  # else it is in no archive
                await self._move(session_id, "thread/unarchive", archived=False)
        return cast("v1.UnarchiveSessionResponse", _answer("UnarchiveSessionResponse", {}))

    async def status(self, request: v1.SessionStatusRequest) -> v1.SessionStatusResponse:
        """``session/status``: changes nothing. Raises RpcError: -32002, -32603."""
        session_id = canonical_id(request.session_id)
        if session_id in self._sessions:
            return cast(
                "v1.SessionStatusResponse", _answer("SessionStatusResponse", {"status": "open"})
            )
        codex = await self._opener.codex()
        try:
            known = await exists(codex, session_id)
        except CodexAcpError as error:
            raise _failed("tell the status of the session", error) from error
        if not known:
            raise unknown_session(request.session_id)
        return cast(
            "v1.SessionStatusResponse", _answer("SessionStatusResponse", {"status": "saved"})
        )

    async def _move(self, session_id: str, method: str, *, archived: bool) -> None:
        """Have Codex move a thread. It refuses what is there already, with the same words."""
        codex = await self._opener.codex()
        what = "archive the session" if archived else "take the session out of the archive"
        try:
            try:
                await codex.call_raw(method, {"threadId": session_id})
            except ErrorReply as error:
                from codex_acp.mapping.session.list import is_archived

                thread = await stored_thread(codex, session_id)
                if thread is None:
                    raise unknown_session(session_id, error.message) from error
                if is_archived(thread) != archived:
                    raise
        except RpcError:
            raise
        except CodexAcpError as error:
            raise _failed(what, error) from error


def _answer(name: str, fields: dict[str, JsonValue]) -> object:
    """A result's model, which is loaded with the first request that needs it."""
    return MODELS.decode(name, fields, "the answer")


def _failed(what: str, error: CodexAcpError) -> RpcError:
    said = error.message if isinstance(error, ErrorReply) else str(error)
    return RpcError(INTERNAL_ERROR, f"Codex could not {what}: {said}", {"message": said})
