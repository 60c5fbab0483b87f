"""The methods of ACP that open, list, close, delete, copy and name sessions.

Each is here as a coroutine; which are offered, and how they are answered, each version's table
says. Loaded with the first of them: ``session/new`` without MCP servers needs none.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from codex_acp._json import list_at, text_at, value_at
from codex_acp.adapter.sessions.opener import OpeningResult, SessionOpener, Setup
from codex_acp.adapter.sessions.opening_errors import not_open, refused_call, unknown_session
from codex_acp.adapter.sessions.session_locks import acquired_soon
from codex_acp.adapter.sessions.stored_threads import exists, raise_if_open_elsewhere
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS, JsonValue
from codex_acp.mapping.agent import META_KEY
from codex_acp.mapping.session import list_page, list_params, session_info, updated_at
from codex_acp.mapping.session_setup import (
    absolute,
    configured_servers,
    given_servers,
    instructions,
    server_config,
    thread_params,
    without_clashes,
)
from codex_acp.transport.shielding import shielded
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.adapter.config_options import Config
    from codex_acp.adapter.session_client import (
        ForkSession,
        ListSessions,
        NewSession,
        ResumeSession,
        SessionClient,
    )
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

    WithServers: TypeAlias = NewSession | ResumeSession | ForkSession

logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 12.0
"""How long a prompt may take to end when its session is closed; a cancel has its own bound."""

MAX_BELOW: Final = 256
"""Sub-agents that are looked after when a session is closed."""

CLEAN_SECONDS: Final = 5.0
"""How long Codex may take to end the commands that a closed session has left running."""


class SessionMethods:
    """The methods of one agent. ``closed`` is called when a session is open no more, with why."""

    def __init__(
        self,
        sessions: Sessions,
        opener: SessionOpener,
        config: Config,
        spawn: Spawn,
        closed: Callable[[str, str], None],
    ) -> None:
        self._spawn = spawn
        self._closed = closed
        self._config = config
        self._sessions = sessions
        self._opener = opener

    # Opening.

    async def setup(self, request: NewSession, audience: SessionClient | None = None) -> Setup:
        """Return the setup of a new session. Raises RpcError -32602."""
        return await self._setup(request, audience, stored=False)

    async def load(
        self, request: ResumeSession, audience: SessionClient | None = None
    ) -> OpeningResult:
        """``session/load``: all of the history is sent before this returns.

        Raises RpcError: -32602, -32002, -32600 while a prompt runs in it, -32000, -32603.
        """
        self._sessions.not_below(request.session_id)
        setup = await self._setup(request, audience, stored=True)
        return await self._opener.resume(request.session_id, setup, "load")

    async def resume(
        self, request: ResumeSession, audience: SessionClient | None = None
    ) -> OpeningResult:
        """``session/resume``: as `load`, but nothing of the history is sent."""
        self._sessions.not_below(request.session_id)
        setup = await self._setup(request, audience, stored=True)
        return await self._opener.resume(request.session_id, setup, "resume")

    async def fork(
        self, request: ForkSession, audience: SessionClient | None = None
    ) -> OpeningResult:
        """``session/fork`` (unstable): a new session that knows what the old one knows."""
        self._sessions.not_below(request.session_id)
        setup = await self._setup(request, audience, stored=True)
        return await self._opener.fork(request.session_id, setup)

    async def _setup(
        self, request: WithServers, audience: SessionClient | None, *, stored: bool
    ) -> Setup:
        cwd, directories = request.cwd, request.additional_directories
        thread_params(cwd, directories, {}, stored=stored)  # before Codex is asked anything
        told = instructions(plain(request.system_prompt))
        servers = server_config(cast("list[dict[str, Any]]", plain(request.mcp_servers)))
        kept: Mapping[str, Mapping[str, object]] = servers
        said: list[str] = []
        if servers:
            from codex_acp.transcript.given_values import secrets_in
            from codex_acp.transcript.secrets import remember_secrets

            remember_secrets(secrets_in(servers))
            codex = await self._opener.codex()
            configured = await _configured(codex, cwd) | given_servers(self._opener.given({}))
            kept, said = without_clashes(servers, configured)
        params = thread_params(cwd, directories, kept, stored=stored)
        cancels = value_at(plain(request.meta), META_KEY, "cancelElsewhere") is True
        return Setup({**params, **told}, frozenset(kept), tuple(said), audience, cancels)

    # The others.

    async def list(self, request: ListSessions) -> dict[str, JsonValue]:
        """``session/list``; of the archive where the unstable ``archived`` asks for it.

        Raises RpcError -32602 for a cursor that Codex does not know, and for an unknown filter.
        """
        if request.cwd is not None:
            absolute(request.cwd, "cwd")
        page = list_page(request.archived, request.cursor)
        if page is None:
            message = f"archived: {request.archived!r} is none of exclude, include and only"
            raise RpcError(INVALID_PARAMS, message)
        codex = await self._opener.codex()
        try:
            result = await codex.call_raw("thread/list", list_params(request.cwd, page))
        except ErrorReply as error:
            if request.cursor is not None:  # all else that is asked is our own
                raise RpcError(INVALID_PARAMS, f"cursor: {error.message}") from error
            raise refused_call("Codex could not list the sessions", error) from error
        found = [_listed(thread, archived=page.archived) for thread in list_at(result, "data")]
        sessions: list[JsonValue] = [info for info in found if info is not None]
        cursor = page.next(text_at(result, "nextCursor"))
        return {"sessions": sessions} | ({} if cursor is None else {"nextCursor": cursor})

    async def close(self, session_id: str) -> None:
        """``session/close``: what runs is cancelled and has ended when this returns, and so has the
        opening of a session that was not open yet.

        Raises RpcError -32002 for a session that is neither.
        """
        self._sessions.not_below(session_id)
        if session_id not in self._sessions and not self._opener.is_opening(session_id):
            raise not_open(session_id)
        await self.end(session_id, "closed by the client")

    async def delete(self, session_id: str) -> None:
        """``session/delete``: for good; one that is open is closed first.

        One that is not there is as deleted as it can be. Raises RpcError: -32600 for one that
        another process has open, -32603.
        """
        self._sessions.not_below(session_id)
        if session_id in self._sessions or self._opener.lock(session_id).locked():
            await self.end(session_id, "deleted by the client")
        codex = await self._opener.codex()
        try:
            await codex.call_raw("thread/delete", {"threadId": session_id})
        except ErrorReply as error:
            await raise_if_open_elsewhere(codex, session_id, error)
            if await exists(codex, session_id):
                raise refused_call("Codex could not delete the session", error) from error
            logger.info("session %s, to be deleted, is not there: %s", session_id, error.message)

    async def set_title(self, session_id: str, title: str) -> dict[str, JsonValue]:
        """``session/set_title`` (unstable): also of a session that is not open.

        Raises RpcError: -32602 for an empty title, -32002, -32603.
        """
        self._sessions.not_below(session_id)
        title = " ".join(title.split())
        if not title:
            raise RpcError(INVALID_PARAMS, "title: is empty")
        codex = await self._opener.codex()
        try:
            await codex.call_raw("thread/name/set", {"threadId": session_id, "name": title})
        except ErrorReply as error:
            if not await exists(codex, session_id):
                raise unknown_session(session_id, error.message) from error
            raise refused_call("Codex could not name the session", error) from error
        return {"title": title}

    async def end(
        self,
        session_id: str,
        why: str,
        then: Callable[[AppServerConnection | None], Awaitable[None]] | None = None,
    ) -> None:
        """Stop what runs in an open session, and let go of it; then it may be opened again.

        ``then`` is done instead of letting go, with the connection where Codex still has its thread
        loaded, None if there is none.
        """
        self._opener.give_up(session_id)
        lock = self._opener.lock(session_id)
        held = await acquired_soon(lock)
        try:
            codex, below = await self._stopped(session_id, why)
        except BaseException:
            if held:
                lock.release()
            raise

        async def leave() -> None:
            try:
                if codex is not None:
                    await self._clean(codex, session_id, below)
                if then is not None:
                    await then(codex)
                elif codex is not None:
                    await self._opener.let_go(codex, session_id)
            finally:
                if held:
                    lock.release()

        leaving = asyncio.ensure_future(leave())
        try:
            await shielded(leaving)
        except asyncio.CancelledError:
            # It is closed already: Codex would keep its thread, and what that has left running.
            self._spawn(lambda: _done(leaving))
            raise

    async def _stopped(
        self, session_id: str, why: str
    ) -> tuple[AppServerConnection | None, Sequence[str]]:
        """Stop what runs in an open session, which is none any more for the client.

        Gives the connection where Codex still has its thread loaded, and the threads below it.
        """
        opened = self._sessions.open_session(session_id)
        session = self._sessions.known(session_id)
        if opened is None or session is None:
            return None, ()
        codex = opened.codex
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await session.stop()
        await self._opener.keep(session_id)
        shown = session.sub_agents.threads
        known = opened.connection.events.items.below(session_id)
        # No more than so many are shown; a model can name any number that there are not.
        below = list(dict.fromkeys((*shown, *known)))[:MAX_BELOW]
        self._sessions.close(session_id)
        self._config.closed(session_id)
        self._closed(session_id, why)
        return (None if codex.closed else codex), below

    async def _clean(
        self, codex: AppServerConnection, session_id: str, below: Sequence[str]
    ) -> None:
        await asyncio.gather(*(_clean(codex, thread) for thread in (session_id, *below)))
        await asyncio.gather(*(self._opener.let_go(codex, thread) for thread in below))


async def _done(task: Task[None]) -> None:
    await task


async def _configured(codex: AppServerConnection, cwd: str) -> frozenset[str]:
    """Names of the MCP servers in the user's configuration, as seen from ``cwd``."""
    try:
        return configured_servers(await codex.call_raw("config/read", {"cwd": cwd}))
    except ErrorReply as error:  # a broken configuration is told by what needs it
        logger.warning("the configured MCP servers are not known: %s", error)
        return frozenset()


async def _clean(codex: AppServerConnection, session_id: str) -> None:
    """End the commands that an interrupted turn has left running; never fails."""
    with suppress(CodexAcpError, TimeoutError):
        async with asyncio.timeout(CLEAN_SECONDS):
            await codex.call_raw("thread/backgroundTerminals/clean", {"threadId": session_id})


def _listed(thread: JsonValue, *, archived: bool) -> dict[str, JsonValue] | None:
    seconds = updated_at(thread)
    when = None
    if seconds is not None:
        with suppress(ValueError, OverflowError, OSError):  # a date that no calendar has
            when = datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    return session_info(thread, when, archived=archived)
