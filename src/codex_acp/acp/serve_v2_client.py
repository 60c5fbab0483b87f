"""Serve a client of version 2 with an agent that is written in version 1. See `run_agent`.

Owns the calls: which handler of version 1 answers which request, and what of it is told; the state
of each session, and the order of its prompts: one runs, the others wait for their place.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio

from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v1.methods import AGENT_REQUESTS
from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.capabilities import client_capabilities
from codex_acp.acp.dialects import AgentHandlers
from codex_acp.acp.v1_to_v2 import Updates, agent_capabilities, auth_method, mcp_server, opened
from codex_acp.errors import ErrorReply, InvalidPayload, RpcError
from codex_acp.jsonrpc.message import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
)
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from codex_acp.acp._generated.v1.handlers import AgentNotificationHandlers, AgentRequestHandlers
    from codex_acp.acp._generated.v2.handlers import AgentNotificationHandlers as NotificationsOfV2
    from codex_acp.acp._generated.v2.handlers import AgentRequestHandlers as RequestsOfV2
    from codex_acp.acp.agent_side import AgentSide

    Spawn: TypeAlias = Callable[[Callable[[], Coroutine[object, object, None]]], None]
    """Start work that outlives a request; it ends with the connection."""


logger = logging.getLogger(__name__)

Json = dict[str, Any]


class AgentInVersion2:
    """``requests`` and ``notifications`` are the agent's handlers of version 1."""

    def __init__(
        self,
        side: AgentSide,
        spawn: Spawn,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
    ) -> None:
        self._side = side
        self._requests = cast("dict[str, Callable[[Any], Awaitable[Any]] | None]", requests)
        self._cancel = cast("Callable[[Any], None]", notifications["session/cancel"])
        self._spawn = spawn
        self._sessions: dict[str, SessionInV2] = {}
        """All of them: an agent may tell of a session before it is open."""
        self._open: set[str] = set()

    def handlers(self) -> AgentHandlers:
        """Return the handlers of the client's methods, with those that version 2 always
        requires."""
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
            "session/cancel": self._cancelled,
            "$/cancel_request": None,
        }
        return AgentHandlers(requests, notifications)

    def leave(self) -> None:
        """End what the client waits for: it is gone."""
        for session in self._sessions.values():
            session.leave()

    # What the agent asks and tells.

    async def ask_client(self, method: str, params: Any) -> Any:
        """Send a request of version 1. Raises ErrorReply for one that version 2 does not have."""
        if method == "session/request_permission":
            said = _json(params)
            session = self._any_session(said["sessionId"])
            subject = {"type": "tool_call", "toolCall": session.updates.tool_call(said["toolCall"])}
            title = session.updates.title_of(said["toolCall"])
            asking = {**said, "title": title, "subject": subject}
            del asking["toolCall"]
            asked = v2.RequestPermissionRequest.model_validate(asking)
            with session.asking():
                chosen = await self._side.v2.session_request_permission(asked)
            outcome: Json = {"outcome": "cancelled"}  # also one that is not known: it is no consent
            if isinstance(chosen.outcome, v2.SelectedRequestPermissionOutcome):
                outcome = {"outcome": "selected", "optionId": chosen.outcome.option_id}
            return v1.RequestPermissionResponse.model_validate({"outcome": outcome})
        if method != "elicitation/create":
            raise ErrorReply(method, METHOD_NOT_FOUND, f"version 2 has no {method}")
        request = MODELS.decode("CreateElicitationRequest", plain(params), "an elicitation")
        answer = await self._side.v2.elicitation_create(request)
        return MODELS_OF_V1.decode("CreateElicitationResponse", plain(answer), "its answer")

    def tell_client(self, method: str, params: Any) -> None:
        """Send a notification of version 1 as one of version 2."""
        said = _json(params)
        if method == "session/update":
            self._any_session(said["sessionId"]).tell_v1(said["update"])
        elif method == "elicitation/complete":
            done = v2.CompleteElicitationNotification(elicitation_id=said["elicitationId"])
            self._side.v2.elicitation_complete(done)
        else:
            logger.debug("version 2 has no %s; it was left out", method)

    # What the client asks.

    async def _initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        params = _json(request)
        given = client_capabilities(params.get("capabilities") or {})
        introduced = {"clientInfo": params["info"], "clientCapabilities": given}
        said = await self._ask("initialize", {"protocolVersion": 1, **introduced})
        return v2.InitializeResponse.model_validate(
            {
                "protocolVersion": 2,
                "info": said.get("agentInfo") or {"name": "unknown", "version": "unknown"},
                "capabilities": agent_capabilities(said.get("agentCapabilities") or {}),
                "authMethods": [auth_method(each) for each in said.get("authMethods") or ()],
            }
        )

    async def _login(self, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        await self._ask("authenticate", _json(request))
        return v2.LoginAuthResponse()

    async def _logout(self, _: v2.LogoutAuthRequest) -> v2.LogoutAuthResponse:
        await self._ask("logout", {})
        return v2.LogoutAuthResponse()

    async def _new(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        said = await self._ask("session/new", _opening(request))
        self._note_open(said["sessionId"])
        return v2.NewSessionResponse.model_validate(opened(said))

    async def _list(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        keeps_any = self._requests["session/list"] is not None
        said = await self._ask("session/list", _json(request)) if keeps_any else {"sessions": []}
        return v2.ListSessionsResponse.model_validate(said)

    async def _resume(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """With its history if the agent keeps one, and it is wanted."""
        history = request.replay_from is not None
        if history and not isinstance(request.replay_from, v2.StartReplayFrom):
            raise RpcError(INVALID_PARAMS, "replayFrom: history is told from the start only")
        methods = ["session/load", "session/resume"]
        ways = methods if history else methods[::-1]
        way = next((each for each in ways if self._requests[each] is not None), None)
        said: Json = {}
        if way is None:
            self._session(request.session_id)
        else:
            session = self._any_session(request.session_id)
            session.muted = not history
            try:
                said = await self._ask(way, _opening(request))
            finally:
                session.muted = False
            self._note_open(request.session_id)
        self._any_session(request.session_id).tell_state()
        return v2.ResumeSessionResponse.model_validate(opened(said))

    async def _close(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        session = self._session(request.session_id)
        self._cancelled(v2.CancelSessionNotification(session_id=request.session_id))
        await session.rest()
        if self._requests["session/close"] is not None:
            await self._ask("session/close", _json(request))
        self._forget(request.session_id)
        return v2.CloseSessionResponse()

    async def _delete(self, request: v2.DeleteSessionRequest) -> v2.DeleteSessionResponse:
        await self._ask("session/delete", _json(request))
        self._forget(request.session_id)
        return v2.DeleteSessionResponse()

    async def _set_option(
        self, request: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        params = _json(request)
        if params.get("type") == "id":
            del params["type"]
        said = await self._ask("session/set_config_option", params)
        return v2.SetSessionConfigOptionResponse.model_validate(opened(said))

    async def _prompt(self, request: v2.PromptRequest) -> v2.PromptResponse:
        session = self._session(request.session_id)
        run = self._requests["session/prompt"]
        assert run is not None, "an agent answers prompts"
        prompt = _request("session/prompt", _json(request))
        return v2.PromptResponse(
            message_id=await session.insert(_json(request)["prompt"], lambda: run(prompt))
        )

    def _cancelled(self, notification: v2.CancelSessionNotification) -> None:
        session = self._open_session(notification.session_id)
        if session is not None:
            session.withdraw_held()
        self._cancel(v1.CancelNotification(session_id=notification.session_id))

    async def _ask(self, method: str, params: Json) -> Json:
        """Call a handler of version 1 and return its answer."""
        handler = self._requests[method]
        assert handler is not None
        answer = await handler(_request(method, params))
        return {} if answer is None else _json(answer)

    def _any_session(self, session_id: str) -> SessionInV2:
        if session_id not in self._sessions:
            self._sessions[session_id] = SessionInV2(self._side, self._spawn, session_id)
        return self._sessions[session_id]

    def _open_session(self, session_id: str) -> SessionInV2 | None:
        return self._sessions.get(session_id) if session_id in self._open else None

    def _note_open(self, session_id: str) -> None:
        self._any_session(session_id)
        self._open.add(session_id)

    def _forget(self, session_id: str) -> None:
        self._open.discard(session_id)
        self._sessions.pop(session_id, None)

    def _session(self, session_id: str) -> SessionInV2:
        session = self._open_session(session_id)
        if session is None:
            raise RpcError(RESOURCE_NOT_FOUND, f"there is no session {session_id!r}")
        return session


def _opening(request: v2.NewSessionRequest | v2.ResumeSessionRequest) -> Json:
    params = _json(request)
    params.pop("replayFrom", None)
    return {**params, "mcpServers": [*map(mcp_server, params.get("mcpServers") or ())]}


def _request(method: str, params: Json) -> Any:
    """Params as version 1 has them. Raises RpcError -32602 for what it does not."""
    model = AGENT_REQUESTS[method].params
    assert model is not None
    try:
        return MODELS_OF_V1.decode(model, params, method)
    except InvalidPayload as error:
        raise RpcError(INVALID_PARAMS, f"invalid params: {error}") from error


def _json(model: Any) -> Json:
    made = plain(model)
    assert isinstance(made, dict)
    return made


class SessionInV2:
    def __init__(self, side: AgentSide, spawn: Spawn, session_id: str) -> None:
        self.updates: Updates = Updates()
        self._side = side
        self._spawn = spawn
        self._id = session_id
        self._turn = asyncio.Lock()
        self._works = False
        self._questions = 0
        self.muted: bool = False
        """Whether the agent tells of the past, and the client does not want to hear it."""
        self._held: list[anyio.CancelScope] = []
        self._running: anyio.CancelScope | None = None

    async def insert(self, content: list[Json], run: Callable[[], Awaitable[Any]]) -> str:
        """Give a prompt its place behind the others, and run it. Raises RpcError -32800 if
        cancelled before."""
        held = anyio.CancelScope()
        self._held.append(held)
        try:
            with held:
                await self._turn.acquire()
        finally:
            self._held.remove(held)
        if held.cancelled_caught:
            raise RpcError(REQUEST_CANCELLED, "the prompt was cancelled before it had its place")
        message_id = secrets.token_hex(8)
        self._works = True
        self._tell({"sessionUpdate": "user_message", "messageId": message_id, "content": content})
        self.tell_state()
        self._spawn(lambda: self._run(run))
        return message_id

    async def _run(self, run: Callable[[], Awaitable[Any]]) -> None:
        end: Json = {"stopReason": "cancelled"}
        try:
            with anyio.CancelScope() as self._running:
                end = {"stopReason": (await run()).stop_reason}
        except RpcError as error:
            end = _failed(error.code, error.message, error.data)
        except Exception:
            logger.exception("the answer to a prompt failed")
            end = _failed(INTERNAL_ERROR, "the agent failed", None)
        finally:
            self._works = False
            self._turn.release()
        self.updates.ended()
        self._tell({"sessionUpdate": "state_update", "state": "idle", **end})

    async def rest(self) -> None:
        """Wait until nothing runs."""
        async with self._turn:
            pass

    def withdraw_held(self) -> None:
        """Cancel the prompts that wait for their place."""
        for scope in self._held:
            scope.cancel()

    def leave(self) -> None:
        """Cancel all prompts: the client is gone."""
        self.withdraw_held()
        if self._running is not None:
            self._running.cancel()

    # What is told.

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Tell the state while a person is asked."""
        self._questions += 1
        if self._questions == 1:
            self.tell_state()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self.tell_state()

    def tell_v1(self, update: Json) -> None:
        """Send an update of version 1 as one of version 2."""
        made = self.updates.translated(update)
        if made is None:
            logger.debug("version 2 has no %s; it was left out", update["sessionUpdate"])
        elif not self.muted:
            self._tell(made)

    def tell_state(self) -> None:
        busy = "requires_action" if self._questions else "running"
        self._tell({"sessionUpdate": "state_update", "state": busy if self._works else "idle"})

    def _tell(self, update: Json) -> None:
        try:
            made: v2.SessionUpdate = MODELS.decode("SessionUpdate", update, "an update")
        except InvalidPayload:
            logger.exception("an update that version 2 cannot carry was left out")
            return
        told = v2.UpdateSessionNotification(session_id=self._id, update=made)
        self._side.v2.session_update(told)


def _failed(code: int, message: str, data: object) -> Json:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"stopReason": "error", "error": error}
