"""Call an agent of version 2 as one of version 1: what programs are written for.

Owns which call of one version is which of the other, what the agent asks, and which report of an
idle session is the end of which prompt, whose answer says only that it was inserted. Must not know
what a session does with it. Loaded when an agent turns out to be of version 2.
Source: https://agentclientprotocol.com/protocol/v2/prompt-lifecycle
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from codex_acp._last_ones import LastOnes
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v1.models import PromptResponse
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import STABLE_MODELS
from codex_acp.acp.dialects import ClientHandlers
from codex_acp.acp.v2_to_v1 import (
    Updates,
    agent_capabilities,
    as_json,
    auth_method,
    command,
    config_option,
    each,
    elicitation,
    fitting,
    mcp_server,
    permission,
)
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc.message import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    encode_json,
)
from codex_acp.wire.codec import plain
from codex_acp.wire.model import UnknownVariant, WireModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
    )
    from codex_acp.acp._generated.v2.handlers import ClientNotificationHandlers as NotificationsOfV2
    from codex_acp.acp._generated.v2.handlers import ClientRequestHandlers as RequestsOfV2
    from codex_acp.acp.client_side import ClientSide
    from codex_acp.acp.v2_to_v1 import Update


logger = logging.getLogger(__name__)


STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""Those of version 1, in which a program is told why a prompt has ended."""


class Turn:
    """One prompt, from the moment that it is sent. The session may be at work already."""

    def __init__(self, prompt: object = None) -> None:
        self._prompt = prompt
        self._message_id: str | None = None
        self._echoed: set[str] = set()
        self._is_active = False
        self._idle: v2.IdleStateUpdateSessionUpdate | None = None
        self._end: asyncio.Future[v2.IdleStateUpdateSessionUpdate] = (
            asyncio.get_running_loop().create_future()
        )
        self.was_cancelled = False

    def note(self, update: v2.SessionUpdate) -> None:
        """Note an update of the session, in order."""
        if isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            self._echoed.add(update.message_id)
        elif isinstance(
            update,
            v2.RunningStateUpdateSessionUpdate
            | v2.RequiresActionStateUpdateSessionUpdate
            | v2.OtherStateUpdateSessionUpdate,  # whatever that is, it is not idle
        ):
            self._is_active, self._idle = True, None
        elif isinstance(update, v2.IdleStateUpdateSessionUpdate):
            self._idle = update
            self._end_if_idle()

    def echoes(self, update: v2.SessionUpdate) -> bool:
        """Whether this says what the prompt has said, and nothing else."""
        if isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            if self._message_id is not None:
                return update.message_id == self._message_id
            return isinstance(update, v2.UserMessageSessionUpdate) and (
                plain(update.content) == self._prompt
            )
        return False

    def inserted(self, message_id: str) -> None:
        """Note the id under which the agent has taken the prompt."""
        self._message_id = message_id
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End the turn if the session is idle after the prompt, and not still from before it."""
        is_ours = self._message_id in self._echoed or self._is_active
        if self._message_id is None or self._idle is None or not is_ours or self._end.done():
            return
        self._end.set_result(self._idle)

    def fail(self, error: Exception) -> None:
        """End the turn with an error: nothing more will come."""
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # it need not be looked at: the request may have failed itself

    async def end(self) -> PromptResponse:
        """Wait for it. Raises ErrorReply for a turn that failed."""
        idle = await self._end
        reason = idle.stop_reason
        if reason is None:  # the agent does not say
            return PromptResponse(stop_reason="cancelled" if self.was_cancelled else "end_turn")
        if reason == "error":
            error = idle.error
            code = INTERNAL_ERROR if error is None else error.code
            message = "the turn failed" if error is None else error.message
            data = None if error is None else error.data
            raise ErrorReply("session/prompt", code, message, data)
        if reason not in STOP_REASONS:
            raise CodexAcpError(f"the agent stopped for a reason that is not known here: {reason}")
        told = {"stopReason": reason, "usage": idle.usage and plain(idle.usage), "_meta": idle.meta}
        return PromptResponse.model_validate({k: v for k, v in told.items() if v is not None})


MAX_SESSIONS: Final = 1_000
"""Sessions whose updates are remembered: an agent can send updates of any number of sessions."""


class AgentOfVersion2:
    """The calls of version 1; ``give`` takes what the agent tells."""

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
        self._updates: LastOnes[str, Updates] = LastOnes(MAX_SESSIONS)
        self._turns: dict[str, list[Turn]] = {}
        """Session id → the turns of its prompts that have not ended."""

    def handlers(self) -> ClientHandlers:
        """Return the handlers of the agent's methods."""
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

    def introduced(self, response: v2.InitializeResponse) -> v1.InitializeResponse:
        """Return the agent's answer to ``initialize`` as version 1 has it."""
        said = as_json(response)
        return v1.InitializeResponse.model_validate(
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
        """Fail all prompts that run: the agent is gone."""
        for turn in [turn for turns in self._turns.values() for turn in turns]:
            turn.fail(error)

    async def call(self, method: str, params: Any) -> Any:
        """Call a method of version 1. Raises ErrorReply for one that version 2 lacks."""
        agent = self._side.v2
        match method:
            case "authenticate":
                await agent.auth_login(v2.LoginAuthRequest(method_id=params.method_id))
                return v1.AuthenticateResponse()
            case "logout":  # whose params may be absent
                await agent.auth_logout(v2.LogoutAuthRequest())
                return v1.LogoutResponse()
            case "session/new":
                new = v2.NewSessionRequest.model_validate(_where(params))
                return self._new_session(await agent.session_new(new))
            case "session/load":
                self._updates[params.session_id] = Updates()
                resumed = await self._resumed(params, {"replayFrom": {"type": "start"}})
                return v1.LoadSessionResponse.model_validate(resumed)
            case "session/resume":
                return v1.ResumeSessionResponse.model_validate(await self._resumed(params, {}))
            case "session/list":
                given = {} if params is None else as_json(params)
                request = v2.ListSessionsRequest.model_validate(given)
                listed = await agent.session_list(request)
                return v1.ListSessionsResponse.model_validate(as_json(listed))
            case "session/delete":
                await agent.session_delete(v2.DeleteSessionRequest(session_id=params.session_id))
                return v1.DeleteSessionResponse()
            case "session/close":
                self._updates.pop(params.session_id, None)
                await agent.session_close(v2.CloseSessionRequest(session_id=params.session_id))
                return v1.CloseSessionResponse()
            case "session/prompt":
                return await self._prompt(params)
            case "session/set_config_option":
                return await self._set_config_option(params)
        # Version 2 has config options in place of modes.
        raise ErrorReply(method, METHOD_NOT_FOUND, f"version 2 has no {method}")

    async def fork(self, session_id: str, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        """``session/fork``, which the stable schema lacks; it is answered as ``session/new``."""
        params = encode_json({**_where(request), "sessionId": session_id})
        result = await self._side.connection.call("session/fork", params)
        return self._new_session(
            STABLE_MODELS.decode("NewSessionResponse", result, "the result of session/fork")
        )

    def _new_session(self, response: v2.NewSessionResponse) -> v1.NewSessionResponse:
        """Return the answer of version 1; its commands are an update there."""
        said = as_json(response)
        self._tell_commands(response.session_id, said)
        return v1.NewSessionResponse.model_validate(_opened(said))

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

    async def _set_config_option(
        self, request: v1.SetSessionConfigOptionRequest
    ) -> v1.SetSessionConfigOptionResponse:
        """Set an option; in version 2 each value says of which type it is."""
        params = {"type": "id", **as_json(request)}
        made: v2.SetSessionConfigOptionRequest = (
            v2.BooleanSetSessionConfigOptionRequest.model_validate(params)
            if params["type"] == "boolean"
            else v2.IdSetSessionConfigOptionRequest.model_validate(params)
        )
        response = await self._side.v2.session_set_config_option(made)
        options = each(config_option, as_json(response)["configOptions"])
        return v1.SetSessionConfigOptionResponse.model_validate({"configOptions": options})

    async def _prompt(self, request: v1.PromptRequest) -> v1.PromptResponse:
        """Send a prompt and wait for its turn's end. Raises ErrorReply for a failed turn."""
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
                return v1.PromptResponse(stop_reason="cancelled")  # before the agent had taken it
            raise
        finally:
            turns.remove(turn)
            if not turns and self._turns.get(request.session_id) is turns:
                del self._turns[request.session_id]

    def session_cancel(self, notification: v1.CancelNotification) -> None:
        """Cancel the turns of a session."""
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
                turn.note(update)
        for each_update in () if is_echo else self._of(session_id).translated(update):
            self._give(session_id, each_update)

    def _of(self, session_id: str) -> Updates:
        return self._updates.setdefault(session_id, Updates())

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
        said = as_json(await ask(asked))
        if said.get("action") == "accept":
            return v2.AcceptCreateElicitationResponse.model_validate(said)
        if said.get("action") == "decline":
            return v2.DeclineCreateElicitationResponse()
        return v2.CancelCreateElicitationResponse()

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
