"""The ACP agent's methods and answers for a client of v2.

`agent.AgentMethods` carries them out. v2 adds options and commands to answers, replays the history
with a resume, answers a prompt when Codex has taken it, and cancels single commands. As in
`agent_v1`, the first requests are answered before generated models are loaded.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.dialects import AgentHandlers
from codex_acp.acp.side import served_answer
from codex_acp.adapter.agent import CommonMethods
from codex_acp.adapter.sessions.opener import Setup
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, encode_json
from codex_acp.mapping.session_setup import simple_thread_params
from codex_acp.mapping.v2 import handshake
from codex_acp.mapping.v2.handshake import command_json, config_option_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp._generated.v2.handlers import AgentRequestHandlers
    from codex_acp.acp.dialects import ExtensionHandler, QuickAnswer
    from codex_acp.adapter.prompts.early_turn import BeginEarly
    from codex_acp.adapter.session_client import Json
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.jsonrpc import EncodedJson, JsonValue
    from codex_acp.mapping.content import Block, TextBlock

COMMANDS_SECONDS: Final = 0.1
"""Seconds that an answer waits for the list of commands; a later list follows as an update."""


class AgentInV2(CommonMethods):
    """The methods of `agent.AgentMethods` in version 2."""

    _models = MODELS
    _fits_schema = staticmethod(handshake.fits_schema)

    def handlers(self, extensions: Mapping[str, ExtensionHandler]) -> AgentHandlers:
        tables = (self.requests(), self.notifications(), self.unstable())
        return AgentHandlers(*tables, quick=self.quick(), extensions=extensions)

    def requests(self) -> AgentRequestHandlers:
        """Return a handler for each method; None: not offered."""
        agent, row = self._agent, self._row
        return {
            "initialize": self.initialize,
            "auth/login": self.login_handler("LoginAuth"),
            "auth/logout": self.logout_handler("LogoutAuth"),
            "session/new": self.new_session,
            "session/list": row("ListSessions", agent.list_sessions),
            "session/delete": row("DeleteSession", lambda r: agent.delete_session(r.session_id)),
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
            "tool_call/cancel": row(
                "CancelToolCall",
                lambda r: self._stop_command(r.session_id, r.tool_call_id, "toolCallId"),
            ),
            "terminal/cancel": row(
                "CancelTerminal",
                lambda r: self._stop_command(r.session_id, r.terminal_id, "terminalId"),
            ),
        }

    # The connection.

    def _introduce(self, params: Json) -> Json:
        as_in_v1 = handshake.params_in_v1(params)
        login_ways = self._agent.introduce(as_in_v1, handshake.VERSION)
        return handshake.initialize_result(as_in_v1, login_ways, self._agent.capability_meta)

    # Sessions.

    def _answer_to_opening(self, answer: Json) -> Json:
        session_id = str(answer["sessionId"])
        return {"sessionId": session_id, **self._options(session_id)}

    def _quick_new_session(self, params: JsonValue) -> QuickAnswer | None:
        with_servers = {"mcpServers": [], **params} if isinstance(params, dict) else None
        thread = simple_thread_params(with_servers)
        if thread is None:
            return None

        async def answer() -> EncodedJson:
            opened = await self._quick_agent.start(Setup(thread), self._options_and_commands)
            return encode_json({key: opened[key] for key in opened if key != "modes"})

        return answer

    async def resume_session(self, request: v2.ResumeSessionRequest) -> Any:
        """Resume a session, with the history if the request wants it; then send the state."""
        from codex_acp.mapping.v2.updates import wants_history

        reopen = self._agent.load_session if wants_history(request) else self._agent.resume_session
        opened = await reopen(request)
        session = self._session(request.session_id)
        session.send_state()
        answer = await self._options_and_commands(session.id)
        if "_meta" in opened:  # over the network: the session's open questions
            answer["_meta"] = opened["_meta"]
        return self._answer("ResumeSession", answer)

    async def _options_and_commands(self, session_id: str) -> Json:
        """Return the options of an open session, and the commands that are read in time."""
        answer = self._options(session_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMANDS_SECONDS):
                commands = await self._agent.agent_of(session_id).commands(session_id)
            if commands is not None:
                answer["availableCommands"] = [command_json(each) for each in commands]
        return answer

    def _options(self, session_id: str) -> Json:
        options = self._agent.agent_of(session_id).config.options(session_id)
        return {"configOptions": [config_option_json(each) for each in options]}

    async def session_status(self, request: v2.SessionStatusRequest) -> Any:
        from codex_acp.mapping.session import state_of

        state = await self._agent.session_state(request.session_id)
        answer: Json = {"status": "saved"}
        if state is not None:
            answer = {"status": "open", "state": state_of(state)}
        return self._answer("SessionStatus", answer)

    def _session(self, session_id: str) -> Session:
        return self._agent.agent_of(session_id).session(session_id)

    async def close_session(self, request: v2.CloseSessionRequest) -> Any:
        """Close a session with `SessionMethods.close`; no effect for a session that is not open."""
        try:
            await self._agent.close_session(request.session_id)
        except RpcError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
        return self._answer("CloseSession")

    async def set_config_option(self, request: v2.SetSessionConfigOptionRequest) -> Any:
        from codex_acp.mapping.v2.updates import option_and_value

        session_id, config_id, value = option_and_value(request)
        agent = self._agent.agent_of(session_id)
        options = await agent.set_config_option(session_id, config_id, value)
        answer = {"configOptions": [config_option_json(each) for each in options]}
        return self._answer("SetSessionConfigOption", answer)

    # Prompts.

    async def prompt(self, request: v2.PromptRequest) -> Any:
        """Run a prompt; answer when Codex has taken its message. A state update shows its end."""
        from codex_acp.mapping.content import blocks_of

        answer = await self._begin_prompt(request.session_id, blocks_of(request.prompt))
        return self._answer("Prompt", answer)

    async def _answer_prompt(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginEarly
    ) -> EncodedJson:
        return encode_json(await self._begin_prompt(session_id, message, begin))

    async def _begin_prompt(
        self, session_id: str, blocks: Sequence[Block], begin: BeginEarly | None = None
    ) -> Json:
        """Begin a prompt; send the answer once Codex has taken the message, and return it."""
        answer = served_answer()
        accepted: asyncio.Future[Json] = asyncio.get_running_loop().create_future()

        def on_accepted(message_id: str) -> None:
            if not accepted.done():
                accepted.set_result({"messageId": message_id})
                answer(encode_json(accepted.result()))  # before the prompt's updates

        early = None if begin is None else await begin(on_accepted)
        if early is None:
            session_id = self._session(session_id).id
        cancelled = "the prompt was cancelled before Codex had taken it"
        return await self._agent.agent_of(session_id).begin_prompt(
            session_id, blocks, accepted, on_accepted, cancelled, early=early
        )

    # One command.

    async def _stop_command(self, session_id: str, call_id: str, where: str) -> None:
        """End one command. Raises RpcError -32602, which names the param ``where``, on failure."""
        if not await self._session(session_id).stop_command(call_id):
            message = f"{where}: {call_id!r} is no command that runs and can be cancelled"
            raise RpcError(INVALID_PARAMS, message)
