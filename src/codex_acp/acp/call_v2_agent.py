"""Call an agent of version 2 of ACP with the calls of version 1, which programs are written for.

Owns the pairs of calls, the agent's questions, and the end of each prompt: an agent of version 2
answers ``session/prompt`` at once, and reports later that the session is idle. Must not know what a
program does with a session. Loaded only for an agent of version 2.
Source: https://agentclientprotocol.com/protocol/v2/prompt-lifecycle
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from codex_acp._json import without_none
from codex_acp._last_ones import LastOnes
from codex_acp.acp import v2_to_v1
from codex_acp.acp._generated.v1 import models as v1
from codex_acp.acp._generated.v2 import models as v2
from codex_acp.acp._generated.v2.methods import STABLE_MODELS
from codex_acp.acp.dialects import ClientHandlers
from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    encode_json,
)
from codex_acp.transport.shielding import awaited
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


logger = logging.getLogger(__name__)

STOP_REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""The stop reasons of version 1."""
MAX_USER_MESSAGES: Final = 16
"""User messages whose ids are kept until the agent answers which of them is the prompt."""


class _PromptTurn:
    """One prompt until its turn ends. At first, an earlier prompt of the session may still run."""

    def __init__(self, prompt: object) -> None:
        self._prompt = prompt
        self._message_id: str | None = None
        """Id that the agent gave the prompt; None until the agent has answered."""
        self._user_messages: LastOnes[str, None] = LastOnes(MAX_USER_MESSAGES)
        """Ids of the user messages that the agent has sent before it answered the prompt."""
        self._has_begun = False
        """Whether the session was active since the prompt, or the agent has repeated the prompt."""
        self._idle: v2.IdleStateUpdateSessionUpdate | None = None
        """The last state of the session, if it is idle."""
        self._end: asyncio.Future[v2.IdleStateUpdateSessionUpdate] = (
            asyncio.get_running_loop().create_future()
        )
        self.was_cancelled = False
        """Whether the program cancelled the session; set by `V2AgentAsV1`."""

    def note(self, update: v2.SessionUpdate) -> None:
        """Note an update of the session. The caller passes all updates, in order."""
        if isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            if self._message_id is None:
                self._user_messages[update.message_id] = None
            elif update.message_id == self._message_id:
                self._has_begun = True
        elif isinstance(
            update,
            v2.RunningStateUpdateSessionUpdate
            | v2.RequiresActionStateUpdateSessionUpdate
            | v2.OtherStateUpdateSessionUpdate,  # an unknown state is not idle
        ):
            self._has_begun, self._idle = True, None
        elif isinstance(update, v2.IdleStateUpdateSessionUpdate):
            self._idle = update
            self._end_if_idle()

    def echoes(self, update: v2.SessionUpdate) -> bool:
        """Return whether the update only repeats the prompt. The message id decides; until the
        agent has answered with the id, the content decides."""
        if not isinstance(update, v2.UserMessageSessionUpdate | v2.UserMessageChunkSessionUpdate):
            return False
        if self._message_id is not None:
            return update.message_id == self._message_id
        is_whole = isinstance(update, v2.UserMessageSessionUpdate)
        return is_whole and plain(update.content) == self._prompt

    def set_message_id(self, message_id: str) -> None:
        """Note the id that the agent gave the prompt in its answer."""
        self._message_id = message_id
        self._has_begun |= message_id in self._user_messages
        self._user_messages.clear()
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End the turn if the session became idle after the agent had begun the prompt."""
        was_accepted = self._has_begun and self._message_id is not None
        if was_accepted and self._idle is not None and not self._end.done():
            self._end.set_result(self._idle)

    def fail(self, error: Exception) -> None:
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # else asyncio logs the error if nobody awaits `end`

    async def end(self) -> v1.PromptResponse:
        """Wait for the end of the turn. Raises ErrorReply if the turn failed."""
        idle = await self._end
        reason = idle.stop_reason
        if reason is None:
            return v1.PromptResponse(stop_reason="cancelled" if self.was_cancelled else "end_turn")
        if reason == "error":
            error = idle.error
            if error is None:
                raise ErrorReply("session/prompt", INTERNAL_ERROR, "the turn failed", None)
            raise ErrorReply("session/prompt", error.code, error.message, error.data)
        if reason not in STOP_REASONS:
            raise CodexAcpError(f"the agent stopped for a reason that is not known here: {reason}")
        usage = idle.usage and plain(idle.usage)
        result = {"stopReason": reason, "usage": usage, "_meta": idle.meta}
        return v1.PromptResponse.model_validate(without_none(result))


MAX_SESSIONS: Final = 1_000
"""Sessions whose state is kept: an agent can send updates of any number of sessions."""


class V2AgentAsV1:
    """An agent of version 2, called as an agent of version 1. ``requests`` and ``notifications``
    are the program's handlers of version 1. ``give_update`` is called with the session id and each
    update, converted to version 1."""

    def __init__(
        self,
        side: ClientSide,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        give_update: Callable[[str, v2_to_v1.Update], None],
    ) -> None:
        self._side = side
        self._requests = requests
        self._notifications = notifications
        self._give_update = give_update
        self._updates: LastOnes[str, v2_to_v1.UpdatesToV1] = LastOnes(MAX_SESSIONS)
        """Session id → the converter of its updates."""
        self._turns: dict[str, list[_PromptTurn]] = {}
        """Session id → the turns of its prompts that have not ended."""

    def handlers(self) -> ClientHandlers:
        """Return the handlers of version 2 for the agent's requests and notifications."""
        has_forms = self._requests["elicitation/create"] is not None
        requests: RequestsOfV2 = {
            "session/request_permission": self._ask_permission,
            "elicitation/create": self._elicit if has_forms else None,
        }
        notifications: NotificationsOfV2 = {
            "session/update": self._on_update,
            "elicitation/complete": self._on_elicitation_complete,
            "$/cancel_request": None,
        }
        return ClientHandlers(requests, notifications)

    def initialize_response(self, response: v2.InitializeResponse) -> v1.InitializeResponse:
        """Convert the agent's answer to ``initialize``."""
        answer = plain(response)
        logins, offered = answer.get("authMethods"), answer.get("capabilities") or {}
        result = {
            "protocolVersion": response.protocol_version,
            "agentInfo": answer["info"],
            "agentCapabilities": v2_to_v1.agent_capabilities(offered, has_logins=bool(logins)),
            "authMethods": v2_to_v1.convert_each(v2_to_v1.auth_method, logins),
        }
        return v1.InitializeResponse.model_validate(result)

    def fail_turns(self, error: Exception) -> None:
        """Fail all prompts that run, because the connection has ended."""
        for turns in self._turns.values():
            for turn in turns:
                turn.fail(error)

    async def call(self, method: str, params: Any) -> Any:
        """Call a method of version 1. Raises ErrorReply if version 2 lacks the method."""
        agent = self._side.v2
        match method:
            case "authenticate":
                await agent.auth_login(v2.LoginAuthRequest(method_id=params.method_id))
                return v1.AuthenticateResponse()
            case "logout":
                await agent.auth_logout(v2.LogoutAuthRequest())
                return v1.LogoutResponse()
            case "session/new":
                new = v2.NewSessionRequest.model_validate(_opening_params(params))
                opened = await agent.session_new(new)
                return v1.NewSessionResponse.model_validate(
                    self._opened_session(opened.session_id, opened)
                )
            case "session/load":
                self._updates[params.session_id] = v2_to_v1.UpdatesToV1()
                resumed = await self._resume(params, {"replayFrom": {"type": "start"}})
                return v1.LoadSessionResponse.model_validate(resumed)
            case "session/resume":
                return v1.ResumeSessionResponse.model_validate(await self._resume(params, {}))
            case "session/list":
                page = {} if params is None else plain(params)
                response = await agent.session_list(v2.ListSessionsRequest.model_validate(page))
                return v1.ListSessionsResponse.model_validate(plain(response))
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
        raise ErrorReply(method, METHOD_NOT_FOUND, f"version 2 has no {method}")

    async def fork(self, session_id: str, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        """Send ``session/fork``, which the stable schema lacks; return the new session."""
        params = encode_json({**_opening_params(request), "sessionId": session_id})
        result = await self._side.connection.call("session/fork", params)
        forked = STABLE_MODELS.decode("NewSessionResponse", result, "the result of session/fork")
        return v1.NewSessionResponse.model_validate(self._opened_session(forked.session_id, forked))

    async def _resume(
        self, request: v1.LoadSessionRequest | v1.ResumeSessionRequest, replay: dict[str, Any]
    ) -> dict[str, Any]:
        """Resume a session; return the result of version 1. ``replay`` are params to add."""
        params = {"sessionId": request.session_id, **_opening_params(request), **replay}
        response = await self._side.v2.session_resume(
            v2.ResumeSessionRequest.model_validate(params)
        )
        return self._opened_session(request.session_id, response)

    def _opened_session(self, session_id: str, response: WireModel) -> dict[str, Any]:
        """Convert the answer to a request that opens a session. In version 1, commands are an
        update: the program gets it after the result, which has the session's id."""
        result: dict[str, Any] = plain(response)
        if "availableCommands" in result:
            commands = v2_to_v1.convert_each(v2_to_v1.command, result.pop("availableCommands"))
            update = v2_to_v1.v1_model(
                "SessionUpdate",
                {"sessionUpdate": "available_commands_update", "availableCommands": commands},
            )
            asyncio.get_running_loop().call_soon(self._give_update, session_id, update)
        if "configOptions" in result:
            options = v2_to_v1.convert_each(v2_to_v1.config_option, result["configOptions"])
            result["configOptions"] = options
        return result

    async def _set_config_option(
        self, request: v1.SetSessionConfigOptionRequest
    ) -> v1.SetSessionConfigOptionResponse:
        """Set an option; version 2 requires the type of the value."""
        params = {"type": "id", **plain(request)}
        of_v2 = STABLE_MODELS.decode("SetSessionConfigOptionRequest", params, "a config option")
        response = await self._side.v2.session_set_config_option(of_v2)
        options = v2_to_v1.convert_each(v2_to_v1.config_option, plain(response)["configOptions"])
        return v1.SetSessionConfigOptionResponse.model_validate({"configOptions": options})

    async def _prompt(self, request: v1.PromptRequest) -> v1.PromptResponse:
        """Send a prompt and wait for its turn's end. Raises ErrorReply for a failed turn."""
        params = plain(request)
        turn = _PromptTurn(params["prompt"])
        turns = self._turns.setdefault(request.session_id, [])
        turns.append(turn)
        try:
            accepted = await self._side.v2.session_prompt(v2.PromptRequest.model_validate(params))
            turn.set_message_id(accepted.message_id)
            return await turn.end()
        except ErrorReply as error:
            if error.code == REQUEST_CANCELLED and turn.was_cancelled:
                return v1.PromptResponse(stop_reason="cancelled")  # the prompt was not accepted
            raise
        finally:
            turns.remove(turn)
            if not turns and self._turns.get(request.session_id) is turns:
                del self._turns[request.session_id]

    def session_cancel(self, notification: v1.CancelNotification) -> None:
        for turn in self._turns.get(notification.session_id, ()):
            turn.was_cancelled = True
        self._side.v2.session_cancel(
            v2.CancelSessionNotification(session_id=notification.session_id)
        )

    # Handlers of the agent's notifications and requests.

    def _on_update(self, notification: v2.UpdateSessionNotification) -> None:
        """Give the update to the program, unless it repeats a prompt: version 1 repeats none."""
        session_id, update = notification.session_id, notification.update
        is_echo = False
        if not isinstance(update, UnknownVariant):
            for turn in tuple(self._turns.get(session_id, ())):
                is_echo = turn.echoes(update) or is_echo
                turn.note(update)
        if not is_echo:
            for update_of_v1 in self._updates_of(session_id).convert(update):
                self._give_update(session_id, update_of_v1)

    def _updates_of(self, session_id: str) -> v2_to_v1.UpdatesToV1:
        return self._updates.setdefault(session_id, v2_to_v1.UpdatesToV1())

    async def _ask_permission(
        self, request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        ask = self._requests["session/request_permission"]
        assert ask is not None
        calls = self._updates_of(request.session_id).calls
        response = await awaited(ask(v2_to_v1.permission_request(request, calls)))
        return v2.RequestPermissionResponse.model_validate(plain(response))

    async def _elicit(self, request: v2.CreateElicitationRequest) -> v2.CreateElicitationResponse:
        ask = self._requests["elicitation/create"]
        is_unknown = isinstance(request, UnknownVariant)
        name = "CreateElicitationRequest"
        of_v1 = None if is_unknown else v2_to_v1.v1_model(name, plain(request))
        if ask is None or of_v1 is None:
            logger.warning("the agent asked in a way that version 1 lacks; declined")
            return v2.DeclineCreateElicitationResponse()
        response = plain(await awaited(ask(of_v1)))
        if response.get("action") == "accept":
            return v2.AcceptCreateElicitationResponse.model_validate(response)
        if response.get("action") == "decline":
            return v2.DeclineCreateElicitationResponse()
        return v2.CancelCreateElicitationResponse()

    def _on_elicitation_complete(self, notification: v2.CompleteElicitationNotification) -> None:
        handler = self._notifications["elicitation/complete"]
        of_v1 = v2_to_v1.v1_model("CompleteElicitationNotification", plain(notification))
        if handler is not None and of_v1 is not None:
            handler(of_v1)


def _opening_params(request: WireModel) -> dict[str, Any]:
    """Return the directories and MCP servers of a request that opens a session."""
    params = plain(request)
    directories = {k: v for k, v in params.items() if k in ("cwd", "additionalDirectories")}
    servers = [v2_to_v1.mcp_server(server) for server in params.get("mcpServers") or ()]
    return {**directories, "mcpServers": servers} if servers else directories
