"""The ACP agent's methods: which are offered, and what each does.

The first ``initialize`` and ``session/new`` are answered without a model: pydantic and all that
a prompt needs are loaded behind the answer, see `Sessions`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final, cast

from codex_acp._version import __version__
from codex_acp.acp._generated.v1.methods import MODELS as ACP_MODELS
from codex_acp.adapter.sessions import Sessions
from codex_acp.codex._generated.methods import MODELS as CODEX_MODELS
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError, TransportError
from codex_acp.jsonrpc.encode import encode_json
from codex_acp.jsonrpc.message import (
    AUTHENTICATION_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
)
from codex_acp.mapping import quick
from codex_acp.transcript.log import Transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
    )
    from codex_acp.acp._generated.v1.models import (
        CancelNotification,
        InitializeRequest,
        InitializeResponse,
        NewSessionRequest,
        NewSessionResponse,
        PromptRequest,
        PromptResponse,
    )
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.acp.side import QuickHandler
    from codex_acp.adapter.app_server import AppServer
    from codex_acp.adapter.session import Session
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.transcript.events import SessionRef

    Spawn = Callable[[Callable[[], Coroutine[None, None, None]]], object]

__all__ = ["CodexAgent"]

logger = logging.getLogger(__name__)


LOAD_AFTER_SECONDS: Final = 0.002
"""After ``session/new``: its answer is written first, then what a prompt needs is loaded."""


class CodexAgent:
    """The agent of one ACP connection. ``spawn`` starts a task that may outlive its request.

    ``when_loaded`` is called once, when all that a prompt needs has been imported.
    """

    def __init__(
        self,
        app_server: AppServer,
        spawn: Spawn,
        transcript: Transcript | None = None,
        when_loaded: Callable[[], None] | None = None,
    ) -> None:
        self._app_server = app_server
        self._spawn = spawn
        self._transcript = transcript or Transcript()
        self._when_loaded = when_loaded
        self._sessions = Sessions(spawn, lambda: self.client, self._transcript)
        app_server.when_started(self._sessions.codex_started)
        app_server.when_refused(self._sessions.refused)
        self._introduction: JsonValue = None
        self._features: ClientFeatures | None = None
        self._loading = False

    @property
    def client(self) -> ClientFeatures:
        """What the client can do, known after ``initialize``."""
        if self._features is None:
            from codex_acp.acp.capabilities import ClientFeatures, client_features

            if self._introduction is None:
                return ClientFeatures()
            request = ACP_MODELS.decode("InitializeRequest", self._introduction, "initialize")
            self._features = client_features(request.client_capabilities)
        return self._features

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

    def quick(self) -> Mapping[str, QuickHandler]:
        """The same answers for simple requests, before any model is loaded; see `Side`."""
        return {"initialize": self._quick_initialize, "session/new": self._quick_new_session}

    def join(self, side: AgentSide) -> None:
        """Give the agent the connection on which it serves."""
        self._sessions.join(side)

    # The methods.

    async def initialize(self, request: InitializeRequest) -> InitializeResponse:
        """Answered at once: a Codex that is missing is reported by what needs it."""
        from codex_acp.acp._generated.v1.models import InitializeResponse
        from codex_acp.acp.capabilities import client_features, negotiated_version
        from codex_acp.mapping.capabilities import agent_capabilities, agent_info
        from codex_acp.mapping.client_info import codex_client_info

        self._features = client_features(request.client_capabilities)
        self._app_server.introduce(codex_client_info(request.client_info))
        self._spawn(self._app_server.warm_up)
        return InitializeResponse(
            protocol_version=negotiated_version(request.protocol_version),
            agent_capabilities=agent_capabilities(),
            agent_info=agent_info(__version__),
            auth_methods=[],
        )

    def _quick_initialize(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        result = quick.initialize_result(params)

        async def answer() -> EncodedJson:
            self._introduction, self._features = params, None
            self._app_server.introduce(quick.client_info(params))
            self._spawn(self._app_server.warm_up)
            return encode_json(result)

        return None if result is None else answer

    async def new_session(self, request: NewSessionRequest) -> NewSessionResponse:
        """Start a thread. Raises RpcError: -32602, -32000, or -32603 when Codex cannot."""
        from codex_acp.acp._generated.v1.models import NewSessionResponse
        from codex_acp.mapping.mcp_servers import server_config

        if not os.path.isabs(request.cwd):  # noqa: PTH117 - a string of the protocol, not a file
            raise RpcError(INVALID_PARAMS, f"cwd: {request.cwd!r} is not an absolute path")
        params: dict[str, JsonValue] = {"cwd": request.cwd}
        servers = cast("dict[str, JsonValue]", server_config(request.mcp_servers))
        if servers:
            params["config"] = {"mcp_servers": servers}
        return NewSessionResponse(session_id=await self._start_thread(params))

    def _quick_new_session(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        start = quick.new_session_params(params)
        if start is None:
            return None

        async def answer() -> EncodedJson:
            return encode_json({"sessionId": await self._start_thread(start)})

        return answer

    async def _start_thread(self, params: dict[str, JsonValue]) -> str:
        """The id of the new thread, which is open as a session then."""
        codex = await self._app_server.client()
        try:
            result = await codex.call_raw("thread/start", params)
            thread_id = quick.started_thread(result)
            if thread_id is None:  # what is wrong with it, the model says
                what = "the result of thread/start"
                started = CODEX_MODELS.decode("ThreadStartResponse", result, what)
                thread_id = started.thread.id
            self._sessions.open(thread_id)
        except CodexAcpError as error:
            raise _session_error(error) from error
        finally:
            self._load_soon()
        if self._transcript.active:
            from codex_acp.transcript.events import SessionOpened

            self._transcript.record(SessionOpened(ref=self._ref(thread_id), how="new"))
        return thread_id

    def _load_soon(self) -> None:
        if not self._loading:
            self._loading = True
            asyncio.get_running_loop().call_later(LOAD_AFTER_SECONDS, self._load)

    def _load(self) -> None:
        """Import what a prompt needs, while nobody waits for this process."""
        self._sessions.load()
        if self._when_loaded is not None:
            self._when_loaded()

    async def prompt(self, request: PromptRequest) -> PromptResponse:
        """See `Session.prompt`; -32002 for a session that is not open here."""
        from codex_acp.transcript.events import PromptEnded, PromptStarted

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
        from codex_acp.transcript.events import SessionRef

        generation = self._sessions.generation
        return SessionRef(session_id=session_id, thread_id=session_id, generation=generation)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            message = f"there is no open session {session_id!r}; start one with session/new"
            raise RpcError(RESOURCE_NOT_FOUND, message, {"sessionId": session_id})
        return session


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
