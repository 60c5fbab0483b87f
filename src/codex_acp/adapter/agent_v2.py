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
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from codex_acp.acp._generated.v2.methods import MODELS
from codex_acp.acp.served_request import served_answer
from codex_acp.acp.v2_handlers import AgentHandlers
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.sessions.opener import Setup
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.encode import encode_json
from codex_acp.jsonrpc.message import INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from codex_acp.mapping.session.setup import simple_thread_params
from codex_acp.mapping.v2 import handshake
from codex_acp.mapping.v2.offers import command, option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.acp._generated.v2.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.conventions import ExtensionHandler, QuickHandler
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.prompts.quick_prompts import BeginPrompt
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays
    from codex_acp.mapping.events.content import Block, TextBlock
    from codex_acp.wire.model import WireModel

COMMANDS_SECONDS: Final = 0.1
"""How much longer an answer may take for the list of commands; what comes later is an update."""


class AgentMethods(Protocol):
    """What is asked in v1's words: of a `CodexAgent`, or over the network of a client's connection
    to one.
    """

    @property
    def archive(self) -> _Archive:
        """The archive of its sessions."""

    @property
    def spawn(self) -> Spawn:
        """Starts a task that may outlive a request."""

    def introduce(self, params: dict[str, JsonValue], version: int) -> LoginWays:
        """See `CodexAgent`, also for the others."""

    async def new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse: ...
    async def load_session(self, request: v1.LoadSessionRequest) -> object: ...
    async def resume_session(self, request: v1.ResumeSessionRequest) -> object: ...
    async def fork_session(self, request: v1.ForkSessionRequest) -> v1.ForkSessionResponse: ...
    async def list_sessions(self, request: v1.ListSessionsRequest) -> object: ...
    async def close_session(self, request: v1.CloseSessionRequest) -> object: ...
    async def delete_session(self, request: v1.DeleteSessionRequest) -> object: ...
    async def set_title(self, request: v1.SetSessionTitleRequest) -> object: ...
    async def set_config_option(self, request: v1.SetSessionConfigOptionRequest) -> object: ...
    def cancel(self, notification: v1.CancelNotification) -> None: ...


class _Archive(Protocol):
    """See `SessionArchive`."""

    async def archive(self, request: v1.ArchiveSessionRequest) -> object: ...
    async def unarchive(self, request: v1.UnarchiveSessionRequest) -> object: ...
    async def status(self, request: v1.SessionStatusRequest) -> object: ...


class AgentInV2:
    """The methods of ``agent`` as v2 has them; ``agent_of`` gives the one that an open session is
    on, or raises RpcError. ``whole`` is the agent of a client that has one for itself: it is asked
    for logins and providers, too, and a simple ``session/new`` is answered before models load.
    """

    def __init__(
        self,
        agent: AgentMethods,
        agent_of: Callable[[str], CodexAgent],
        whole: CodexAgent | None = None,
    ) -> None:
        self._agent = agent
        self._agent_of = agent_of
        self._whole = whole
        self._unbegun: dict[str, list[CancelScope]] = {}
        """Prompts by session that came in one read with what follows them."""

    def handlers(self, extensions: Mapping[str, ExtensionHandler]) -> AgentHandlers:
        """What the connection is given."""
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
        agent, whole = self._agent, self._whole
        rows: AgentRequestHandlers = {
            "initialize": self.initialize,
            "auth/login": None,
            "auth/logout": None,
            "session/new": self.new_session,
            "session/list": _as_in_v1("ListSessions", lambda: agent.list_sessions),
            "session/delete": _as_in_v1("DeleteSession", lambda: agent.delete_session),
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
            "tool_call/cancel": self.cancel_tool_call,
            "terminal/cancel": self.cancel_terminal,
        }
        if whole is not None:
            log_in, log_out = lambda: whole.logins.authenticate, lambda: whole.logins.logout
            rows["auth/login"] = _as_in_v1("Authenticate", log_in, "LoginAuth")
            rows["auth/logout"] = _as_in_v1("Logout", log_out, "LogoutAuth")
        return rows

    def notifications(self) -> AgentNotificationHandlers:
        """One row a method; None: ignored (``$/cancel_request`` is the connection's own)."""
        return {"session/cancel": self.cancel, "$/cancel_request": None}

    def unstable(self) -> UnstableAgentRequestHandlers:
        """Methods of the unstable schema; advertised where that schema has them."""
        agent, whole = self._agent, self._whole
        rows: UnstableAgentRequestHandlers = {
            "session/fork": self.fork_session,
            "session/set_title": _as_in_v1("SetSessionTitle", lambda: agent.set_title),
            "session/archive": _as_in_v1("ArchiveSession", lambda: agent.archive.archive),
            "session/unarchive": _as_in_v1("UnarchiveSession", lambda: agent.archive.unarchive),
            "session/status": _as_in_v1("SessionStatus", lambda: agent.archive.status),
        }
        if whole is not None:
            rows["auth/status"] = _as_in_v1("AuthStatus", lambda: whole.logins.status)
            rows["providers/list"] = _as_in_v1("ListProviders", lambda: whole.providers.list)
            rows["providers/set"] = _as_in_v1("SetProvider", lambda: whole.providers.set)
            rows["providers/disable"] = _as_in_v1(
                "DisableProvider", lambda: whole.providers.disable
            )
        return rows

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
        thread, whole = simple_thread_params(with_servers), self._whole
        if thread is None or whole is None:
            return None

        async def answer() -> EncodedJson:
            opened = await whole.start(Setup(thread), self._of)
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
        session = self._session(request.session_id)
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
                commands = await self._agent_of(session_id).commands(session_id)
            if commands is not None:
                answer["availableCommands"] = [command(each) for each in commands]
        return answer

    def _options(self, session_id: str) -> dict[str, JsonValue]:
        options = self._agent_of(session_id).config.options(session_id)
        return {"configOptions": [option(each) for each in options]}

    def _session(self, session_id: str) -> Session:
        return self._agent_of(session_id).session(session_id)

    async def close_session(self, request: v2.CloseSessionRequest) -> v2.CloseSessionResponse:
        """See `SessionMethods.close`; one that is not open is as closed as it can be."""
        try:
            await self._agent.close_session(_in_v1("CloseSessionRequest", request))
        except RpcError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
        return cast("v2.CloseSessionResponse", _answer("CloseSessionResponse", {}))

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
            session_id = self._session(session_id).id
            self._unbegun.setdefault(session_id, []).append(scope)
        agent = self._agent_of(session_id)
        run = partial(agent.run_prompt, session_id, blocks, taken, early=early)
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
        if not await self._session(session_id).stop_command(call_id):
            message = f"{where}: {call_id!r} is no command that runs and can be cancelled"
            raise RpcError(INVALID_PARAMS, message)


def _as_in_v1(
    name: str,
    method: Callable[[], Callable[[Any], Awaitable[object]]],
    name_in_v2: str | None = None,
) -> Callable[[Any], Awaitable[Any]]:
    """A method whose request and answer have the same fields in both versions; v1's is asked for
    when it is called: some load what they need.
    """

    async def answer(request: WireModel) -> object:
        answered = await method()(_in_v1(f"{name}Request", request))
        return _answer(f"{name_in_v2 or name}Response", answered)

    return answer


def _in_v1(name: str, request: WireModel | dict[str, Any]) -> Any:
    """The same request as v1's model; the fields of these have the same names in both."""
    from codex_acp.acp._generated.v1.methods import MODELS as MODELS_OF_V1
    from codex_acp.wire.codec import plain

    return MODELS_OF_V1.decode(name, plain(request), "the request")


def _answer(name: str, answer: object) -> object:
    """An answer as v2's model; one of v1 that says the same, too."""
    from codex_acp.wire.codec import plain

    return MODELS.decode(name, plain(answer), "the answer")
