"""The ACP agent's methods: which are offered, and what each does.

Sessions and everything that loads a turn's models are imported when the first session begins.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from codex_acp._version import __version__
from codex_acp.acp._generated.v1.models import InitializeResponse
from codex_acp.acp.capabilities import ClientFeatures, client_features, negotiated_version
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError, TransportError
from codex_acp.jsonrpc.message import (
    AUTHENTICATION_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
)
from codex_acp.mapping.capabilities import agent_capabilities, agent_info
from codex_acp.mapping.client_info import codex_client_info
from codex_acp.transcript.events import PromptEnded, PromptStarted, SessionOpened, SessionRef
from codex_acp.transcript.log import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
    )
    from codex_acp.acp._generated.v1.models import (
        CancelNotification,
        InitializeRequest,
        NewSessionRequest,
        NewSessionResponse,
        PromptRequest,
        PromptResponse,
    )
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.adapter.app_server import AppServer
    from codex_acp.adapter.codex_events import CodexEvents
    from codex_acp.adapter.outflow import Outflow
    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.adapter.session import Session
    from codex_acp.codex.client import CodexClient
    from codex_acp.codex.items import Items

    Spawn = Callable[[Callable[[], Coroutine[None, None, None]]], object]

__all__ = ["CodexAgent"]

logger = logging.getLogger(__name__)


PRELOAD_AFTER_SECONDS: Final = 0.002
"""After ``initialize``: its answer is written first, then the models of a turn are loaded."""


def _preload() -> None:
    """Import what the first session and turn need, while nobody waits for this process."""
    import codex_acp.adapter.outflow
    import codex_acp.adapter.session
    import codex_acp.mapping.mcp_servers  # noqa: F401


class CodexAgent:
    """The agent of one ACP connection. ``spawn`` starts a task that may outlive its request."""

    def __init__(
        self, app_server: AppServer, spawn: Spawn, transcript: Transcript | None = None
    ) -> None:
        self._app_server = app_server
        self._spawn = spawn
        self._transcript = transcript or Transcript()
        self._generation = 0
        self._events: CodexEvents | None = None
        app_server.when_started(self._codex_started)
        self._side: AgentSide | None = None
        self._outflow: Outflow | None = None
        self._sessions: dict[str, Session] = {}
        self.client = ClientFeatures()
        """What the client can do, known after ``initialize``."""

    def requests(self) -> AgentRequestHandlers:
        """One row a method; None: not offered."""
        return {
            "initialize": self.initialize,
            "authenticate": None,
            "logout": None,
            "session/new": self.new_session,
            "session/load": None,
            "session/list": None,
            "session/delete": None,
            "session/resume": None,
            "session/close": None,
            "session/set_mode": None,
            "session/set_config_option": None,
            "session/prompt": self.prompt,
        }

    def notifications(self) -> AgentNotificationHandlers:
        """One row a method; None: ignored (``$/cancel_request`` is the connection's own)."""
        return {"session/cancel": self.cancel, "$/cancel_request": None}

    def join(self, side: AgentSide) -> None:
        """Give the agent the connection on which it serves."""
        self._side = side

    # The methods.

    async def initialize(self, request: InitializeRequest) -> InitializeResponse:
        """Answered at once: a Codex that is missing is reported by what needs it."""
        self.client = client_features(request.client_capabilities)
        self._app_server.introduce(codex_client_info(request.client_info))
        asyncio.get_running_loop().call_later(PRELOAD_AFTER_SECONDS, _preload)
        return InitializeResponse(
            protocol_version=negotiated_version(request.protocol_version),
            agent_capabilities=agent_capabilities(),
            agent_info=agent_info(__version__),
            auth_methods=[],
        )

    async def new_session(self, request: NewSessionRequest) -> NewSessionResponse:
        """Start a thread. Raises RpcError: -32602, -32000, or -32603 when Codex cannot."""
        from codex_acp.acp._generated.v1.models import NewSessionResponse
        from codex_acp.codex._generated.models import ThreadStartParams
        from codex_acp.mapping.mcp_servers import server_config

        if not os.path.isabs(request.cwd):  # noqa: PTH117 - a string of the protocol, not a file
            raise RpcError(INVALID_PARAMS, f"cwd: {request.cwd!r} is not an absolute path")
        params = ThreadStartParams(cwd=request.cwd)
        servers = server_config(request.mcp_servers)
        if servers:
            params.config = {"mcp_servers": servers}
        codex = await self._app_server.client()
        try:
            started = await codex.thread_start(params)
        except CodexAcpError as error:
            raise _session_error(error) from error
        self._add(started.thread.id, codex)
        self._transcript.record(SessionOpened(ref=self._ref(started.thread.id), how="new"))
        return NewSessionResponse(session_id=started.thread.id)

    async def prompt(self, request: PromptRequest) -> PromptResponse:
        """See `Session.prompt`; -32002 for a session that is not open here."""
        session = self._session(request.session_id)
        ref = self._ref(session.id)
        self._transcript.record(PromptStarted(ref=ref))
        try:
            response = await session.prompt(request)
        except RpcError as error:
            ended = PromptEnded(ref=ref, stop_reason=None, error=error.message)
            self._transcript.record(ended)
            raise
        self._transcript.record(PromptEnded(ref=ref, stop_reason=response.stop_reason))
        return response

    def cancel(self, notification: CancelNotification) -> None:
        """See `Session.cancel`; one for an unknown session is only logged."""
        session = self._sessions.get(notification.session_id)
        if session is None:
            logger.warning("session/cancel names the unknown session %s", notification.session_id)
        else:
            session.cancel()

    # Sessions.

    def _ref(self, session_id: str) -> SessionRef:
        return SessionRef(session_id=session_id, thread_id=session_id, generation=self._generation)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            message = f"there is no open session {session_id!r}; start one with session/new"
            raise RpcError(RESOURCE_NOT_FOUND, message, {"sessionId": session_id})
        return session

    def _add(self, session_id: str, codex: CodexClient) -> None:
        from codex_acp.adapter.outflow import Outflow
        from codex_acp.adapter.session import Session

        if self._outflow is None:
            assert self._side is not None
            self._outflow = Outflow(self._side, self._spawn)
        outflow = self._outflow
        outflow.when_full(
            lambda full: codex.pause_reading(outflow) if full else codex.resume_reading(outflow)
        )
        events = self._events
        assert events is not None
        self._sessions[session_id] = Session(
            session_id,
            codex,
            outflow,
            self._spawn,
            self.client,
            lambda: events.prompt_cancelled(session_id),
        )

    # Server requests of Codex.

    def _codex_started(self, codex: CodexClient) -> None:
        """A new connection to Codex: its requests and items are told from an earlier one's."""
        from codex_acp.adapter.codex_events import CodexEvents

        self._generation += 1
        generation = self._generation
        self._events = CodexEvents(codex, lambda items: self._runner(generation, items))

    def _runner(self, generation: int, items: Items) -> ServerRequestRunner:
        from codex_acp.adapter.server_requests import ServerRequestRunner
        from codex_acp.routing.route import RoutingContext

        assert self._side is not None
        return ServerRequestRunner(
            self._side,
            generation,
            lambda: RoutingContext(items, self.client, self._sessions),
            self._sessions.get,
            self._transcript,
        )


def _session_error(error: CodexAcpError) -> RpcError:
    """Why Codex would not start a thread, as the answer to the request that wanted one."""
    if isinstance(error, ErrorReply):
        data = {"message": error.message, "code": error.code, "data": error.data}
        code = AUTHENTICATION_REQUIRED if _asks_for_login(error) else INTERNAL_ERROR
        return RpcError(code, f"Codex could not start the session: {error.message}", data)
    if isinstance(error, TransportError):
        return RpcError(INTERNAL_ERROR, str(error))
    return RpcError(INTERNAL_ERROR, f"Codex could not start the session: {error}")


def _asks_for_login(error: ErrorReply) -> bool:
    """Codex marks an error that a login would cure in its data, not only in its text."""
    data = error.data
    return isinstance(data, dict) and data.get("codexErrorInfo") == "unauthorized"
