"""The ACP agent's methods for a client that speaks v2.

What they do, `AgentMethods` says of both versions. Here is what v2 adds: the answers that hold
options and commands, the history that a resume replays, a prompt that is answered when it has its
place, and the cancelling of one command. As in `agent_v1`, the first requests do without a model.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.dialects import AgentHandlers
from codex_acp.acp.side import served_answer
from codex_acp.adapter.agent import CommonMethods
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.sessions.opener import Setup
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import (
    INVALID_PARAMS,
    REQUEST_CANCELLED,
    RESOURCE_NOT_FOUND,
    encode_json,
)
from codex_acp.mapping.session_setup import simple_thread_params
from codex_acp.mapping.v2 import handshake
from codex_acp.mapping.v2.handshake import command, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.dialects import ExtensionHandler, QuickHandler
    from codex_acp.adapter.agent import AgentMethods, CodexAgent
    from codex_acp.adapter.dialects.requests import Json
    from codex_acp.adapter.prompts.early_turn import BeginPrompt
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.content import Block, TextBlock

COMMANDS_SECONDS: Final = 0.1
"""How much longer an answer may take for the list of commands; what comes later is an update."""


class AgentInV2(CommonMethods):
    """The methods of ``agent`` as v2 has them; ``agent_of`` gives the one that an open session is
    on, or raises RpcError. See `CommonMethods` for ``whole``.
    """

    def __init__(
        self,
        agent: AgentMethods,
        agent_of: Callable[[str], CodexAgent],
        whole: CodexAgent | None = None,
    ) -> None:
        super().__init__(MODELS, agent, whole)
        self._agent_of = agent_of

    def handlers(self, extensions: Mapping[str, ExtensionHandler]) -> AgentHandlers:
        """Return the handlers of the connection."""
        return AgentHandlers(
            self.requests(),
            self.notifications(),
            self.unstable(),
            quick=None if self._whole is None else self._quick(self._whole),
            extensions=extensions,
        )

    def _quick(self, whole: CodexAgent) -> Mapping[str, QuickHandler]:
        return {
            "initialize": self._quick_initialize,
            "session/new": self._quick_new_session,
            "session/prompt": whole.quick_prompts(self._answer_prompt),
        }

    def requests(self) -> AgentRequestHandlers:
        """One row a method; None: not offered."""
        return {
            "initialize": self.initialize,
            "auth/login": None if self._whole is None else self.log_in,
            "auth/logout": None if self._whole is None else self.log_out,
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
        return {
            "session/cancel": self.cancel,
            "$/cancel_request": None,
        }

    def unstable(self) -> UnstableAgentRequestHandlers:
        """Methods of the unstable schema; advertised where that schema has them."""
        rows = {
            **self._common_unstable(),
            "session/fork": self.fork_session,
            "session/status": self.session_status,
        }
        return cast("UnstableAgentRequestHandlers", rows)

    # The connection.

    async def initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        """Answered at once: a Codex that is missing is reported by what needs it."""
        from codex_acp.wire.codec import plain

        params = cast("dict[str, JsonValue]", plain(request))
        answer = self._answer("Initialize", self._introduced(params))
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
        return handshake.initialize_result(as_in_v1, ways, self._agent.about)

    async def log_in(self, request: v2.LoginAuthRequest) -> v2.LoginAuthResponse:
        """Log in, as `Logins.authenticate` does."""
        await self._own.logins.authenticate(request.method_id, request.meta)
        return cast("v2.LoginAuthResponse", self._answer("LoginAuth"))

    async def log_out(self, request: v2.LogoutAuthRequest) -> v2.LogoutAuthResponse:
        """Log out, as `Logins.log_out` does."""
        del request
        await self._own.logins.log_out()
        return cast("v2.LogoutAuthResponse", self._answer("LogoutAuth"))

    # Sessions.

    async def new_session(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        """Open a new session, as `CodexAgent.new_session` does."""
        answer = self._begun(await self._agent.new_session(request))
        return cast("v2.NewSessionResponse", self._answer("NewSession", answer))

    def _quick_new_session(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        with_servers = {"mcpServers": [], **params} if isinstance(params, dict) else None
        thread, whole = simple_thread_params(with_servers), self._whole
        if thread is None or whole is None:
            return None

        async def answer() -> EncodedJson:
            opened = await whole.start(Setup(thread), self._of)
            return encode_json({key: opened[key] for key in opened if key != "modes"})

        return answer

    async def resume_session(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """Resume a session, as `SessionMethods.load` does and `.resume`; the state is told behind
        the history."""
        from codex_acp.mapping.v2.content import wants_history

        if wants_history(request):
            await self._agent.load_session(request)
        else:
            await self._agent.resume_session(request)
        session = self._session(request.session_id)
        session.tell_state()
        answer = self._answer("ResumeSession", await self._of(session.id))
        return cast("v2.ResumeSessionResponse", answer)

    async def fork_session(self, request: v2.ForkSessionRequest) -> v2.ForkSessionResponse:
        """Fork a session, as `SessionMethods.fork` does."""
        answer = self._begun(await self._agent.fork_session(request))
        return cast("v2.ForkSessionResponse", self._answer("ForkSession", answer))

    def _begun(self, opened: Json) -> Json:
        session_id = str(opened["sessionId"])
        return {"sessionId": session_id, **self._options(session_id)}

    async def _of(self, session_id: str) -> dict[str, JsonValue]:
        """Return what an answer says of an open session: options, and commands if in time."""
        answer = self._options(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMANDS_SECONDS):
                commands = await self._agent_of(session_id).commands(session_id)
            if commands is not None:
                answer["availableCommands"] = [command(each) for each in commands]
        return answer

    def _options(self, session_id: str) -> dict[str, JsonValue]:
        options = self._agent_of(session_id).config.options(session_id)
        return {"configOptions": [option(each) for each in options]}

    async def session_status(self, request: v2.SessionStatusRequest) -> v2.SessionStatusResponse:
        """Tell what a session is doing, as `SessionArchive.status` does."""
        from codex_acp.mapping.session import state_of

        state = await self._agent.archive.status(request.session_id)
        answer: Json = {"status": "saved"}
        if state is not None:
            answer = {"status": "open", "state": state_of(state)}
        return cast("v2.SessionStatusResponse", self._answer("SessionStatus", answer))

    def _session(self, session_id: str) -> Session:
        return self._agent_of(session_id).session(session_id)

    async def close_session(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        """Close a session, as `SessionMethods.close` does; one that is not open is as closed as it
        can be."""
        try:
            await self._agent.close_session(request.session_id)
        except RpcError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
        return cast("v2.CloseSessionResponse", self._answer("CloseSession"))

    async def set_config_option(
        self, request: v2.SetSessionConfigOptionRequest
    ) -> v2.SetSessionConfigOptionResponse:
        """Set an option of a session, as `Config.set_config_option` does."""
        from codex_acp.mapping.v2.content import option_and_value

        options = await self._agent.set_config_option(*option_and_value(request))
        answer = {"configOptions": [option(each) for each in options]}
        response = self._answer("SetSessionConfigOption", answer)
        return cast("v2.SetSessionConfigOptionResponse", response)

    # Prompts.

    async def prompt(self, request: v2.PromptRequest) -> v2.PromptResponse:
        """Answered when Codex has taken the message; what becomes of it, the state tells.

        Raises RpcError as `Session.prompt` until then; -32800 for one that was cancelled before.
        """
        from codex_acp.mapping.v2.content import blocks_of

        blocks = blocks_of(request.prompt)
        answer = {"messageId": await self._message_id(request.session_id, blocks)}
        return cast("v2.PromptResponse", self._answer("Prompt", answer))

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
        if early is None:
            session_id = self._session(session_id).id
        agent = self._agent_of(session_id)
        # One that has begun has its place already, where a cancel finds it.
        scope = agent.preconditions.waits(session_id) if early is None else CancelScope()
        run = partial(agent.run_prompt, session_id, blocks, taken, early=early)

        def begins() -> bool:
            if early is None:
                agent.preconditions.goes_on(session_id, scope)
            return early is not None or not scope.cancel_called

        self._agent.spawn(lambda: self._run(begins, run, inserted, scope))
        try:
            return await inserted
        except asyncio.CancelledError:
            scope.cancel()
            raise

    async def _run(
        self,
        begins: Callable[[], bool],
        run: Callable[[], Awaitable[object]],
        inserted: asyncio.Future[str],
        scope: CancelScope,
    ) -> None:
        failure = RpcError(REQUEST_CANCELLED, "the prompt was cancelled before Codex had taken it")
        begun = begins()
        try:
            with scope:
                if begun:
                    await run()
        except RpcError as error:  # behind its place, the session's state has told it
            failure = error
        finally:
            if not inserted.done():
                inserted.set_exception(failure)

    def cancel(self, notification: v2.CancelSessionNotification) -> None:
        """Cancel what runs in a session, as `CodexAgent.cancel` does."""
        self._agent.cancel(notification.session_id)

    # One command.

    async def cancel_tool_call(
        self, request: v2.CancelToolCallRequest
    ) -> v2.CancelToolCallResponse:
        """End the command of a tool call. Raises RpcError -32602 if it cannot be."""
        await self._stop(request.session_id, request.tool_call_id, "toolCallId")
        return cast("v2.CancelToolCallResponse", self._answer("CancelToolCall"))

    async def cancel_terminal(self, request: v2.CancelTerminalRequest) -> v2.CancelTerminalResponse:
        """End the command in a terminal. Raises RpcError -32602 if it cannot be."""
        await self._stop(request.session_id, request.terminal_id, "terminalId")
        return cast("v2.CancelTerminalResponse", self._answer("CancelTerminal"))

    async def _stop(self, session_id: str, call_id: str, where: str) -> None:
        if not await self._session(session_id).stop_command(call_id):
            message = f"{where}: {call_id!r} is no command that runs and can be cancelled"
            raise RpcError(INVALID_PARAMS, message)
