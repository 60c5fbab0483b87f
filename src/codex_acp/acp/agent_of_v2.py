"""An agent of version 2, called as one of version 1: what the runtime and clients are written for.

Owns which call of one version is which of the other, and what the agent asks. Must not know what a
session does with it. Loaded when an agent turns out to be of version 2.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp._generated.v1.models import (
    AuthenticateResponse,
    CloseSessionResponse,
    DeleteSessionResponse,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    LogoutResponse,
    NewSessionResponse,
    PromptResponse,
    ResumeSessionResponse,
    SetSessionConfigOptionResponse,
)
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp.as_v1.questions import elicitation, permission
from codex_acp.acp.as_v1.updates import Updates
from codex_acp.acp.as_v1.values import (
    agent_capabilities,
    as_json,
    auth_method,
    command,
    config_option,
    each,
    fitting,
    mcp_server,
)
from codex_acp.acp.turn_of_v2 import Turn
from codex_acp.acp.v2_handlers import ClientHandlers
from codex_acp.errors import ErrorReply
from codex_acp.jsonrpc.message import METHOD_NOT_FOUND, REQUEST_CANCELLED
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import (
        ClientNotificationHandlers as NotificationsOfV2,
    )
    from codex_acp.acp._generated.v2.handlers import ClientRequestHandlers as RequestsOfV2
    from codex_acp.acp.as_v1.updates import Update
    from codex_acp.acp.client_side import ClientSide
    from codex_acp.wire.model import WireModel

logger = logging.getLogger(__name__)

MAX_SESSIONS: Final = 1_000
"""Whose updates are remembered: an agent can tell of any number that nobody has opened."""


class AgentOfVersion2:
    """The calls of version 1 that the runtime makes; ``give`` takes what the agent tells."""

    def __init__(
        self,
        side: ClientSide,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        give: Callable[[str, Update], None],
    ) -> None:
        self._side = side
        self._requests = requests
        self._notifications = notifications
        self._give = give
        self._updates: dict[str, Updates] = {}
        self._turns: dict[str, list[Turn]] = {}
        """Of the prompts that have not ended, by session."""

    def handlers(self) -> ClientHandlers:
        """What the agent may ask and tell."""
        has_forms = self._requests["elicitation/create"] is not None
        requests: RequestsOfV2 = {
            "session/request_permission": self._permission,
            "elicitation/create": self._elicit if has_forms else None,
        }
        notifications: NotificationsOfV2 = {
            "session/update": self._take,
            "elicitation/complete": self._url_done,
            "$/cancel_request": None,
        }
        return ClientHandlers(requests, notifications)

    def introduced(self, response: v2.InitializeResponse) -> InitializeResponse:
        """What the agent said of itself, without what its version names otherwise."""
        said = as_json(response)
        return InitializeResponse.model_validate(
            {
                "protocolVersion": response.protocol_version,
                "agentInfo": said["info"],
                "agentCapabilities": agent_capabilities(
                    said.get("capabilities") or {}, has_logins=bool(said.get("authMethods"))
                ),
                "authMethods": each(auth_method, said.get("authMethods")),
            }
        )

    def ended(self, error: Exception) -> None:
        """The agent is gone: so is what runs."""
        for turn in [turn for turns in self._turns.values() for turn in turns]:
            turn.fail(error)

    async def drain(self) -> None:
        """See `Side.drain`."""
        await self._side.drain()

    async def call(self, method: str, params: Any) -> Any:
        """A request of version 1 by its name. Raises ErrorReply for one that has no like."""
        calls: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "authenticate": self.authenticate,
            "logout": self.logout,
            "session/new": self.session_new,
            "session/load": self.session_load,
            "session/resume": self.session_resume,
            "session/list": self.session_list,
            "session/delete": self.session_delete,
            "session/close": self.session_close,
            "session/set_config_option": self.session_set_config_option,
            "session/set_mode": self.session_set_mode,
            "session/prompt": self.session_prompt,
        }
        if method not in calls:
            raise _lacking(method)
        return await calls[method](params)

    # The calls.

    async def authenticate(self, request: v1.AuthenticateRequest) -> AuthenticateResponse:
        """``auth/login``."""
        await self._side.v2.auth_login(v2.LoginAuthRequest(method_id=request.method_id))
        return AuthenticateResponse()

    async def logout(self, request: v1.LogoutRequest) -> LogoutResponse:
        """``auth/logout``."""
        del request
        await self._side.v2.auth_logout(v2.LogoutAuthRequest())
        return LogoutResponse()

    async def session_new(self, request: v1.NewSessionRequest) -> NewSessionResponse:
        """``session/new``; the commands of its answer are an update, as in version 1."""
        response = await self._side.v2.session_new(
            v2.NewSessionRequest.model_validate(_where(request))
        )
        said = as_json(response)
        self._tell_commands(response.session_id, said)
        return NewSessionResponse.model_validate(_opened(said))

    async def session_load(self, request: v1.LoadSessionRequest) -> LoadSessionResponse:
        """``session/resume`` with all of the history."""
        self._updates[request.session_id] = Updates()
        replay = {"replayFrom": {"type": "start"}}
        return LoadSessionResponse.model_validate(await self._resumed(request, replay))

    async def session_resume(self, request: v1.ResumeSessionRequest) -> ResumeSessionResponse:
        """``session/resume`` without its history."""
        return ResumeSessionResponse.model_validate(await self._resumed(request, {}))

    async def _resumed(
        self, request: v1.LoadSessionRequest | v1.ResumeSessionRequest, replay: dict[str, Any]
    ) -> dict[str, Any]:
        params = {"sessionId": request.session_id, **_where(request), **replay}
        response = await self._side.v2.session_resume(
            v2.ResumeSessionRequest.model_validate(params)
        )
        said = as_json(response)
        self._tell_commands(request.session_id, said)
        return _opened(said)

    async def session_list(self, request: v1.ListSessionsRequest) -> ListSessionsResponse:
        """``session/list``."""
        response = await self._side.v2.session_list(
            v2.ListSessionsRequest.model_validate(as_json(request))
        )
        return ListSessionsResponse.model_validate(as_json(response))

    async def session_delete(self, request: v1.DeleteSessionRequest) -> DeleteSessionResponse:
        """``session/delete``."""
        await self._side.v2.session_delete(v2.DeleteSessionRequest(session_id=request.session_id))
        return DeleteSessionResponse()

    async def session_close(self, request: v1.CloseSessionRequest) -> CloseSessionResponse:
        """``session/close``, which ends what runs."""
        self._updates.pop(request.session_id, None)
        await self._side.v2.session_close(v2.CloseSessionRequest(session_id=request.session_id))
        return CloseSessionResponse()

    async def session_set_config_option(
        self, request: v1.SetSessionConfigOptionRequest
    ) -> SetSessionConfigOptionResponse:
        """``session/set_config_option``; each value says of which type it is."""
        params = {"type": "id", **as_json(request)}
        made: v2.SetSessionConfigOptionRequest = (
            v2.BooleanSetSessionConfigOptionRequest.model_validate(params)
            if params["type"] == "boolean"
            else v2.IdSetSessionConfigOptionRequest.model_validate(params)
        )
        response = await self._side.v2.session_set_config_option(made)
        options = each(config_option, as_json(response)["configOptions"])
        return SetSessionConfigOptionResponse.model_validate({"configOptions": options})

    async def session_set_mode(
        self, request: v1.SetSessionModeRequest
    ) -> v1.SetSessionModeResponse:
        """Version 2 has no modes but the config options."""
        del request
        raise _lacking("session/set_mode")

    async def session_prompt(self, request: v1.PromptRequest) -> PromptResponse:
        """``session/prompt``, and all that comes of it. Raises ErrorReply for a failed turn."""
        turn = Turn(as_json(request)["prompt"])
        turns = self._turns.setdefault(request.session_id, [])
        turns.append(turn)
        try:
            accepted = await self._side.v2.session_prompt(
                v2.PromptRequest.model_validate(as_json(request))
            )
            turn.inserted(accepted.message_id)
            return await turn.end()
        except ErrorReply as error:
            if error.code == REQUEST_CANCELLED and turn.was_cancelled:
                return PromptResponse(stop_reason="cancelled")  # before the agent had taken it
            raise
        finally:
            turns.remove(turn)
            if not turns and self._turns.get(request.session_id) is turns:
                del self._turns[request.session_id]

    def session_cancel(self, notification: v1.CancelNotification) -> None:
        """``session/cancel``."""
        for turn in self._turns.get(notification.session_id, ()):
            turn.was_cancelled = True
        self._side.v2.session_cancel(
            v2.CancelSessionNotification(session_id=notification.session_id)
        )

    # What the agent tells and asks.

    def _take(self, notification: v2.UpdateSessionNotification) -> None:
        session_id, update = notification.session_id, notification.update
        is_echo = False
        if not isinstance(update, UnknownVariant):
            for turn in tuple(self._turns.get(session_id, ())):
                # Version 1 does not repeat what the client has just said.
                is_echo = turn.echoes(update) or is_echo
                turn.take(update)
        for each_update in () if is_echo else self._of(session_id).translated(update):
            self._give(session_id, each_update)

    def _of(self, session_id: str) -> Updates:
        found = self._updates.setdefault(session_id, Updates())
        if len(self._updates) > MAX_SESSIONS:
            del self._updates[next(iter(self._updates))]
        return found

    async def _permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        ask = self._requests["session/request_permission"]
        assert ask is not None
        calls = self._of(request.session_id).calls
        response = await ask(permission(request, calls))
        return v2.RequestPermissionResponse.model_validate(as_json(response))

    async def _elicit(self, request: v2.CreateElicitationRequest) -> v2.CreateElicitationResponse:
        ask = self._requests["elicitation/create"]
        asked = elicitation(request)
        if ask is None or asked is None:
            logger.warning("the agent asked in a way that version 1 lacks; declined")
            return v2.DeclineCreateElicitationResponse()
        answer: v2.CreateElicitationResponse = _answer(as_json(await ask(asked)))
        return answer

    def _url_done(self, notification: v2.CompleteElicitationNotification) -> None:
        told = self._notifications["elicitation/complete"]
        made = fitting("CompleteElicitationNotification", as_json(notification))
        if told is not None and made is not None:
            told(made)

    def _tell_commands(self, session_id: str, said: dict[str, Any]) -> None:
        """Behind the answer that has them, as version 1 has it: then the session is open."""
        commands = each(command, said.get("availableCommands"))
        update = fitting(
            "SessionUpdate",
            {"sessionUpdate": "available_commands_update", "availableCommands": commands},
        )
        if "availableCommands" in said:
            asyncio.get_running_loop().call_soon(self._give, session_id, update)


def _lacking(method: str) -> ErrorReply:
    return ErrorReply(method, METHOD_NOT_FOUND, f"version 2 has no {method}")


def _where(request: WireModel) -> dict[str, Any]:
    """Directory, further ones and MCP servers of a session that is opened."""
    said = as_json(request)
    made = {k: v for k, v in said.items() if k in ("cwd", "additionalDirectories")}
    servers = [mcp_server(server) for server in said.get("mcpServers") or ()]
    return {**made, "mcpServers": servers} if servers else made


def _opened(said: dict[str, Any]) -> dict[str, Any]:
    """The answer to an opening; its commands are told by themselves."""
    made = {key: value for key, value in said.items() if key != "availableCommands"}
    if "configOptions" in said:
        made["configOptions"] = each(config_option, said["configOptions"])
    return made


def _answer(said: dict[str, Any]) -> v2.CreateElicitationResponse:
    if said.get("action") == "accept":
        return v2.AcceptCreateElicitationResponse.model_validate(said)
    if said.get("action") == "decline":
        return v2.DeclineCreateElicitationResponse()
    return v2.CancelCreateElicitationResponse()
