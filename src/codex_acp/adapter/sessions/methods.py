"""The methods of ACP that open, list, close, delete, fork, archive and name sessions.

`AgentInV1` and `AgentInV2` decide which methods they offer, and make the answers. Loaded with the
first such request, except ``session/new`` without MCP servers.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from codex_acp._json import list_at, text_at, value_at
from codex_acp.adapter.sessions.model_route import configuration
from codex_acp.adapter.sessions.opener import UNLOAD_SECONDS, OpeningResult, SessionOpener, Setup
from codex_acp.adapter.sessions.opening_errors import (
    not_open,
    raise_if_open_elsewhere,
    refused_call,
    stored_thread,
    unknown_session,
)
from codex_acp.adapter.tasks import acquire_within
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, JsonValue
from codex_acp.mapping.agent import META_KEY
from codex_acp.mapping.events import StateChanged
from codex_acp.mapping.session import is_archived, list_page, list_params, session_info, updated_at
from codex_acp.mapping.session_setup import (
    canonical_id,
    checked_path,
    instructions,
    server_config,
    server_names,
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
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

    WithServers: TypeAlias = NewSession | ResumeSession | ForkSession

logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 12.0
"""Seconds for the prompts of a session to end when it is closed; longer than `Timings.cancel`."""

MAX_SUB_AGENTS: Final = 256
"""Sub-agents whose commands are ended when a session is closed."""

CLEAN_UP_SECONDS: Final = 5.0
"""Seconds for Codex to end the background commands of a closed session."""


class SessionMethods:
    """The methods of one agent. ``spawn`` starts a task that may outlive its request."""

    def __init__(
        self, sessions: Sessions, opener: SessionOpener, config: Config, spawn: Spawn
    ) -> None:
        self._spawn = spawn
        self._config = config
        self._sessions = sessions
        self._opener = opener

    # Opening.

    async def reopen(
        self, request: ResumeSession, how: Literal["load", "resume"], client: SessionClient | None
    ) -> OpeningResult:
        """Open a stored session; ``session/load`` sends its whole history, ``session/resume`` none.
        Raises RpcError: -32602, -32002, -32600 while a prompt runs in it, -32000, -32603."""
        self._sessions.refuse_sub_agent(request.session_id)
        setup = await self.setup(request, client, stored=True)
        return await self._opener.resume(request.session_id, setup, how)

    async def fork(self, request: ForkSession, client: SessionClient | None) -> OpeningResult:
        """Open a new session with a copy of a stored thread (``session/fork``, unstable)."""
        self._sessions.refuse_sub_agent(request.session_id)
        setup = await self.setup(request, client, stored=True)
        return await self._opener.fork(request.session_id, setup)

    async def setup(
        self, request: WithServers, client: SessionClient | None, *, stored: bool = False
    ) -> Setup:
        """Return the setup of a session, new or ``stored``. Raises RpcError -32602."""
        cwd, directories = request.cwd, request.additional_directories
        thread_params(cwd, directories, {}, stored=stored)  # raises before any call of Codex
        system_prompt = instructions(plain(request.system_prompt))
        servers = server_config(cast("list[dict[str, Any]]", plain(request.mcp_servers)))
        used_servers: Mapping[str, Mapping[str, object]] = servers
        notices: list[str] = []
        if servers:
            from codex_acp.transcript.given_values import secrets_in
            from codex_acp.transcript.secrets import remember_secrets

            remember_secrets(secrets_in(servers))
            codex = await self._opener.codex()
            configured = server_names(await configuration(codex, cwd))
            configured |= server_names(self._opener.with_defaults({}))
            used_servers, notices = without_clashes(servers, configured)
        params = thread_params(cwd, directories, used_servers, stored=stored) | system_prompt
        cancels = value_at(plain(request.meta), META_KEY, "cancelElsewhere") is True
        return Setup(params, frozenset(used_servers), tuple(notices), client, cancels)

    # Other methods.

    async def list(self, request: ListSessions) -> dict[str, JsonValue]:
        """List sessions (``session/list``); the unstable param ``archived`` selects archived ones.
        Raises RpcError -32602 for a cursor that Codex does not know, and for an unknown filter."""
        if request.cwd is not None:
            checked_path(request.cwd, "cwd")
        page = list_page(request.archived, request.cursor)
        if page is None:
            message = f"archived: {request.archived!r} is none of exclude, include and only"
            raise RpcError(INVALID_PARAMS, message)
        codex = await self._opener.codex()
        try:
            result = await codex.call_raw("thread/list", list_params(request.cwd, page))
        except ErrorReply as error:
            if request.cursor is not None:  # the only param that Codex can find fault with
                raise RpcError(INVALID_PARAMS, f"cursor: {error.message}") from error
            raise refused_call("Codex could not list the sessions", error) from error
        found = [_listed(thread, archived=page.archived) for thread in list_at(result, "data")]
        sessions: list[JsonValue] = [info for info in found if info is not None]
        cursor = page.next(text_at(result, "nextCursor"))
        return {"sessions": sessions} | ({} if cursor is None else {"nextCursor": cursor})

    async def close(self, session_id: str) -> None:
        """Cancel the prompts of a session, or its opening; then close the session
        (``session/close``). Raises RpcError -32002 for a session that is neither open nor opening.
        """
        self._sessions.refuse_sub_agent(session_id)
        if session_id not in self._sessions and session_id not in self._opener.openings:
            raise not_open(session_id)
        await self.end(session_id, "closed by the client")

    async def delete(self, session_id: str) -> None:
        """Delete a session for good (``session/delete``); an open session is closed first.

        No effect for a session that does not exist. Raises RpcError: -32600 for a session that
        another process has open, -32603."""
        self._sessions.refuse_sub_agent(session_id)
        if session_id in self._sessions or self._opener.lock(session_id).locked():
            await self.end(session_id, "deleted by the client")
        codex = await self._opener.codex()
        try:
            await codex.call_raw("thread/delete", {"threadId": session_id})
        except ErrorReply as error:
            await raise_if_open_elsewhere(codex, session_id, error)
            if await stored_thread(codex, session_id) is not None:
                raise refused_call("Codex could not delete the session", error) from error
            logger.info("session %s, to be deleted, is not there: %s", session_id, error.message)

    async def set_title(self, session_id: str, title: str) -> dict[str, JsonValue]:
        """Name a session, open or not (``session/set_title``, unstable). Raises RpcError: -32602
        for an empty title, -32002, -32603."""
        self._sessions.refuse_sub_agent(session_id)
        title = " ".join(title.split())
        if not title:
            raise RpcError(INVALID_PARAMS, "title: is empty")
        codex = await self._opener.codex()
        try:
            await codex.call_raw("thread/name/set", {"threadId": session_id, "name": title})
        except ErrorReply as error:
            if await stored_thread(codex, session_id) is None:
                raise unknown_session(session_id, error.message) from error
            raise refused_call("Codex could not name the session", error) from error
        return {"title": title}

    async def archive(self, session_id: str) -> None:
        """Archive a session (``session/archive``); an open session is cancelled and closed first.

        Raises RpcError: -32002, -32600 if another process has the session open, -32603."""
        self._sessions.refuse_sub_agent(session_id)

        async def archive_thread(codex: AppServerConnection | None) -> None:
            try:  # while the thread is loaded: unloading loses a thread that was never prompted
                await self._set_archived(session_id, archived=True)
            except RpcError:
                if codex is not None:
                    await self._opener.unload(codex, session_id)
                raise

        await self.end(session_id, "archived by the client", archive_thread)

    async def unarchive(self, session_id: str) -> None:
        """Take a session out of the archive (``session/unarchive``). Raises as `archive` does."""
        self._sessions.refuse_sub_agent(session_id)
        lock = self._opener.lock(session_id)
        has_lock = await acquire_within(lock)
        try:
            if session_id not in self._sessions:  # an open session is not in the archive
                await self._set_archived(session_id, archived=False)
        finally:
            if has_lock:
                lock.release()

    async def status(self, session_id: str) -> StateChanged | None:
        """Return the activity of an open session, None for a session that is only stored.

        A sub-agent's session is open as long as its parent. Raises RpcError: -32002, -32603."""
        thread_id = canonical_id(session_id)
        opened = self._sessions.open_session(thread_id)
        if opened is not None and opened.session is not None:
            return opened.session.state_event
        if opened is not None:  # not used yet, so nothing runs in it
            return StateChanged("idle", background=())
        above = self._sessions.session_above(thread_id)
        if above is not None:
            return above.sub_agents.state(thread_id)
        if await stored_thread(await self._opener.codex(), thread_id) is None:
            raise unknown_session(session_id)
        return None

    async def _set_archived(self, session_id: str, *, archived: bool) -> None:
        """Put a thread into Codex's archive, or take it out, unless it is there already."""
        codex = await self._opener.codex()
        method = "thread/archive" if archived else "thread/unarchive"
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

    async def end(
        self,
        session_id: str,
        why: str,
        instead: Callable[[AppServerConnection | None], Awaitable[None]] | None = None,
    ) -> None:
        """Stop all work in a session, close it, and unload its thread. ``instead`` is called in
        place of the unloading, with the connection that has the thread loaded, or None."""
        self._opener.waiting_prompts.cancel(session_id)
        self._opener.openings.cancel(session_id)
        lock = self._opener.lock(session_id)
        has_lock = await acquire_within(lock)
        try:
            codex, sub_agents = await self._stop(session_id, why)
        except BaseException:
            if has_lock:
                lock.release()
            raise

        async def leave() -> None:
            try:
                if codex is not None:
                    threads = (session_id, *sub_agents)
                    await asyncio.gather(*(_end_commands(codex, each) for each in threads))
                    await asyncio.gather(*(self._opener.unload(codex, each) for each in sub_agents))
                if instead is not None:
                    await instead(codex)
                elif codex is not None:
                    await self._opener.unload(codex, session_id)
            finally:
                if has_lock:
                    lock.release()

        leaving = asyncio.ensure_future(leave())
        try:
            await shielded(leaving)
        except asyncio.CancelledError:
            # The session is closed already: still end its commands and unload its thread.
            self._spawn(lambda: _await_task(leaving))
            raise

    async def _stop(
        self, session_id: str, why: str
    ) -> tuple[AppServerConnection | None, Sequence[str]]:
        """Stop all work in an open session, and close it for the client. Returns the connection
        that has the thread loaded, or None, and the threads of its sub-agents."""
        opened = self._sessions.open_session(session_id)
        session = self._sessions.find(session_id)
        if opened is None or session is None:
            return None, ()
        codex = opened.codex
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await session.stop()
        await self._opener.store_unprompted(session_id, UNLOAD_SECONDS)
        shown = session.sub_agents.threads
        started = opened.connection.intake.items.sub_agents_of(session_id)
        # Bounded, because a model can name any number of threads that do not exist.
        sub_agents = list(dict.fromkeys((*shown, *started)))[:MAX_SUB_AGENTS]
        self._sessions.close(session_id)
        self._config.forget(session_id)
        self._sessions.transcript.record_closed(session_id, why)
        return (None if codex.closed else codex), sub_agents


async def _await_task(task: Task[None]) -> None:
    await task


async def _end_commands(codex: AppServerConnection, session_id: str) -> None:
    """End the background commands of a thread; never fails."""
    with suppress(CodexAcpError, TimeoutError):
        async with asyncio.timeout(CLEAN_UP_SECONDS):
            await codex.call_raw("thread/backgroundTerminals/clean", {"threadId": session_id})


def _listed(thread: JsonValue, *, archived: bool) -> dict[str, JsonValue] | None:
    """Return a thread of ``thread/list`` as an entry of ``session/list``; None to leave it out."""
    seconds = updated_at(thread)
    when = None
    if seconds is not None:
        with suppress(ValueError, OverflowError, OSError):  # a date that no calendar has
            when = datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    return session_info(thread, when, archived=archived)
