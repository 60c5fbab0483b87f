"""How a session is opened: loaded, resumed or new, and why not the way that was wanted.

Owns that choice and its fall-back. Must not know where a session's id was kept.
Source: https://agentclientprotocol.com/protocol/v1/session-setup
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from codex_acp.acp.types import (
    AuthenticateRequest,
    HttpMcpServer,
    LoadSessionRequest,
    NewSessionRequest,
    ResumeSessionRequest,
    SseMcpServer,
)
from codex_acp.errors import CodexAcpError, MisuseError, TransportError
from codex_acp.runtime.errors import AuthenticationRequired, MethodNotOffered
from codex_acp.runtime.session_state import SessionState

if TYPE_CHECKING:
    from codex_acp.acp import AgentFeatures
    from codex_acp.acp.types import (
        LoadSessionResponse,
        McpServer,
        NewSessionResponse,
        ResumeSessionResponse,
    )
    from codex_acp.runtime.agent_process import AgentProcess
    from codex_acp.runtime.permissions import PermissionPolicy

__all__ = ["How", "Opened", "Wanted", "open_session", "way_back"]

logger = logging.getLogger(__name__)

How: TypeAlias = Literal["new", "load", "resume"]


@dataclass(frozen=True, slots=True)
class Opened:
    """How a session was opened."""

    how: How
    reason: str | None = None
    """Why the session that was wanted is not this one; None if it is, or if none was wanted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be opened. ``session_id`` is that of an earlier session, or None."""

    cwd: str
    session_id: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    directories: tuple[str, ...] = ()
    policy: PermissionPolicy | None = None
    or_new: bool = True
    """Whether a new session is opened if the earlier one cannot be had."""


def way_back(features: AgentFeatures) -> Literal["load", "resume"] | None:
    """How an earlier session is had back: with its history if the agent can, else without."""
    if features.load_session:
        return "load"
    return "resume" if features.resume_session else None


async def open_session(process: AgentProcess, wanted: Wanted) -> tuple[SessionState, Opened]:
    """Open it. Raises as `AgentProcess.ask`, TransportError, MethodNotOffered and MisuseError."""
    _check(process, wanted)
    reason: str | None = None
    if wanted.session_id is not None:
        back = way_back(process.features)
        try:
            if back is None:
                raise MethodNotOffered(process.agent, "session/load or session/resume")
            return await _reopen(process, wanted, wanted.session_id, back), Opened(back)
        except (TransportError, AuthenticationRequired, MisuseError):
            raise
        except CodexAcpError as error:
            if not wanted.or_new:
                raise
            reason = str(error)
            logger.warning(
                "the session %s of %s could not be opened again, a new one is: %s",
                wanted.session_id,
                process.agent,
                reason,
            )
    return await _new(process, wanted), Opened("new", reason)


def _check(process: AgentProcess, wanted: Wanted) -> None:
    features = process.features
    if wanted.directories and not features.additional_directories:
        raise MethodNotOffered(process.agent, "additional directories")
    for kind, can in ((HttpMcpServer, features.mcp_http), (SseMcpServer, features.mcp_sse)):
        if not can and any(isinstance(server, kind) for server in wanted.mcp_servers):
            raise MethodNotOffered(process.agent, f"MCP servers like {kind.__name__}")


async def _reopen(
    process: AgentProcess, wanted: Wanted, session_id: str, how: Literal["load", "resume"]
) -> SessionState:
    if process.has(session_id):
        msg = f"the session {session_id} is open already"
        raise MisuseError(msg)
    state = _state(process, wanted, session_id, replaying=True)
    process.register(session_id, state)
    response: LoadSessionResponse | ResumeSessionResponse
    try:
        if how == "load":
            load = LoadSessionRequest(
                session_id=session_id, cwd=wanted.cwd, mcp_servers=list(wanted.mcp_servers)
            )
            if wanted.directories:
                load.additional_directories = list(wanted.directories)
            response = await process.ask("session/load", process.client.session_load(load))
        else:
            resume = ResumeSessionRequest(
                session_id=session_id, cwd=wanted.cwd, mcp_servers=list(wanted.mcp_servers)
            )
            if wanted.directories:
                resume.additional_directories = list(wanted.directories)
            response = await process.ask("session/resume", process.client.session_resume(resume))
    except BaseException:
        process.unregister(session_id, state)
        await state.answers.aclose()  # the agent may have asked for something meanwhile
        raise
    _opened(state, response)
    return state


async def _new(process: AgentProcess, wanted: Wanted) -> SessionState:
    process.expect_session(+1)
    try:
        try:
            response = await _ask_new(process, wanted)
        except AuthenticationRequired:
            method = process.spec.auth_method
            if method is None:
                raise
            login = AuthenticateRequest(method_id=method)
            await process.ask("authenticate", process.client.authenticate(login))
            response = await _ask_new(process, wanted)
        state = _state(process, wanted, response.session_id, replaying=False)
        _opened(state, response)
        process.register(response.session_id, state)
    finally:
        process.expect_session(-1)
    return state


async def _ask_new(process: AgentProcess, wanted: Wanted) -> NewSessionResponse:
    request = NewSessionRequest(cwd=wanted.cwd, mcp_servers=list(wanted.mcp_servers))
    if wanted.directories:
        request.additional_directories = list(wanted.directories)
    return await process.ask("session/new", process.client.session_new(request))


def _state(
    process: AgentProcess, wanted: Wanted, session_id: str, *, replaying: bool
) -> SessionState:
    return SessionState(
        process, session_id, wanted.cwd, wanted.directories, wanted.policy, replaying=replaying
    )


def _opened(
    state: SessionState, response: NewSessionResponse | LoadSessionResponse | ResumeSessionResponse
) -> None:
    """In the same step as the answer was taken: what comes next is live."""
    state.options.modes_reported(response.modes)
    state.options.reported(response.config_options)
    state.replaying = False
