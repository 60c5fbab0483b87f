"""The ACP agent's methods for a client that speaks v2.

What they do, `AgentMethods` says of both versions. Here is what v2 adds: the answers that hold
options and commands, the history that a resume replays, a prompt that is answered when it has its
place, and the cancelling of one command. As in `agent_v1`, the first requests do without a model.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

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
    from codex_acp.acp._generated.v2.handlers import AgentRequestHandlers
    from codex_acp.acp.dialects import ExtensionHandler
    from codex_acp.adapter.agent import AgentMethods, CodexAgent
    from codex_acp.adapter.prompts.early_turn import BeginPrompt
    from codex_acp.adapter.session_client import Json
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.content import Block, TextBlock

COMMANDS_SECONDS: Final = 0.1
"""Seconds that an answer waits for the list of commands; a later list follows as an update."""


class AgentInV2(CommonMethods):
    """The methods of ``agent`` in version 2. ``agent_of`` returns the agent of an open session, or
    raises RpcError. See `CommonMethods` for ``own_agent``.
    """

    def __init__(
        self,
        agent: AgentMethods,
        agent_of: Callable[[str], CodexAgent],
        own_agent: CodexAgent | None = None,
    ) -> None:
        super().__init__(MODELS, agent, own_agent)
        self._agent_of = agent_of

    def handlers(self, extensions: Mapping[str, ExtensionHandler]) -> AgentHandlers:
        """Return the handlers of the connection."""
        quick = None if self._own_agent is None else self.quick()
        rows = (self.requests(), self.notifications(), self.unstable())
        return AgentHandlers(*rows, quick=quick, extensions=extensions)

    def requests(self) -> AgentRequestHandlers:
        """One row a method; None: not offered."""
        agent, row = self._agent, self._row
        return {
            "initialize": self.initialize,
            "auth/login": self.log_in("LoginAuth"),
            "auth/logout": self.log_out("LogoutAuth"),
            "session/new": self.new_session,
            "session/list": row("ListSessions", agent.list_sessions),
            "session/delete": row("DeleteSession", lambda r: agent.delete_session(r.session_id)),
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
            "tool_call/cancel": row(
                "CancelToolCall", lambda r: self._stop(r.session_id, r.tool_call_id, "toolCallId")
            ),
            "terminal/cancel": row(
                "CancelTerminal", lambda r: self._stop(r.session_id, r.terminal_id, "terminalId")
            ),
        }

    # The connection.

    def _is_simple(self, params: JsonValue) -> bool:
        return handshake.is_simple(params)

    def _introduced(self, params: Json) -> Json:
        as_in_v1 = handshake.params_in_v1(params)
        ways = self._agent.introduce(as_in_v1, handshake.VERSION)
        return handshake.initialize_result(as_in_v1, ways, self._agent.about)

    # Sessions.

    def _opened(self, answer: Json) -> Json:
        session_id = str(answer["sessionId"])
        return {"sessionId": session_id, **self._options(session_id)}

    def _quick_new_session(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        with_servers = {"mcpServers": [], **params} if isinstance(params, dict) else None
        thread = simple_thread_params(with_servers)
        if thread is None:
            return None

        async def answer() -> EncodedJson:
            opened = await self._own.start(Setup(thread), self._options_and_commands)
            return encode_json({key: opened[key] for key in opened if key != "modes"})

        return answer

    async def resume_session(self, request: v2.ResumeSessionRequest) -> Any:
        """Resume a session, as `SessionMethods.load` does and `.resume`; the state is told behind
        the history."""
        from codex_acp.mapping.v2.content import wants_history

        if wants_history(request):
            await self._agent.load_session(request)
        else:
            await self._agent.resume_session(request)
        session = self._session(request.session_id)
        session.send_state()
        return self._answer("ResumeSession", await self._options_and_commands(session.id))

    async def _options_and_commands(self, session_id: str) -> Json:
        """Return the options of an open session, and its commands if they are there in time."""
        answer = self._options(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMANDS_SECONDS):
                commands = await self._agent_of(session_id).commands(session_id)
            if commands is not None:
                answer["availableCommands"] = [command(each) for each in commands]
        return answer

    def _options(self, session_id: str) -> Json:
        options = self._agent_of(session_id).config.options(session_id)
        return {"configOptions": [option(each) for each in options]}

    async def session_status(self, request: v2.SessionStatusRequest) -> Any:
        """Tell what a session is doing, as `SessionArchive.status` does."""
        from codex_acp.mapping.session import state_of

        state = await self._agent.archive.status(request.session_id)
        answer: Json = {"status": "saved"}
        if state is not None:
            answer = {"status": "open", "state": state_of(state)}
        return self._answer("SessionStatus", answer)

    def _session(self, session_id: str) -> Session:
        return self._agent_of(session_id).session(session_id)

    async def close_session(self, request: v2.CloseSessionRequest) -> Any:
        """Close a session, as `SessionMethods.close` does; one that is not open is as closed as it
        can be."""
        try:
            await self._agent.close_session(request.session_id)
        except RpcError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
        return self._answer("CloseSession")

    async def set_config_option(self, request: v2.SetSessionConfigOptionRequest) -> Any:
        """Set an option of a session, as `Config.set_config_option` does."""
        from codex_acp.mapping.v2.content import option_and_value

        options = await self._agent.set_config_option(*option_and_value(request))
        answer = {"configOptions": [option(each) for each in options]}
        return self._answer("SetSessionConfigOption", answer)

    # Prompts.

    async def prompt(self, request: v2.PromptRequest) -> Any:
        """Answered when Codex has taken the message; what becomes of it, the state tells.

        Raises RpcError as `Session.prompt` until then; -32800 for one that was cancelled before.
        """
        from codex_acp.mapping.v2.content import blocks_of

        blocks = blocks_of(request.prompt)
        answer = {"messageId": await self._message_id(request.session_id, blocks)}
        return self._answer("Prompt", answer)

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
        scope = agent.preconditions.start_waiting(session_id) if early is None else CancelScope()
        run = partial(agent.run_prompt, session_id, blocks, taken, early=early)

        def begins() -> bool:
            if early is None:
                agent.preconditions.stop_waiting(session_id, scope)
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

    # One command.

    async def _stop(self, session_id: str, call_id: str, where: str) -> None:
        """End one command. Raises RpcError -32602 if it cannot be."""
        if not await self._session(session_id).stop_command(call_id):
            message = f"{where}: {call_id!r} is no command that runs and can be cancelled"
            raise RpcError(INVALID_PARAMS, message)
