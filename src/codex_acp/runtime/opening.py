"""How a session is opened: loaded, resumed or new, and why not the way that was wanted.

Owns that choice and its fall-back. Must not know where a session's id was kept.
Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import anyio

from codex_acp._json import value_at
from codex_acp.acp import types
from codex_acp.errors import CodexAcpError, ErrorReply, MisuseError
from codex_acp.jsonrpc.message import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    SESSION_BUSY,
    THREAD_ACTIVE_WRITER,
)
from codex_acp.runtime.agent_session import AgentSession
from codex_acp.runtime.errors import AuthenticationRequired, MethodNotOffered, SessionBusy
from codex_acp.runtime.given_up import ask_to_open

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from codex_acp.acp import AgentFeatures
    from codex_acp.runtime.agent_process import AgentProcess
    from codex_acp.runtime.permissions import PermissionPolicy

    _Answer: TypeAlias = (
        types.NewSessionResponse | types.LoadSessionResponse | types.ResumeSessionResponse
    )

logger = logging.getLogger(__name__)

How: TypeAlias = Literal["new", "load", "resume", "fork"]

_FIRST_PAUSE: Final = 0.1
"""Before a busy session is asked for again; then twice as long each time."""
_LONGEST_PAUSE: Final = 2.0
"""Between two attempts, so that what was busy is not missed for long."""

_GONE: Final = (RESOURCE_NOT_FOUND, INVALID_PARAMS)
"""How agents answer for an id that they do not know."""


@dataclass(frozen=True, slots=True)
class Opened:
    """How a session was opened."""

    how: How
    """"fork" is a copy of the session that was wanted, made by the agent."""
    reason: str | None = None
    """Why the session that was wanted is not this one; None if it is, or if none was wanted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request to open a session. ``session_id`` is that of an earlier session, or None."""

    cwd: str
    session_id: str | None = None
    mcp_servers: tuple[types.McpServer, ...] = ()
    directories: tuple[str, ...] = ()
    policy: PermissionPolicy | None = None
    or_new: bool = True
    """Whether a new session is opened if the earlier one is gone."""
    fork_if_busy: bool = False
    """Whether a copy is opened if the earlier one stays busy."""
    busy_seconds: float = 0.0
    """How long it may be busy."""


def way_back(features: AgentFeatures) -> Literal["load", "resume"] | None:
    """How an earlier session is had back: with its history if the agent can, else without."""
    if features.load_session:
        return "load"
    return "resume" if features.resume_session else None


async def open_session(
    process: AgentProcess, wanted: Wanted, turns: asyncio.Semaphore
) -> tuple[AgentSession, Opened]:
    """Open it, by one of the ``turns`` while the agent works at that.

    Raises as `AgentProcess.ask`, TransportError, SessionBusy, MethodNotOffered and MisuseError.
    """
    _check(process, wanted)
    reason: str | None = None
    if wanted.session_id is not None:
        try:
            return await _earlier(process, wanted, wanted.session_id, turns)
        except CodexAcpError as error:
            if not wanted.or_new or not _is_gone(error):
                raise
            reason = str(error)
            logger.warning(
                "the session %s of %s could not be opened again, a new one is: %s",
                wanted.session_id,
                process.agent,
                reason,
            )
    async with turns:
        return await _new(process, wanted), Opened("new", reason)


def _is_gone(error: CodexAcpError) -> bool:
    """Return whether the agent will never give the session back: waiting would not help."""
    if isinstance(error, ErrorReply):
        return error.code in _GONE
    return isinstance(error, MethodNotOffered)


async def _earlier(
    process: AgentProcess, wanted: Wanted, session_id: str, turns: asyncio.Semaphore
) -> tuple[AgentSession, Opened]:
    """Load or resume it as soon as it is not busy; after ``busy_seconds`` fork it, or give up."""
    how = way_back(process.features)
    if how is None:
        raise MethodNotOffered(process.agent, "session/load or session/resume")
    end = anyio.current_time() + wanted.busy_seconds
    pause = _FIRST_PAUSE
    while True:
        try:
            async with turns:
                return await _reopen(process, wanted, session_id, how), Opened(how)
        except ErrorReply as error:
            if value_at(error.data, "reason") not in (SESSION_BUSY, THREAD_ACTIVE_WRITER):
                raise
            busy = error
        left = end - anyio.current_time()
        if left <= 0:
            break
        await anyio.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST_PAUSE)
    if not wanted.fork_if_busy:
        raise SessionBusy(busy, wanted.busy_seconds) from busy
    if not process.features.fork_session:
        raise MethodNotOffered(process.agent, "session/fork") from busy
    async with turns:
        return await _new(process, wanted, fork_of=session_id), Opened("fork", str(busy))


def _check(process: AgentProcess, wanted: Wanted) -> None:
    features = process.features
    if wanted.directories and not features.additional_directories:
        raise MethodNotOffered(process.agent, "additional directories")
    for kind, can in (
        (types.HttpMcpServer, features.mcp_http),
        (types.SseMcpServer, features.mcp_sse),
    ):
        if not can and any(isinstance(server, kind) for server in wanted.mcp_servers):
            raise MethodNotOffered(process.agent, f"MCP servers like {kind.__name__}")


async def _reopen(
    process: AgentProcess, wanted: Wanted, session_id: str, how: Literal["load", "resume"]
) -> AgentSession:
    if process.is_open(session_id):
        raise MisuseError(f"the session {session_id} is open already")
    session = _session(process, wanted, session_id, replaying=True)
    process.open(session_id, session)
    where = _where(wanted)
    call: Awaitable[_Answer]
    if how == "load":
        call = process.client.session_load(types.LoadSessionRequest(session_id=session_id, **where))
    else:
        call = process.client.session_resume(
            types.ResumeSessionRequest(session_id=session_id, **where)
        )

    async def opened() -> None:
        _is_open(session, await call)

    try:
        await ask_to_open(process, f"session/{how}", opened(), session_id)
    except BaseException:
        process.close(session_id, session)
        await session.answers.aclose()  # the agent may have asked for something meanwhile
        raise
    return session


async def _new(process: AgentProcess, wanted: Wanted, fork_of: str | None = None) -> AgentSession:
    with process.opening():
        try:
            response = await _ask_new(process, wanted, fork_of)
        except AuthenticationRequired:
            method = process.spec.auth_method
            if method is None:
                raise
            login = types.AuthenticateRequest(method_id=method)
            await process.ask("authenticate", process.client.authenticate(login))
            response = await _ask_new(process, wanted, fork_of)
        session = _session(process, wanted, response.session_id, replaying=False)
        _is_open(session, response)
        process.open(response.session_id, session)
    return session


async def _ask_new(
    process: AgentProcess, wanted: Wanted, fork_of: str | None
) -> types.NewSessionResponse:
    request = types.NewSessionRequest(**_where(wanted))
    if fork_of is not None:
        return await ask_to_open(process, "session/fork", process.client.fork(fork_of, request))
    return await ask_to_open(process, "session/new", process.client.session_new(request))


def _where(wanted: Wanted) -> dict[str, Any]:
    """The fields that every request has that opens a session."""
    where: dict[str, Any] = {"cwd": wanted.cwd, "mcp_servers": list(wanted.mcp_servers)}
    if wanted.directories:
        where["additional_directories"] = list(wanted.directories)
    return where


def _session(
    process: AgentProcess, wanted: Wanted, session_id: str, *, replaying: bool
) -> AgentSession:
    return AgentSession(
        process, session_id, wanted.cwd, wanted.directories, wanted.policy, replaying=replaying
    )


def _is_open(
    session: AgentSession,
    response: types.NewSessionResponse | types.LoadSessionResponse | types.ResumeSessionResponse,
) -> None:
    """In the same step as the answer was taken: what comes next is live."""
    session.options.modes_reported(response.modes)
    session.options.reported(response.config_options)
    session.replaying = False
