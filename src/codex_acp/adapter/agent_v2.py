"""The ACP agent's methods for a client that speaks v2.

A request that v1 has, too, is done as v1's: `mapping.v2.requests` says what it means there. Here
is what v2 adds: the answers that hold options and commands, the history that a resume replays, a
prompt that is answered when it has its place, and the cancelling of one command. As in `agent`, the
first ``initialize`` and ``session/new`` are answered, and the first prompt is begun, without a
model, so those load when needed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.served_request import served_answer
from codex_acp.acp.v2_handlers import AgentHandlers
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.providers_v2 import ProvidersInV2
from codex_acp.adapter.sessions.opener import Setup
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.encode import encode_json
from codex_acp.jsonrpc.message import INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from codex_acp.mapping.session.setup import simple_thread_params
from codex_acp.mapping.v2 import handshake
from codex_acp.mapping.v2.offers import command, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.conventions import ExtensionHandler, QuickHandler
    from codex_acp.adapter.agent_methods import AgentMethods
    from codex_acp.adapter.prompts.quick_prompts import AnswerPrompt, BeginPrompt
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.events.content import Block, TextBlock
    from codex_acp.wire.model import WireModel

    _Json = dict[str, JsonValue]

__all__ = ["AgentInV2"]

COMMANDS_SECONDS: Final = 0.1
"""How much longer an answer may take for the list of commands; what comes later is an update."""


Start: TypeAlias = (
    "Callable[[Setup, Callable[[str], Awaitable[_Json]]], Coroutine[object, object, _Json]]"
)
"""Opens a session; the answer, with what the second argument has to say of it."""


class AgentInV2:
    """The methods of ``agent`` as v2 has them. ``start`` is `CodexAgent.start`, where it has that:
    then a simple ``session/new`` is answered before the models are loaded.
    """

    def __init__(self, agent: AgentMethods, start: Start | None = None) -> None:
        self._agent = agent
        self._providers = ProvidersInV2(agent)
        self._begin = start
        self._unbegun: dict[str, list[CancelScope]] = {}
        """Prompts by session that came in one read with what follows them."""

    def handlers(
        self,
        extensions: Mapping[str, ExtensionHandler],
        prompts: Callable[[AnswerPrompt], QuickHandler],
    ) -> AgentHandlers:
        """What the connection is given; ``prompts`` is `CodexAgent.quick_prompts`."""
        return AgentHandlers(
            self.requests(),
            self.notifications(),
            self.unstable(),
            quick={
                "initialize": self._quick_initialize,
                "session/new": self._quick_new_session,
                "session/prompt": prompts(self._answer_prompt),
            },
            extensions=extensions,
        )

    def requests(self) -> AgentRequestHandlers:
        """One row a method; None: not offered."""
        return {
            "initialize": self.initialize,
            "auth/login": self.login,
            "auth/logout": self.logout,
            "session/new": self.new_session,
            "session/list": self.list_sessions,
            "session/delete": self.delete_session,
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
            "tool_call/cancel": self.cancel_tool_call,
            "terminal/cancel": self.cancel_terminal,
        }

    def notifications(self) -> AgentNotificationHandlers:
        """One row a method; None: ignored (``$/cancel_request`` is the connection's own)."""
        return {"session/cancel": self.cancel, "$/cancel_request": None}

    def unstable(self) -> UnstableAgentRequestHandlers:
        """Methods of the unstable schema; advertised where that schema has them."""
        return {
            "session/fork": self.fork_session,
            "session/set_title": self.set_title,
            "session/archive": self.archive_session,
            "session/unarchive": self.unarchive_session,
            "session/status": self.session_status,
            "auth/status": self.auth_status,
            "providers/list": self._providers.list,
            "providers/set": self._providers.set,
            "providers/disable": self._providers.disable,
        }

    # The connection.

    async def initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        """See `CodexAgent.initialize`."""
        from codex_acp.wire.codec import plain

        params = cast("dict[str, JsonValue]", plain(request))
        answer = MODELS.decode("InitializeResponse", self._introduced(params), "the answer")
        return cast("v2.InitializeResponse", answer)

    def _quick_initialize(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        if not isinstance(params, dict) or not handshake.is_simple(params):
            return None

        async def answer() -> EncodedJson:
            return encode_json(self._introduced(params))

        return answer

    def _introduced(self, params: dict[str, JsonValue]) -> dict[str, JsonValue]:
        as_in_v1 = handshake.introduction(params)
        ways = self._agent.introduce(as_in_v1, handshake.VERSION)
        return handshake.initialize_result(as_in_v1, ways)

    async def login(self, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        """See `Authentication.authenticate`."""
        await self._agent.logins.authenticate(_in_v1("AuthenticateRequest", request))
        return cast("v2.LoginAuthResponse", _answer("LoginAuthResponse", {}))

    async def logout(self, request: v2.LogoutAuthRequest) -> v2.LogoutAuthResponse:
        """See `Authentication.logout`."""
        await self._agent.logins.logout(_in_v1("LogoutRequest", request))
        return cast("v2.LogoutAuthResponse", _answer("LogoutAuthResponse", {}))

    async def auth_status(self, request: v2.AuthStatusRequest) -> v2.AuthStatusResponse:
        """See `Logins.status`."""
        status = await self._agent.logins.status(_in_v1("AuthStatusRequest", request))
        return cast("v2.AuthStatusResponse", _answer("AuthStatusResponse", status))

    # Sessions.

    async def new_session(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        """See `CodexAgent.new_session`."""
        from codex_acp.mapping.v2 import requests

        params = requests.opening_params(request)
        opened = await self._agent.new_session(_in_v1("NewSessionRequest", params))
        answer = {"sessionId": opened.session_id, **self._options(opened.session_id)}
        return cast("v2.NewSessionResponse", _answer("NewSessionResponse", answer))

    def _quick_new_session(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        with_servers = {"mcpServers": [], **params} if isinstance(params, dict) else None
        thread, begin = simple_thread_params(with_servers), self._begin
        if thread is None or begin is None:
            return None

        async def answer() -> EncodedJson:
            opened = await begin(Setup(thread), self._of)
            return encode_json({key: opened[key] for key in opened if key != "modes"})

        return answer

    async def resume_session(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """See `SessionMethods.load` and `.resume`; the state is told behind the history."""
        from codex_acp.mapping.v2 import requests

        params = requests.opening_params(request)
        if requests.wants_history(request):
            await self._agent.load_session(_in_v1("LoadSessionRequest", params))
        else:
            await self._agent.resume_session(_in_v1("ResumeSessionRequest", params))
        session = self._agent.session(request.session_id)
        session.activity.again()
        answer = await self._of(session.id)
        return cast("v2.ResumeSessionResponse", _answer("ResumeSessionResponse", answer))

    async def fork_session(self, request: v2.ForkSessionRequest) -> v2.ForkSessionResponse:
        """See `SessionMethods.fork`."""
        from codex_acp.mapping.v2 import requests

        params = requests.opening_params(request)
        opened = await self._agent.fork_session(_in_v1("ForkSessionRequest", params))
        answer = {"sessionId": opened.session_id, **self._options(opened.session_id)}
        return cast("v2.ForkSessionResponse", _answer("ForkSessionResponse", answer))

    async def _of(self, session_id: str) -> dict[str, JsonValue]:
        """What the answer says of an open session: its options, and its commands if in time."""
        answer = self._options(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMANDS_SECONDS):
                commands = await self._agent.commands(session_id)
            if commands is not None:
                answer["availableCommands"] = [command(each) for each in commands]
        return answer

    def _options(self, session_id: str) -> dict[str, JsonValue]:
        return {"configOptions": [option(each) for each in self._agent.config.options(session_id)]}

    async def list_sessions(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        """See `SessionMethods.list`."""
        found = await self._agent.list_sessions(_in_v1("ListSessionsRequest", request))
        return cast("v2.ListSessionsResponse", _answer("ListSessionsResponse", found))

    async def close_session(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        """See `SessionMethods.close`; one that is not open is as closed as it can be."""
        try:
            await self._agent.close_session(_in_v1("CloseSessionRequest", request))
        except RpcError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
        return cast("v2.CloseSessionResponse", _answer("CloseSessionResponse", {}))

    async def delete_session(self, request: v2.DeleteSessionRequest) -> v2.DeleteSessionResponse:
        """See `SessionMethods.delete`."""
        await self._agent.delete_session(_in_v1("DeleteSessionRequest", request))
        return cast("v2.DeleteSessionResponse", _answer("DeleteSessionResponse", {}))

    async def set_title(self, request: v2.SetSessionTitleRequest) -> v2.SetSessionTitleResponse:
        """See `SessionMethods.set_title`."""
        named = await self._agent.set_title(_in_v1("SetSessionTitleRequest", request))
        return cast("v2.SetSessionTitleResponse", _answer("SetSessionTitleResponse", named))

    async def archive_session(self, request: v2.ArchiveSessionRequest) -> v2.ArchiveSessionResponse:
        """See `SessionArchive.archive`."""
        await self._agent.archive.archive(_in_v1("ArchiveSessionRequest", request))
        return cast("v2.ArchiveSessionResponse", _answer("ArchiveSessionResponse", {}))

    async def unarchive_session(
        self, request: v2.UnarchiveSessionRequest
    ) -> v2.UnarchiveSessionResponse:
        """See `SessionArchive.unarchive`."""
        await self._agent.archive.unarchive(_in_v1("UnarchiveSessionRequest", request))
        return cast("v2.UnarchiveSessionResponse", _answer("UnarchiveSessionResponse", {}))

    async def session_status(self, request: v2.SessionStatusRequest) -> v2.SessionStatusResponse:
        """See `SessionArchive.status`."""
        status = await self._agent.archive.status(_in_v1("SessionStatusRequest", request))
        return cast("v2.SessionStatusResponse", _answer("SessionStatusResponse", status))

    async def set_config_option(
        self, request: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        """See `Config.set_config_option`."""
        from codex_acp.mapping.v2 import requests

        params = requests.option_params(request)
        await self._agent.set_config_option(_in_v1("SetSessionConfigOptionRequest", params))
        answer = _answer("SetSessionConfigOptionResponse", self._options(params["sessionId"]))
        return cast("v2.SetSessionConfigOptionResponse", answer)

    # Prompts.

    async def prompt(self, request: v2.PromptRequest) -> v2.PromptResponse:
        """Answered when Codex has taken the message; what becomes of it, the state tells.

        Raises RpcError as `Session.prompt` until then; -32800 for one that was cancelled before.
        """
        from codex_acp.mapping.v2 import requests

        blocks = requests.blocks_of(request.prompt)
        answer = {"messageId": await self._message_id(request.session_id, blocks)}
        return cast("v2.PromptResponse", _answer("PromptResponse", answer))

    async def _answer_prompt(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginPrompt
    ) -> EncodedJson:
        return encode_json({"messageId": await self._message_id(session_id, message, begin)})

    async def _message_id(
        self, session_id: str, blocks: Sequence[Block], begin: BeginPrompt | None = None
    ) -> str:
        answer = served_answer()
        inserted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def taken(message_id: str) -> None:
            if not inserted.done():
                inserted.set_result(message_id)
                answer(encode_json({"messageId": message_id}))  # before what comes of it

        early = None if begin is None else await begin(taken)
        scope = CancelScope()
        if early is None:  # else it has its place already, where a cancel finds it
            session_id = self._agent.session(session_id).id
            self._unbegun.setdefault(session_id, []).append(scope)
        run = partial(self._agent.run_prompt, session_id, blocks, taken, early=early)
        begun = early is not None
        self._agent.spawn(lambda: self._run(session_id, run, inserted, scope, begun=begun))
        try:
            return await inserted
        except asyncio.CancelledError:
            scope.cancel()
            raise

    async def _run(
        self,
        session_id: str,
        run: Callable[[], Awaitable[object]],
        inserted: asyncio.Future[str],
        scope: CancelScope,
        *,
        begun: bool,
    ) -> None:
        failure = RpcError(REQUEST_CANCELLED, "the prompt was cancelled before Codex had taken it")
        if scope in (unbegun := self._unbegun.get(session_id, [])):
            unbegun.remove(scope)
        try:
            with scope:
                if begun or not scope.cancel_called:
                    await run()
        except RpcError as error:  # behind its place, the session's state has told it
            failure = error
        finally:
            if not inserted.done():
                inserted.set_exception(failure)

    def cancel(self, notification: v2.CancelSessionNotification) -> None:
        """See `CodexAgent.cancel`."""
        for scope in self._unbegun.pop(notification.session_id, ()):
            scope.cancel()
        # The one field is the same: nothing of v1 is loaded for what may come in any turn.
        self._agent.cancel(cast("v1.CancelNotification", notification))

    # One command.

    async def cancel_tool_call(
        self, request: v2.CancelToolCallRequest
    ) -> v2.CancelToolCallResponse:
        """End the command of a tool call. Raises RpcError -32602 if it cannot be."""
        await self._stop(request.session_id, request.tool_call_id, "toolCallId")
        return cast("v2.CancelToolCallResponse", _answer("CancelToolCallResponse", {}))

    async def cancel_terminal(self, request: v2.CancelTerminalRequest) -> v2.CancelTerminalResponse:
        """End the command in a terminal. Raises RpcError -32602 if it cannot be."""
        await self._stop(request.session_id, request.terminal_id, "terminalId")
        return cast("v2.CancelTerminalResponse", _answer("CancelTerminalResponse", {}))

    async def _stop(self, session_id: str, call_id: str, where: str) -> None:
        if not await self._agent.session(session_id).stop_command(call_id):
            message = f"{where}: {call_id!r} is no command that runs and can be cancelled"
            raise RpcError(INVALID_PARAMS, message)


def _in_v1(name: str, request: WireModel | dict[str, Any]) -> Any:
    """The same request as v1's model; the fields of these have the same names in both."""
    from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
    from codex_acp.wire.codec import plain

    return MODELS_OF_V1.decode(name, plain(request), "the request")


def _answer(name: str, answer: object) -> object:
    """An answer as v2's model; one of v1 that says the same, too."""
    from codex_acp.wire.codec import plain

    return MODELS.decode(name, plain(answer), "the answer")
