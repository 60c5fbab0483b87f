"""Carry out the methods of the ACP agent, independent of the version of ACP.

`CodexAgent` reads a request by its fields, which have the same names in both versions, and answers
with plain JSON. `CommonMethods` decodes the answer to the model of the connection's version;
`AgentInV1` and `AgentInV2` decide which methods are offered.

The first ``initialize`` and ``session/new`` are answered before generated models are loaded. While
Codex opens the session, `LoadAhead` loads the modules of a prompt.
"""

from __future__ import annotations

import asyncio
import logging
import os
from abc import abstractmethod
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from codex_acp._json import text_at
from codex_acp.adapter.client import Client
from codex_acp.adapter.config_options import Config
from codex_acp.adapter.login_check import login_ways
from codex_acp.adapter.sessions.opener import OpeningResult, SessionOpener, Setup
from codex_acp.adapter.sessions.opening_errors import not_open
from codex_acp.adapter.sessions.sessions import OpenSession, Sessions
from codex_acp.adapter.tasks import CancelScope, guarded
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import REQUEST_CANCELLED, encode_json
from codex_acp.mapping.agent import codex_client_info
from codex_acp.mapping.session_setup import canonical_id
from codex_acp.transcript.log import Transcript

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from codex_acp.acp.dialects import QuickAnswer, QuickHandler
    from codex_acp.adapter.authentication import Logins, Providers
    from codex_acp.adapter.hand_over import HandOver
    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.adapter.prompts.early_turn import BeginEarly, EarlyTurn, OnAccepted
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.session_client import (
        ForkSession,
        Json,
        ListSessions,
        NewSession,
        PromptSender,
        ResumeSession,
        SessionClient,
    )
    from codex_acp.adapter.sessions.methods import SessionMethods
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.sessions.session_services import SessionServices
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.jsonrpc import EncodedJson, JsonValue
    from codex_acp.mapping.agent import LoginWays
    from codex_acp.mapping.content import Block, TextBlock
    from codex_acp.mapping.events import Command, StateChanged
    from codex_acp.mapping.options import Option
    from codex_acp.wire.registry import ModelRegistry


logger = logging.getLogger(__name__)
T = TypeVar("T")

LOAD_AFTER_SECONDS: Final = 0.002
"""Seconds for an answer to be written before the steps that follow it."""

END_SECONDS: Final = 1.0
"""Seconds for Codex to end the turns, before Codex is ended: an interrupt takes milliseconds."""


class CodexAgent:
    """The agent of one ACP connection, or of all connections of a network server.

    ``spawn`` starts a task that may outlive its request. ``ahead`` loads the modules of a prompt.
    ``when_loaded`` is called once: when a session is open, and these modules are loaded."""

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
        self.capability_meta: Json = {}  # only a network server has members to add
        self.ahead = ahead
        self._when_loaded = when_loaded
        self.client: Client = Client(spawn)
        transcript = transcript or Transcript()
        self.sessions: Sessions = Sessions(spawn, self.client, transcript)
        self.config: Config = Config(spawn, self.sessions)
        self.sessions.on_sub_agent = self.config.sub_agent_found
        self.opener: SessionOpener = SessionOpener(
            app_server, self.sessions, self.config, lambda: self._hand_over.peers
        )
        self._client_left = False
        self._client_name = "another window"  # in messages of other processes
        self._services: SessionServices | None = None
        self._login_ways = login_ways(os.environ, app_server.options.codex)
        login = app_server.defaults.login
        if login is not None:
            self.opener.login.log_in = lambda: self.logins.log_in_by_default(login)
        self.sessions.on_session_made = self._add_services
        app_server.new_tap = lambda: transcript.tap("codex")
        app_server.on_started = self.sessions.add_connection
        app_server.on_refused = self.sessions.on_refused

    # AgentMethods

    def introduce(self, params: Json, version: int, client: Client | None = None) -> LoginWays:
        """Note the params of ``initialize``, in the form of v1; return the client's ways to log in.
        ``client`` is the client over the network; None: the one client of this agent."""
        (client or self.client).note_initialize(params, version)
        if client is not None:
            self._client_name = "a network server"
        else:
            name = text_at(params, "clientInfo", "title") or text_at(params, "clientInfo", "name")
            self._client_name = name or self._client_name
        self._app_server.client_info = codex_client_info(params)
        if self.ahead is not None:
            self.ahead.note_version(version)
        self.spawn(self._app_server.warm_up)
        return self._login_ways

    def agent_of(self, session_id: str) -> CodexAgent:
        """Return this agent, which has all sessions of its client."""
        del session_id
        return self

    @cached_property
    def logins(self) -> Logins:
        from codex_acp.adapter.authentication import Logins

        return Logins(self.opener, self.client, self.spawn, self.providers)

    @cached_property
    def providers(self) -> Providers:
        from codex_acp.adapter.authentication import Providers

        return Providers(self.opener, self.sessions)

    @cached_property
    def _hand_over(self) -> HandOver:
        """Return the part that hands sessions to and from other processes; loaded on first use."""
        from codex_acp.adapter.hand_over import HandOver

        client_name = lambda: self._client_name  # noqa: E731 - `introduce` may change it later
        return HandOver(self.sessions, self.opener, client_name)

    # Sessions.

    async def new_session(self, request: NewSession, client: SessionClient | None = None) -> Json:
        """Open a new session (``session/new``) for ``client``; None: for the client of this agent.
        Raises RpcError: -32602, -32000, -32603."""
        return await self.start(await self.methods.setup(request, client))

    async def start(
        self, setup: Setup, more_members: Callable[[str], Awaitable[Json]] | None = None
    ) -> Json:
        """Open a new session; return the answer as plain JSON. ``more_members`` gets the session's
        id and returns members to add to the answer."""
        self._load_ahead()
        opened = await self.opener.start(setup)
        try:
            members = {} if more_members is None else await more_members(opened.session_id)
        except BaseException:  # the request failed or was cancelled: no client knows the session
            await self.opener.drop(opened.session_id)
            raise
        self._note_opened(opened)
        return {"sessionId": opened.session_id, **opened.answer, **members}

    async def load_session(
        self, request: ResumeSession, client: SessionClient | None = None
    ) -> Json:
        """Load a session; send its notices and commands before the answer."""
        opened = await self.methods.reopen(request, "load", client)
        answer = self._note_opened(opened._replace(notices=()))
        self._send_notices(opened)  # before the answer
        if self._services is not None:
            await self._services.send_commands(opened.session_id)
        return answer

    async def resume_session(
        self, request: ResumeSession, client: SessionClient | None = None
    ) -> Json:
        return self._note_opened(await self.methods.reopen(request, "resume", client))

    async def fork_session(self, request: ForkSession, client: SessionClient | None = None) -> Json:
        opened = await self.methods.fork(request, client)
        return {"sessionId": opened.session_id, **self._note_opened(opened)}

    async def list_sessions(self, request: ListSessions) -> Json:
        return await self.methods.list(request)

    async def close_session(self, session_id: str) -> None:
        await self.methods.close(session_id)

    async def delete_session(self, session_id: str) -> None:
        await self.methods.delete(canonical_id(session_id))  # open sessions have canonical ids

    async def archive_session(self, session_id: str) -> None:
        await self.methods.archive(canonical_id(session_id))

    async def unarchive_session(self, session_id: str) -> None:
        await self.methods.unarchive(canonical_id(session_id))

    async def session_state(self, session_id: str) -> StateChanged | None:
        return await self.methods.status(session_id)

    async def set_title(self, session_id: str, title: str) -> Json:
        return await self.methods.set_title(session_id, title)

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        await self.opener.ensure_live(self.session(session_id).id)
        await self.config.set_mode(session_id, mode_id)

    async def set_config_option(
        self, session_id: str, config_id: str, value: str | bool
    ) -> list[Option]:
        await self.opener.ensure_live(self.session(session_id).id)
        return await self.config.set_config_option(session_id, config_id, value)

    async def commands(self, session_id: str) -> Sequence[Command] | None:
        """Return the slash commands of a session for an answer; None: they follow as an update."""
        if self._services is None or (self.ahead is not None and self.ahead.loading):
            return None
        return await self._services.load_commands(session_id)

    @cached_property
    def methods(self) -> SessionMethods:
        """Return the methods about sessions, which are imported with the first such request."""
        from codex_acp.adapter.sessions.methods import SessionMethods

        self._load_ahead()
        return SessionMethods(self.sessions, self.opener, self.config, self.spawn)

    def _load_ahead(self) -> None:
        """Let the modules of a prompt load from the next wait for Codex on."""
        if self.ahead is not None:
            asyncio.get_running_loop().call_soon(self.ahead.start)

    # After the answer.

    def _note_opened(self, opened: OpeningResult) -> Json:
        """Note that a session is open; schedule the steps after the answer; return the answer."""
        self.sessions.transcript.record_opened(opened.session_id, opened.how)
        loop = asyncio.get_running_loop()
        loop.call_later(LOAD_AFTER_SECONDS, self.spawn, self._listen_for_peers)
        after_answer = partial(self._after_answer, opened)
        if self.ahead is None:
            loop.call_later(LOAD_AFTER_SECONDS, after_answer)
        else:
            loop.call_later(LOAD_AFTER_SECONDS, self.ahead.call_when_loaded, after_answer)
        return opened.answer

    async def end_prompts(self) -> None:
        """Cancel all prompts, so that they are answered before this agent ends. After
        `END_SECONDS`, end Codex, which ends the prompts that are left."""
        for session_id in self.sessions:
            self.opener.waiting_prompts.cancel(session_id)
        stops = {asyncio.create_task(session.stop()) for session in self.sessions.used_sessions()}
        if not stops:
            return
        _, pending = await asyncio.wait(stops, timeout=END_SECONDS)
        if pending:
            await self._app_server.aclose()
            for stop in pending:
                stop.cancel()
            await asyncio.wait(pending)

    def note_client_left(self) -> None:
        """Stop the steps after answers and the hand-over."""
        self._client_left = True
        if "_hand_over" in self.__dict__:
            self._hand_over.peers.leave()

    async def store_sessions(self) -> None:
        """Store the open sessions, so that the client can open them again."""
        await asyncio.gather(*map(self.opener.store_unprompted, list(self.sessions)))

    def _after_answer(self, opened: OpeningResult) -> None:
        """Send notices and commands, once the client has the answer and the modules are loaded."""
        if self._client_left:
            return
        self._send_notices(opened)
        if self._services is not None:
            self._services.after_answer(opened.session_id)
        when_loaded, self._when_loaded = self._when_loaded, None
        if when_loaded is not None:
            when_loaded()

    async def _listen_for_peers(self) -> None:
        """Let other processes ask for sessions, unless the client has left."""
        if not self._client_left:
            await self._hand_over.peers.listen(await self.opener.codex())

    def _send_notices(self, opened: OpeningResult) -> None:
        session = self.sessions.find(opened.session_id)
        if session is not None:
            for notice in opened.notices:
                session.say(notice)

    def _add_services(self, session: Session, opened: OpenSession) -> None:
        if self.ahead is not None:
            self.ahead.prompt_ready.set()
        if self._services is None:
            from codex_acp.adapter.sessions.session_services import SessionServices

            log_out = lambda: self.logins.log_out()  # noqa: E731, PLW0108 - loads `logins`
            self._services = SessionServices(
                self.sessions, self.config, self.spawn, self.opener.ensure_live, log_out
            )
        self._services.add(session, opened)

    # Prompts.

    async def run_prompt(
        self,
        session_id: str,
        blocks: Sequence[Block],
        on_accepted: Callable[[str], None] | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
        sender: PromptSender | None = None,
    ) -> PromptResult:
        """Run a prompt with `Session.prompt` when the session is ready, or at once if ``early`` has
        begun the prompt. If Codex ended before it read the prompt, run the prompt once more, on the
        next Codex, because an idle Codex may have died unnoticed. ``sender`` None: the client that
        shows the session now. Raises RpcError -32002 if the session is not open."""
        from codex_acp.adapter.session.driver import PromptResult, PromptUnread
        from codex_acp.adapter.session.machine import CANCELLED

        session_id = self.session(session_id).id

        async def run() -> PromptResult:
            for is_last in (False, True):
                may_wait = early is None or is_last  # an early turn has begun: it waits for nothing
                if may_wait and not await self.opener.wait_ready(session_id):
                    break
                session = self.session(session_id)
                try:
                    return await session.prompt(blocks, on_accepted, joins=joins, early=early)
                except PromptUnread as error:
                    if is_last:
                        raise
                    logger.warning("a prompt is run again, on another Codex: %s", error.message)
            return PromptResult(CANCELLED)

        prompt = self.sessions.transcript.prompt(session_id, run())
        client = self.sessions.client_of(session_id)
        return await client.await_prompt(prompt, sender or client.client)

    async def begin_prompt(
        self,
        session_id: str,
        blocks: Sequence[Block],
        accepted: asyncio.Future[T],
        on_accepted: Callable[[str], None],
        if_cancelled: str,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> T:
        """Run a prompt in a task of its own; return the result of ``accepted``, which
        ``on_accepted`` sets once Codex has taken the message.

        Raises RpcError if Codex has not taken the message: what `run_prompt` raises, or -32800
        with the text ``if_cancelled`` if the prompt was cancelled. Cancelling the request ends the
        prompt, unless the sender has left or shows the session no more."""
        sender = self.sessions.client_of(session_id).client
        # An early prompt is in the session's queue already, where a cancel finds it.
        in_queue = early is not None
        scope = CancelScope() if in_queue else self.opener.waiting_prompts.open(session_id)

        async def run() -> None:
            failure = RpcError(REQUEST_CANCELLED, if_cancelled)
            if not in_queue:
                self.opener.waiting_prompts.close(session_id, scope)
            try:
                with scope:
                    if in_queue or not scope.cancel_called:
                        await self.run_prompt(
                            session_id, blocks, on_accepted, joins=joins, early=early, sender=sender
                        )
            except RpcError as error:  # once Codex has the message, nobody waits for the failure
                failure = error
            finally:
                if not accepted.done():
                    accepted.set_exception(failure)

        self.spawn(run)
        try:
            return await accepted
        except asyncio.CancelledError:  # the client cancelled the request: send no message later
            shown_to = self.sessions.client_of(session_id).client
            if shown_to is not None and shown_to is sender and not shown_to.gone:
                scope.cancel()
            raise

    def cancel(self, session_id: str) -> None:
        """Cancel what runs in a session or in a sub-agent; log the id of an unknown session."""
        if self.sessions.cancel_sub_agent(session_id):
            return
        session = self.sessions.find(session_id)
        if session is None:
            logger.warning("session/cancel names the unknown session %s", session_id)
        else:
            self.opener.waiting_prompts.cancel(session.id)
            session.cancel()

    def session(self, session_id: str) -> Session:
        """Return an open session. Raises RpcError: -32002; -32602 for a sub-agent's session."""
        self.sessions.refuse_sub_agent(session_id)
        session = self.sessions.find(session_id)
        if session is None:
            raise not_open(session_id)
        return session


class AgentMethods(Protocol):
    """The methods of a `CodexAgent`, or of a `NetworkConnection` to one."""

    @property
    def capability_meta(self) -> Json:
        """Members to add to the ``_meta`` of the capabilities, below this package's key."""

    def introduce(self, params: Json, version: int) -> LoginWays:
        """Note the client's ``initialize``; return its ways to log in."""

    def agent_of(self, session_id: str) -> CodexAgent:
        """Return the agent of a session. May raise RpcError if the client has not opened it."""

    async def new_session(self, request: NewSession) -> Json: ...
    async def load_session(self, request: ResumeSession) -> Json: ...
    async def resume_session(self, request: ResumeSession) -> Json: ...
    async def fork_session(self, request: ForkSession) -> Json: ...
    async def list_sessions(self, request: ListSessions) -> Json: ...
    async def close_session(self, session_id: str) -> None: ...
    async def delete_session(self, session_id: str) -> None: ...
    async def set_title(self, session_id: str, title: str) -> Json: ...
    async def archive_session(self, session_id: str) -> None: ...
    async def unarchive_session(self, session_id: str) -> None: ...
    async def session_state(self, session_id: str) -> StateChanged | None: ...
    async def run_prompt(self, session_id: str, blocks: Sequence[Block]) -> PromptResult: ...
    def cancel(self, session_id: str) -> None: ...


class CommonMethods:
    """The methods that are equal in both versions of ACP, for `AgentInV1` and `AgentInV2`.

    If ``agent`` is a `CodexAgent`, this client is the agent's only client. Only then are logins and
    providers offered, and simple requests answered before models load."""

    _models: ModelRegistry
    """The models of the version's answers."""
    _fits_schema: Callable[[JsonValue], bool]
    """Returns whether the params of ``initialize`` can be read without their model."""

    def __init__(self, agent: AgentMethods) -> None:
        self._agent = agent
        self._sole_agent = agent if isinstance(agent, CodexAgent) else None
        """The agent of all sessions of this client; None over the network."""

    def _answer(self, name: str, answer: Mapping[str, object] | None = None) -> Any:
        return self._models.decode(f"{name}Response", answer or {}, "the answer")

    def _row(
        self, name: str, run: Callable[[Any], Awaitable[Json | None]]
    ) -> Callable[[Any], Awaitable[Any]]:
        """Return a handler that awaits ``run``, and answers with the model ``<name>Response``."""

        async def handler(request: Any) -> Any:
            return self._answer(name, await run(request))

        return handler

    def quick(self) -> Mapping[str, QuickHandler] | None:
        """Return handlers that `Side` can call before any model loads; None over the network."""
        if self._sole_agent is None:
            return None
        return {
            "initialize": self._quick_initialize,
            "session/new": self._quick_new_session,
            "session/prompt": self._quick_prompt,
        }

    def notifications(self) -> Any:
        """Return a handler for each notification; None: ignored."""
        agent = self._agent
        return {"session/cancel": lambda n: agent.cancel(n.session_id), "$/cancel_request": None}

    def unstable(self) -> Any:
        agent, sole_agent, row = self._agent, self._sole_agent, self._row
        handlers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "session/set_title": row(
                "SetSessionTitle", lambda r: agent.set_title(r.session_id, r.title)
            ),
            "session/archive": row("ArchiveSession", lambda r: agent.archive_session(r.session_id)),
            "session/unarchive": row(
                "UnarchiveSession", lambda r: agent.unarchive_session(r.session_id)
            ),
            "session/fork": self.fork_session,
            "session/status": self.session_status,
        }
        if sole_agent is not None:
            handlers |= {
                "auth/status": row("AuthStatus", lambda _: sole_agent.logins.status()),
                "providers/list": row("ListProviders", lambda _: sole_agent.providers.list()),
                "providers/set": row(
                    "SetProvider",
                    lambda r: sole_agent.providers.set(r),  # noqa: PLW0108 - loads `providers`
                ),
                "providers/disable": row(
                    "DisableProvider", lambda r: sole_agent.providers.disable(r.provider_id)
                ),
            }
        return handlers

    @property
    def _quick_agent(self) -> CodexAgent:
        assert self._sole_agent is not None, "only handlers of `quick` use it"
        return self._sole_agent

    # In each version.

    @abstractmethod
    def _introduce(self, params: Json) -> Json:
        """Note the client that ``initialize`` introduces; return the answer."""

    @abstractmethod
    def _quick_new_session(self, params: JsonValue) -> QuickAnswer | None:
        """Return the function that answers ``session/new`` without a model, or None."""

    @abstractmethod
    async def _answer_prompt(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginEarly
    ) -> EncodedJson:
        """Run and answer a prompt of text that begins before models are loaded."""

    def _answer_to_opening(self, answer: Json) -> Json:
        """Return this version's answer to ``session/new`` and ``session/fork``."""
        return answer

    # The connection.

    async def initialize(self, request: object) -> Any:
        """Answer ``initialize`` without Codex; a later request reports if Codex is missing."""
        from codex_acp.wire.codec import plain

        return self._answer("Initialize", self._introduce(cast("Json", plain(request))))

    def _quick_initialize(self, params: JsonValue) -> QuickAnswer | None:
        if not isinstance(params, dict) or not self._fits_schema(params):
            return None

        async def answer() -> EncodedJson:
            return encode_json(self._introduce(params))

        return answer

    def _quick_prompt(self, params: JsonValue) -> QuickAnswer | None:
        """Return the function that answers a plain ``session/prompt``, and begins its turn while
        `LoadAhead` loads the modules; None: the typed handler answers the request."""
        sessions, ahead = self._quick_agent.sessions, self._quick_agent.ahead
        if ahead is None or not ahead.loading:
            return None
        from codex_acp.mapping.commands import simple_prompt

        simple = simple_prompt(params)
        if simple is None:
            return None
        session_id, message = simple

        async def begin(on_accepted: OnAccepted) -> EarlyTurn | None:
            early = sessions.ask_early(session_id, message, on_accepted)
            if early is None:  # without a wait, the caller queues the prompt before later requests
                return None
            try:
                await ahead.prompt_ready.wait()
            except asyncio.CancelledError:
                # The turn runs already: cancel this task again, so that CancelledError arrives at
                # the next await, where it cancels any prompt. The missing modules load on first
                # use.
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            return early

        return partial(self._answer_prompt, session_id, message, begin)

    def login_handler(self, name: str) -> Callable[[Any], Awaitable[Any]] | None:
        """Return the login handler, which answers ``<name>Response``; None over the network."""
        sole_agent = self._sole_agent
        if sole_agent is None:
            return None
        return self._row(name, lambda r: sole_agent.logins.authenticate(r.method_id, r.meta))

    def logout_handler(self, name: str) -> Callable[[Any], Awaitable[Any]] | None:
        """Return the logout handler, which answers ``<name>Response``; None over the network."""
        agent = self._sole_agent
        return None if agent is None else self._row(name, lambda _: agent.logins.log_out())

    # Sessions.

    async def session_status(self, request: Any) -> Any:
        """Answer ``session/status``, without the state, which v1 lacks."""
        state = await self._agent.session_state(request.session_id)
        return self._answer("SessionStatus", {"status": "saved" if state is None else "open"})

    async def new_session(self, request: NewSession) -> Any:
        opened = await self._agent.new_session(request)
        return self._answer("NewSession", self._answer_to_opening(opened))

    async def fork_session(self, request: ForkSession) -> Any:
        opened = await self._agent.fork_session(request)
        return self._answer("ForkSession", self._answer_to_opening(opened))
