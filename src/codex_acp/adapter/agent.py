"""The ACP agent's methods: which are offered, and what each does.

The first ``initialize`` and ``session/new`` are answered without a model: what reads models and all
that a prompt needs are loaded behind the answer, see `AfterOpening`.
"""

from __future__ import annotations

import logging
import os
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from codex_acp.acp._generated.v1.methods import MODELS as ACP_MODELS
from codex_acp.adapter.client import Client
from codex_acp.adapter.config.config import Config
from codex_acp.adapter.logins.ways import login_ways
from codex_acp.adapter.prompts.quick_prompts import QuickPrompts, at_its_end
from codex_acp.adapter.sessions.after_opening import LOAD_AFTER_SECONDS, AfterOpening
from codex_acp.adapter.sessions.opener import SessionOpener, Setup
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.prompt_preconditions import PromptPreconditions
from codex_acp.adapter.sessions.session_transcript import SessionTranscript
from codex_acp.adapter.sessions.sessions import Sessions
from codex_acp.adapter.side_tasks import guarded
from codex_acp.jsonrpc.encode import encode_json
from codex_acp.mapping.agent.handshake import codex_client_info, initialize_result, is_simple
from codex_acp.mapping.session.ids import canonical_id
from codex_acp.mapping.session.setup import simple_thread_params
from codex_acp.transcript.log import Transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.acp._generated.v1 import handlers
    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.acp.side import QuickHandler
    from codex_acp.adapter.audience import Audience
    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.logins.logins import Logins
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.prompts.host import PromptDone
    from codex_acp.adapter.providers import Providers
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.sessions.archive import SessionArchive
    from codex_acp.adapter.sessions.methods import SessionMethods
    from codex_acp.adapter.sessions.opener import OpeningResult
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.sessions.session_services import SessionServices
    from codex_acp.adapter.sessions.sessions import OpenSession
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.agent.auth_methods import LoginWays
    from codex_acp.mapping.events.content import Block
    from codex_acp.mapping.events.session_events import Command

logger = logging.getLogger(__name__)


class CodexAgent:
    """The agent of one ACP connection. ``spawn`` starts a task that may outlive its request.

    ``when_loaded`` is called once, when all that a prompt needs has been imported, which ``ahead``
    begins when ``initialize`` is answered; without it, it waits for a session.
    """

    def __init__(
        self,
        app_server: AppServer,
        spawn: Spawn,
        transcript: Transcript | None = None,
        when_loaded: Callable[[], None] | None = None,
        ahead: LoadAhead | None = None,
    ) -> None:
        self._app_server = app_server
        self.spawn = spawn = guarded(spawn)
        self._ahead = ahead
        transcript = transcript or Transcript()
        self.client = Client(spawn)
        self._sessions = Sessions(spawn, self.client, transcript)
        self._transcript = SessionTranscript(transcript, lambda: self._sessions.generation)
        self.config = Config(spawn, self._sessions.send, self._sessions.features)
        self._opener = SessionOpener(app_server, self._sessions, self.config)
        self.preconditions = PromptPreconditions(self._sessions, self._opener)
        self._services: SessionServices | None = None
        self._login_ways = login_ways(os.environ, app_server.options.codex)
        login = None if app_server.defaults is None else app_server.defaults.login
        if login is not None:
            self._opener.login.log_in = lambda: self.logins.by_default(login)
        self._sessions.when_known(self._known)
        app_server.when_started(self._sessions.codex_started)
        app_server.when_refused(self._sessions.refused)
        self.quick_prompts = partial(QuickPrompts, ahead, self._sessions)
        self._after = AfterOpening(self._answered, when_loaded, ahead)

    @property
    def parts(self) -> tuple[Sessions, Config]:
        """For those who show a session to one client behind the other."""
        return self._sessions, self.config

    def requests(self) -> handlers.AgentRequestHandlers:
        """One row a method; None: not offered."""
        return {
            "initialize": self.initialize,
            "authenticate": lambda request: self.logins.authenticate(request),  # noqa: PLW0108 - loads it
            "logout": lambda request: self.logins.logout(request),  # noqa: PLW0108 - loads it
            "session/new": self.new_session,
            "session/load": self.load_session,
            "session/list": self.list_sessions,
            "session/delete": self.delete_session,
            "session/resume": self.resume_session,
            "session/close": self.close_session,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_config_option,
            "session/prompt": self.prompt,
        }

    def notifications(self) -> handlers.AgentNotificationHandlers:
        """One row a method; None: ignored (``$/cancel_request`` is the connection's own)."""
        return {"session/cancel": self.cancel, "$/cancel_request": None}

    def unstable(self) -> handlers.UnstableAgentRequestHandlers:
        """Methods of the unstable schema; advertised where that schema has them."""
        return {
            "session/fork": self.fork_session,
            "session/set_title": self.set_title,
            "session/archive": lambda request: self.archive.archive(request),  # noqa: PLW0108 - loads it
            "session/unarchive": lambda request: self.archive.unarchive(request),  # noqa: PLW0108 - loads it
            "session/status": lambda request: self.archive.status(request),  # noqa: PLW0108 - loads it
            "auth/status": lambda request: self.logins.status(request),  # noqa: PLW0108 - loads it
            "providers/list": lambda request: self.providers.list(request),  # noqa: PLW0108 - loads it
            "providers/set": lambda request: self.providers.set(request),  # noqa: PLW0108 - loads it
            "providers/disable": lambda request: self.providers.disable(request),  # noqa: PLW0108 - loads it
        }

    def quick(self) -> Mapping[str, QuickHandler]:
        """The same answers for simple requests, before any model is loaded; see `Side`."""
        return {
            "initialize": self._quick_initialize,
            "session/new": self._quick_new_session,
            "session/prompt": self.quick_prompts(at_its_end(self.run_prompt)),
        }

    def join(self, side: AgentSide) -> None:
        """Give the agent the connection on which it serves."""
        self.client.join(side)

    # The methods.

    async def initialize(
        self, request: v1.InitializeRequest, client: Client | None = None
    ) -> v1.InitializeResponse:
        """Answered at once: a Codex that is missing is reported by what needs it.

        ``client`` is who has sent it, if that is not the one of all sessions.
        """
        from codex_acp.wire.codec import plain

        params = cast("dict[str, JsonValue]", plain(request))
        result = initialize_result(params, self.introduce(params, client=client))
        answer = ACP_MODELS.decode("InitializeResponse", result, "the answer to initialize")
        return cast("v1.InitializeResponse", answer)

    def _quick_initialize(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        if not isinstance(params, dict) or not is_simple(params):
            return None

        async def answer() -> EncodedJson:
            return encode_json(initialize_result(params, self.introduce(params)))

        return answer

    def introduce(
        self, params: dict[str, JsonValue], version: int = 1, client: Client | None = None
    ) -> LoginWays:
        """The client has said who it is, in v1's words; how it may log in."""
        (client or self.client).introduced(params, version)
        self._app_server.introduce(codex_client_info(params))
        if self._ahead is not None:
            self._ahead.version = version
            self._ahead.start_within(LOAD_AFTER_SECONDS)
        self.spawn(self._app_server.warm_up)
        return self._login_ways

    @cached_property
    def logins(self) -> Logins:
        """The logins of its Codex; loaded when they are asked for."""
        from codex_acp.adapter.logins.logins import Logins

        check = self._opener.login
        return Logins(self._app_server, self.client, check, self.spawn, self.providers)

    @cached_property
    def providers(self) -> Providers:
        """Where the model is asked; loaded when that is asked for."""
        from codex_acp.adapter.providers import Providers

        return Providers(self._opener, self._sessions)

    # Sessions.

    async def new_session(
        self, request: v1.NewSessionRequest, audience: Audience | None = None
    ) -> v1.NewSessionResponse:
        """``session/new``; ``audience`` is for a session that has one of its own.

        Raises RpcError: -32602, -32000, -32603.
        """
        answer = await self.start(await self.methods.setup(request, audience))
        return cast("v1.NewSessionResponse", ACP_MODELS.decode("NewSessionResponse", answer, "it"))

    def _quick_new_session(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        thread = simple_thread_params(params)
        if thread is None:
            return None

        async def answer() -> EncodedJson:
            return encode_json(await self.start(Setup(thread)))

        return answer

    async def start(
        self, setup: Setup, more: Callable[[str], Awaitable[dict[str, JsonValue]]] | None = None
    ) -> dict[str, JsonValue]:
        """A new session; the answer as plain JSON, with what ``more`` has to say of it."""
        opened = await self._opener.start(setup)
        also = {} if more is None else await more(opened.session_id)
        self._opened(opened)
        return {"sessionId": opened.session_id, **opened.answer, **also}

    async def load_session(
        self, request: v1.LoadSessionRequest, audience: Audience | None = None
    ) -> v1.LoadSessionResponse:
        """See `SessionMethods.load`."""
        opened = await self.methods.load(request, audience)
        return cast("v1.LoadSessionResponse", self._answer("LoadSessionResponse", opened))

    async def resume_session(
        self, request: v1.ResumeSessionRequest, audience: Audience | None = None
    ) -> v1.ResumeSessionResponse:
        """See `SessionMethods.resume`."""
        opened = await self.methods.resume(request, audience)
        return cast("v1.ResumeSessionResponse", self._answer("ResumeSessionResponse", opened))

    async def fork_session(
        self, request: v1.ForkSessionRequest, audience: Audience | None = None
    ) -> v1.ForkSessionResponse:
        """See `SessionMethods.fork`."""
        opened = await self.methods.fork(request, audience)
        answer = self._answer("ForkSessionResponse", opened, sessionId=opened.session_id)
        return cast("v1.ForkSessionResponse", answer)

    async def list_sessions(self, request: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        """See `SessionMethods.list`."""
        return await self.methods.list(request)

    async def close_session(self, request: v1.CloseSessionRequest) -> v1.CloseSessionResponse:
        """See `SessionMethods.close`."""
        self.preconditions.cancel(request.session_id)
        response = await self.methods.close(request)
        self._closed(request.session_id, "closed by the client")
        return response

    async def delete_session(self, request: v1.DeleteSessionRequest) -> v1.DeleteSessionResponse:
        """See `SessionMethods.delete`."""
        request.session_id = canonical_id(request.session_id)  # else an open one lived on
        self.preconditions.cancel(request.session_id)
        was_open = request.session_id in self._sessions
        response = await self.methods.delete(request)
        if was_open:
            self._closed(request.session_id, "deleted by the client")
        return response

    @cached_property
    def archive(self) -> SessionArchive:
        """The archive of its sessions; loaded when it is asked for."""
        from codex_acp.adapter.sessions.archive import SessionArchive

        ending, closed = self.preconditions.cancel, self._closed
        return SessionArchive(self._sessions, self._opener, self.methods, ending, closed)

    async def set_title(self, request: v1.SetSessionTitleRequest) -> v1.SetSessionTitleResponse:
        """See `SessionMethods.set_title`."""
        return await self.methods.set_title(request)

    async def set_mode(self, request: v1.SetSessionModeRequest) -> v1.SetSessionModeResponse:
        """See `Config.set_mode`."""
        await self.preconditions.live(self.session(request.session_id).id)
        return await self.config.set_mode(request)

    async def set_config_option(
        self, request: v1.SetSessionConfigOptionRequest
    ) -> v1.SetSessionConfigOptionResponse:
        """See `Config.set_config_option`."""
        await self.preconditions.live(self.session(request.session_id).id)
        return await self.config.set_config_option(request)

    async def commands(self, session_id: str) -> Sequence[Command] | None:
        """The slash commands of an session, told by an answer; None: they follow, once loaded."""
        services = None if self._ahead is not None and self._ahead.loading else self._services
        return None if services is None else await services.told_commands(session_id)

    @cached_property
    def methods(self) -> SessionMethods:
        """Those that are about sessions; loaded with the first of them."""
        from codex_acp.adapter.sessions.methods import SessionMethods

        return SessionMethods(self._sessions, self._opener, self.config)

    # Behind the answer.

    def _answer(self, name: str, opened: OpeningResult, **also: JsonValue) -> object:
        """The answer to the request that has opened a session, as its model."""
        self._opened(opened)
        return ACP_MODELS.decode(name, {**also, **opened.answer}, "the session")

    def _opened(self, opened: OpeningResult) -> None:
        """A session is open; what else there is to do, waits until that is answered."""
        self._transcript.opened(opened)
        self._after.add(opened)

    def leave(self) -> None:
        """The client is gone: nothing is begun for it any more."""
        self._after.leave()

    def _answered(self, opened: OpeningResult) -> None:
        """What a session tells at once behind the answer that opened it, whichever way it did."""
        session = self._sessions.known(opened.session_id)
        if session is None:
            return
        for line in opened.said:
            session.say(line)
        if self._services is not None:
            self._services.answered(session.id)

    def _known(self, session: Session, opened: OpenSession) -> None:
        if self._ahead is not None:
            self._ahead.needed()
        if self._services is None:
            from codex_acp.adapter.sessions.session_services import SessionServices

            log_out = lambda: self.logins.log_out()  # noqa: E731, PLW0108 - loads it
            self._services = SessionServices(self._sessions, self.config, self.spawn, log_out)
        self._services.known(session, opened)

    # Prompts.

    async def prompt(self, request: v1.PromptRequest) -> v1.PromptResponse:
        """See `Session.prompt`; -32002 for a session that is not open here."""
        from codex_acp.mapping.v1.content import blocks_of
        from codex_acp.mapping.v1.prompts import prompt_response

        done = await self.run_prompt(request.session_id, blocks_of(request.prompt))
        return prompt_response(*done)

    async def run_prompt(
        self,
        session_id: str,
        blocks: Sequence[Block],
        when_inserted: Callable[[str], None] | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> PromptDone:
        """See `Session.prompt`; -32002 for a session that is not open here."""
        session_id = self.session(session_id).id
        running = self.preconditions.run(
            session_id,
            lambda: self.session(session_id).prompt(
                blocks, when_inserted, joins=joins, early=early
            ),
            begun=early is not None,
        )
        return await self._transcript.prompt(session_id, running)

    def cancel(self, notification: v1.CancelNotification) -> None:
        """See `Session.cancel`; one for an unknown session is only logged."""
        session_id = notification.session_id
        if self._sessions.cancel_sub_agent(session_id):
            return
        if (session := self._sessions.known(session_id)) is None:
            logger.warning("session/cancel names the unknown session %s", session_id)
        else:
            self.preconditions.cancel(session.id)
            session.cancel()

    def session(self, session_id: str) -> Session:
        """An open session. Raises RpcError: -32002; -32602 for a sub-agent's."""
        self._sessions.not_below(session_id)
        session = self._sessions.known(session_id)
        if session is None:
            raise unknown_session(session_id)
        return session

    def _closed(self, session_id: str, reason: str) -> None:
        if self._services is not None:
            self._services.closed(session_id)
        self._transcript.closed(session_id, reason)
