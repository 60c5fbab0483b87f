"""Serve a client of version 2 of ACP with an agent that is written in version 1. See `run_agent`.

Owns which handler of version 1 answers which request, how results are converted, and the state of
each session with the order of its prompts: one prompt runs, the others wait.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio

from codex_acp.acp import v1_to_v2
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v1.methods import AGENT_REQUESTS
from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.capabilities import client_capabilities
from codex_acp.acp.dialects import AgentHandlers
from codex_acp.acp.side import ProgramExit, failure
from codex_acp.errors import ErrorReply, InvalidPayload, RpcError
from codex_acp.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from codex_acp.transport.shielding import awaited
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from codex_acp.acp._generated.v1.handlers import AgentNotificationHandlers, AgentRequestHandlers
    from codex_acp.acp._generated.v2.handlers import AgentNotificationHandlers as NotificationsOfV2
    from codex_acp.acp._generated.v2.handlers import AgentRequestHandlers as RequestsOfV2
    from codex_acp.acp.agent_side import AgentSide

    Spawn: TypeAlias = Callable[[Callable[[], Coroutine[object, object, None]]], None]
    """Calls an async function in a task that ends with the connection, not with the request."""


logger = logging.getLogger(__name__)

Json = dict[str, Any]


class V1AgentAsV2:
    """An agent of version 1, served as an agent of version 2. ``requests`` and ``notifications``
    are the agent's handlers of version 1."""

    def __init__(
        self,
        side: AgentSide,
        spawn: Spawn,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
    ) -> None:
        self._side = side
        self._requests = cast("dict[str, Callable[[Any], Awaitable[Any]] | None]", requests)
        self._on_cancel = cast("Callable[[Any], None]", notifications["session/cancel"])
        self._spawn = spawn
        self._sessions: dict[str, _Session] = {}
        """Session id → session, open or not: the agent may update a session before it is open."""

    def handlers(self) -> AgentHandlers:
        """Return the handlers of version 2 for the client's requests and notifications."""
        requests: RequestsOfV2 = {
            "initialize": self._initialize,
            "auth/login": self._login if self._requests["authenticate"] else None,
            "auth/logout": self._logout if self._requests["logout"] else None,
            "session/new": self._new,
            "session/list": self._list,
            "session/resume": self._resume,
            "session/close": self._close,
            "session/delete": self._delete if self._requests["session/delete"] else None,
            "session/set_config_option": (
                self._set_option if self._requests["session/set_config_option"] else None
            ),
            "session/prompt": self._prompt,
            "tool_call/cancel": None,
            "terminal/cancel": None,
        }
        notifications: NotificationsOfV2 = {
            "session/cancel": self._cancel_session,
            "$/cancel_request": None,
        }
        return AgentHandlers(requests, notifications)

    def cancel_all(self) -> None:
        """Cancel all prompts, because the client has disconnected."""
        for session in self._sessions.values():
            session.cancel_all()

    # Requests and notifications of the agent.

    async def call_client(self, method: str, params: Any) -> Any:
        """Send a request of version 1. Raises ErrorReply if version 2 lacks the method."""
        if method == "session/request_permission":
            return await self._ask_permission(plain(params))
        if method != "elicitation/create":
            raise ErrorReply(method, METHOD_NOT_FOUND, f"version 2 has no {method}")
        request = MODELS.decode("CreateElicitationRequest", plain(params), "an elicitation")
        answer = await self._side.v2.elicitation_create(request)
        return MODELS_OF_V1.decode("CreateElicitationResponse", plain(answer), "its answer")

    async def _ask_permission(self, params: Json) -> v1.RequestPermissionResponse:
        session = self._any_session(params["sessionId"])
        call = params.pop("toolCall")
        call_of_v2 = session.updates.convert_tool_call(call)
        params["subject"] = {"type": "tool_call", "toolCall": call_of_v2}
        params["title"] = session.updates.title_of(call)
        request = v2.RequestPermissionRequest.model_validate(params)
        with session.asking():
            chosen = (await self._side.v2.session_request_permission(request)).outcome
        outcome: Json = {"outcome": "cancelled"}  # an unknown outcome is no consent either
        if isinstance(chosen, v2.SelectedRequestPermissionOutcome):
            outcome = {"outcome": "selected", "optionId": chosen.option_id}
        return v1.RequestPermissionResponse.model_validate({"outcome": outcome})

    def notify_client(self, method: str, params: Any) -> None:
        """Send a notification of version 1; drop it if version 2 lacks the method."""
        sent = plain(params)
        if method == "session/update":
            self._any_session(sent["sessionId"]).send_update_of_v1(sent["update"])
        elif method == "elicitation/complete":
            complete = v2.CompleteElicitationNotification(elicitation_id=sent["elicitationId"])
            self._side.v2.elicitation_complete(complete)
        else:
            logger.debug("version 2 has no %s; it was left out", method)

    # Handlers of the client's requests and notifications.

    async def _initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        params_of_v2 = plain(request)
        params = {
            "protocolVersion": 1,
            "clientInfo": params_of_v2["info"],
            "clientCapabilities": client_capabilities(params_of_v2.get("capabilities") or {}),
        }
        result = await self._handle("initialize", params)
        return v2.InitializeResponse.model_validate(
            {
                "protocolVersion": 2,
                "info": result.get("agentInfo") or {"name": "unknown", "version": "unknown"},
                "capabilities": v1_to_v2.agent_capabilities(result.get("agentCapabilities") or {}),
                "authMethods": [*map(v1_to_v2.auth_method, result.get("authMethods") or ())],
            }
        )

    async def _login(self, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        await self._handle("authenticate", plain(request))
        return v2.LoginAuthResponse()

    async def _logout(self, _: v2.LogoutAuthRequest) -> v2.LogoutAuthResponse:
        await self._handle("logout", {})
        return v2.LogoutAuthResponse()

    async def _new(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        result = await self._handle("session/new", _opening_params(request))
        self._any_session(result["sessionId"]).is_open = True
        return v2.NewSessionResponse.model_validate(v1_to_v2.session_result(result))

    async def _list(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        result: Json = {"sessions": []}
        if self._requests["session/list"] is not None:
            result = await self._handle("session/list", plain(request))
        return v2.ListSessionsResponse.model_validate(result)

    async def _resume(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """Load or resume the session: of the two methods that the agent offers, the one that fits
        ``replayFrom`` better. If the agent offers neither, only an open session can be resumed."""
        wants_history = request.replay_from is not None
        if wants_history and not isinstance(request.replay_from, v2.StartReplayFrom):
            raise RpcError(INVALID_PARAMS, "replayFrom: history is told from the start only")
        methods = ["session/load", "session/resume"]
        preferred = methods if wants_history else methods[::-1]
        offered = [method for method in preferred if self._requests[method] is not None]
        result: Json = {}
        if not offered:
            session = self._open_session(request.session_id)
        else:
            session = self._any_session(request.session_id)
            session.is_muted = not wants_history
            try:
                result = await self._handle(offered[0], _opening_params(request))
            finally:
                session.is_muted = False
            session = self._any_session(request.session_id)  # a delete may have removed it
            session.is_open = True
        session.send_state()
        return v2.ResumeSessionResponse.model_validate(v1_to_v2.session_result(result))

    async def _close(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        session = self._open_session(request.session_id)
        self._cancel_session(v2.CancelSessionNotification(session_id=request.session_id))
        await session.wait_idle()
        if self._requests["session/close"] is not None:
            await self._handle("session/close", plain(request))
        self._sessions.pop(request.session_id, None)
        return v2.CloseSessionResponse()

    async def _delete(self, request: v2.DeleteSessionRequest) -> v2.DeleteSessionResponse:
        await self._handle("session/delete", plain(request))
        self._sessions.pop(request.session_id, None)
        return v2.DeleteSessionResponse()

    async def _set_option(
        self, request: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        params = plain(request)
        if params.get("type") == "id":
            del params["type"]
        result = await self._handle("session/set_config_option", params)
        return v2.SetSessionConfigOptionResponse.model_validate(v1_to_v2.session_result(result))

    async def _prompt(self, request: v2.PromptRequest) -> v2.PromptResponse:
        session = self._open_session(request.session_id)
        run = self._requests["session/prompt"]
        assert run is not None, "an agent answers prompts"
        params = plain(request)
        prompt = _params_of_v1("session/prompt", params)
        message_id = await session.start_prompt(params["prompt"], lambda: awaited(run(prompt)))
        return v2.PromptResponse(message_id=message_id)

    def _cancel_session(self, notification: v2.CancelSessionNotification) -> None:
        session = self._sessions.get(notification.session_id)
        if session is not None:
            session.cancel_waiting()
        self._on_cancel(v1.CancelNotification(session_id=notification.session_id))

    async def _handle(self, method: str, params: Json) -> Json:
        """Call the handler of version 1 and return its result."""
        handler = self._requests[method]
        assert handler is not None
        result = await awaited(handler(_params_of_v1(method, params)))
        return {} if result is None else plain(result)

    def _any_session(self, session_id: str) -> _Session:
        """Return the session, open or not; make it if it is new."""
        if session_id not in self._sessions:
            self._sessions[session_id] = _Session(self._side, self._spawn, session_id)
        return self._sessions[session_id]

    def _open_session(self, session_id: str) -> _Session:
        """Return the session. Raises RpcError if it is not open."""
        session = self._sessions.get(session_id)
        if session is None or not session.is_open:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no session {session_id!r}")
        return session


def _opening_params(request: v2.NewSessionRequest | v2.ResumeSessionRequest) -> Json:
    params = plain(request)
    params.pop("replayFrom", None)
    return {**params, "mcpServers": [*map(v1_to_v2.mcp_server, params.get("mcpServers") or ())]}


def _params_of_v1(method: str, params: Json) -> Any:
    """Decode params as the model of version 1. Raises RpcError -32602 if they do not fit."""
    model = AGENT_REQUESTS[method].params
    assert model is not None
    try:
        return MODELS_OF_V1.decode(model, params, method)
    except InvalidPayload as error:
        raise RpcError(INVALID_PARAMS, f"invalid params: {error}") from error


class _Session:
    """The prompts and the state of one session, as the client of version 2 sees them."""

    def __init__(self, side: AgentSide, spawn: Spawn, session_id: str) -> None:
        self.updates: v1_to_v2.UpdatesToV2 = v1_to_v2.UpdatesToV2()
        self._side = side
        self._spawn = spawn
        self._id = session_id
        self._turn = asyncio.Lock()
        """Held by the prompt that runs."""
        self._questions = 0
        """Permission requests that the client has not answered."""
        self.is_open: bool = False
        """Whether a request of the client has opened the session. Set by `V1AgentAsV2`."""
        self.is_muted: bool = False
        """Whether to drop updates: the agent replays the history, which the client did not ask
        for. Set by `V1AgentAsV2`."""
        self._waiting: list[anyio.CancelScope] = []
        """Scopes of the prompts that wait for the turn."""
        self._run_scope: anyio.CancelScope | None = None
        """Scope of the prompt that runs, or ran last."""

    async def start_prompt(self, content: list[Json], run: Callable[[], Awaitable[Any]]) -> str:
        """Wait for the earlier prompts, then call ``run`` in a task; return the message's id.
        Raises RpcError -32800 if the prompt is cancelled while it waits."""
        scope = anyio.CancelScope()
        self._waiting.append(scope)
        try:
            with scope:
                await self._turn.acquire()
        finally:
            self._waiting.remove(scope)
        if scope.cancelled_caught:
            raise RpcError(REQUEST_CANCELLED, "the prompt was cancelled before it had its place")
        message_id = secrets.token_hex(8)
        self._send({"sessionUpdate": "user_message", "messageId": message_id, "content": content})
        self.send_state()
        self._spawn(lambda: self._run(run))
        return message_id

    async def _run(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Run a prompt; then send the idle state with the end of the prompt."""
        end: Json = {"stopReason": "cancelled"}
        try:
            with anyio.CancelScope() as self._run_scope:
                end = {"stopReason": (await run()).stop_reason}
        except Exception as error:  # noqa: BLE001 - logged and told to the client
            end = _error_end(failure("session/prompt", error))
        except (SystemExit, KeyboardInterrupt) as error:
            raise ProgramExit(error) from error
        finally:
            self._turn.release()
        self.updates.end_message()
        self._send({"sessionUpdate": "state_update", "state": "idle", **end})

    async def wait_idle(self) -> None:
        async with self._turn:
            pass

    def cancel_waiting(self) -> None:
        """Cancel the prompts that wait for the turn."""
        for scope in self._waiting:
            scope.cancel()

    def cancel_all(self) -> None:
        """Cancel all prompts, because the client has disconnected."""
        self.cancel_waiting()
        if self._run_scope is not None:
            self._run_scope.cancel()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Send the state ``requires_action`` while the person is asked."""
        self._questions += 1
        if self._questions == 1:
            self.send_state()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self.send_state()

    def send_update_of_v1(self, update: Json) -> None:
        """Convert an update to version 2 and send it."""
        converted = self.updates.convert(update)
        if converted is None:
            logger.debug("version 2 has no %s; it was left out", update["sessionUpdate"])
        elif not self.is_muted:
            self._send(converted)

    def send_state(self) -> None:
        state = "idle"
        if self._turn.locked():
            state = "requires_action" if self._questions else "running"
        self._send({"sessionUpdate": "state_update", "state": state})

    def _send(self, update: Json) -> None:
        try:
            model: v2.SessionUpdate = MODELS.decode("SessionUpdate", update, "an update")
        except InvalidPayload:
            logger.exception("an update that version 2 cannot carry was left out")
            return
        notification = v2.UpdateSessionNotification(session_id=self._id, update=model)
        self._side.v2.session_update(notification)


def _error_end(error: RpcError) -> Json:
    data = {} if error.data is None else {"data": error.data}
    return {"stopReason": "error", "error": {"code": error.code, "message": error.message, **data}}
