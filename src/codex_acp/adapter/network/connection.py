"""One client's connection: what it may ask, and of which sessions.

The methods are the agent's. Here is only whose session it is: of one that the client's token does
not own nothing can be told from one that is not there, and what changes a session is taken only
from the connection that shows it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from codex_acp.acp._generated.v1.methods import MODELS
from codex_acp.acp._generated.v1.models import (
    AgentAuthCapabilities,
    LoadSessionResponse,
    ResumeSessionResponse,
)
from codex_acp.adapter.client import Client
from codex_acp.adapter.network.archive import OwnedArchive
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.replay import Replay
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST
from codex_acp.mapping.agent.auth_methods import LoginWays
from codex_acp.mapping.agent.capabilities import META_KEY
from codex_acp.mapping.session.ids import canonical_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.network.network_session import Mark
    from codex_acp.adapter.network.registry import Registry
    from codex_acp.adapter.network.tokens import Token, Tokens
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import JsonValue

T = TypeVar("T")

logger = logging.getLogger(__name__)

UNREAD_SECONDS: Final = 0.2
"""How often it is looked how much a client that lags has still to read."""

WATCH_SECONDS: Final = 5.0
"""How often it is looked whether the client's token is still good."""


class NetworkConnection:
    """The connection of a client that has shown ``token``; new sessions of it are on ``agent``."""

    def __init__(self, registry: Registry, token: Token, agent: CodexAgent) -> None:
        self._registry = registry
        self._token = token
        self.agent = agent
        self.client = Client(registry.spawn)
        self.archive = OwnedArchive(agent, registry, self._must_own, self._endable)
        self._put_out: Callable[[str], None] = lambda _: None
        self._introduced = False
        self._stall: asyncio.TimerHandle | None = None

    def join(self, side: AgentSide, put_out: Callable[[str], None]) -> None:
        """This is the connection; ``put_out`` ends it with a reason."""
        self.client.join(side)
        self._put_out = put_out

    async def watch(self, tokens: Tokens) -> None:
        """Put the client out if it never initializes, or its token is no longer good."""
        await asyncio.sleep(self._registry.limits.initialize_seconds)
        if not self._introduced:
            self._put_out("it has not sent initialize")
            return
        while tokens.still_good(self._token):  # noqa: ASYNC110 - a file says nothing by itself
            await asyncio.sleep(WATCH_SECONDS)
        self._put_out("its token is no longer good")

    @property
    def spawn(self) -> Spawn:
        """Starts a task that may outlive the connection."""
        return self._registry.spawn

    # What it may ask.

    def requests(self) -> AgentRequestHandlers:
        """One row a method. The login of a server is the business of whoever runs it."""
        return {
            "initialize": self.initialize,
            "authenticate": None,
            "logout": None,
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

    def notifications(self) -> AgentNotificationHandlers:
        """One row a method; None: ignored (``$/cancel_request`` is the connection's own)."""
        return {"session/cancel": self.cancel, "$/cancel_request": None}

    def unstable(self) -> UnstableAgentRequestHandlers:
        """Methods of the unstable schema."""
        return {
            "session/fork": self.fork_session,
            "session/set_title": self.set_title,
            "session/archive": self.archive.archive,
            "session/unarchive": self.archive.unarchive,
            "session/status": self.archive.status,
        }

    async def initialize(self, request: v1.InitializeRequest) -> v1.InitializeResponse:
        """See `CodexAgent.initialize`."""
        response = await self.agent.initialize(request, self.client)
        self._is_introduced()
        response.auth_methods = []
        if response.agent_capabilities is not None:
            response.agent_capabilities.auth = AgentAuthCapabilities()
            response.agent_capabilities.providers = None
            response.agent_capabilities.meta = self._meta(response.agent_capabilities.meta)
        return response

    def introduce(self, params: dict[str, JsonValue], version: int) -> LoginWays:
        """See `CodexAgent.introduce`; nobody logs in over the network."""
        self.agent.introduce(params, version, self.client)
        self._is_introduced()
        return LoginWays(offered=False)

    def _is_introduced(self) -> None:
        self._introduced = True
        self.client.outflow.when_full(self._full)

    def _meta(self, usual: dict[str, object] | None) -> dict[str, object]:
        ours = (usual or {}).get(META_KEY)
        more = {"keepSeconds": self._registry.limits.keep_seconds}
        return {**(usual or {}), META_KEY: {**(ours if isinstance(ours, dict) else {}), **more}}

    async def new_session(self, request: v1.NewSessionRequest) -> v1.NewSessionResponse:
        """See `CodexAgent.new_session`."""
        async with self._registry.room(self._token.owner):
            session = self._new()
            response = await self.agent.new_session(request, session)
            await self._open(response.session_id, session)
        return response

    async def fork_session(self, request: v1.ForkSessionRequest) -> v1.ForkSessionResponse:
        """See `CodexAgent.fork_session`."""
        self._must_own(request.session_id)
        async with self._registry.room(self._token.owner):
            session = self._new()
            response = await self.agent.fork_session(request, session)
            await self._open(response.session_id, session)
        return response

    async def load_session(self, request: v1.LoadSessionRequest) -> LoadSessionResponse:
        """See `CodexAgent.load_session`; of one that is open here, another connection lets go."""
        session_id = request.session_id
        answer = await self._reopen(
            session_id, lambda session: session.agent.load_session(request, session), whole=True
        )
        if isinstance(answer, LoadSessionResponse):
            return answer
        made: LoadSessionResponse = MODELS.decode("LoadSessionResponse", answer, "the session")
        return made

    async def resume_session(self, request: v1.ResumeSessionRequest) -> ResumeSessionResponse:
        """See `CodexAgent.resume_session` and `load_session`."""
        session_id = request.session_id
        answer = await self._reopen(
            session_id, lambda session: session.agent.resume_session(request, session), whole=False
        )
        if isinstance(answer, ResumeSessionResponse):
            return answer
        made: ResumeSessionResponse = MODELS.decode("ResumeSessionResponse", answer, "the session")
        return made

    async def list_sessions(self, request: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        """See `CodexAgent.list_sessions`; only what the client owns."""
        response = await self.agent.list_sessions(request)
        owner, owned = self._token.owner, self._registry.owned
        response.sessions = [each for each in response.sessions if owned(owner, each.session_id)]
        return response

    async def close_session(self, request: v1.CloseSessionRequest) -> v1.CloseSessionResponse:
        """See `CodexAgent.close_session`."""
        session = self.shown(request.session_id)
        async with self._registry.lock(request.session_id):
            try:
                return await session.agent.close_session(request)
            finally:
                self._registry.closed(request.session_id, session)

    async def delete_session(self, request: v1.DeleteSessionRequest) -> v1.DeleteSessionResponse:
        """See `CodexAgent.delete_session`; not of one that another connection shows."""
        request.session_id = session_id = canonical_id(request.session_id)
        self._must_own(session_id)
        async with self._registry.lock(session_id):
            session = self._endable(session_id)
            if session is None:
                return await self.agent.delete_session(request)
            response = await session.agent.delete_session(request)
            self._registry.closed(session_id, session)
            return response

    async def set_title(self, request: v1.SetSessionTitleRequest) -> v1.SetSessionTitleResponse:
        """See `CodexAgent.set_title`."""
        self._must_own(request.session_id)
        return await self.agent.set_title(request)

    async def set_mode(self, request: v1.SetSessionModeRequest) -> v1.SetSessionModeResponse:
        """See `CodexAgent.set_mode`."""
        return await self.shown(request.session_id).agent.set_mode(request)

    async def set_config_option(
        self, request: v1.SetSessionConfigOptionRequest
    ) -> v1.SetSessionConfigOptionResponse:
        """See `CodexAgent.set_config_option`."""
        return await self.shown(request.session_id).agent.set_config_option(request)

    async def prompt(self, request: v1.PromptRequest) -> v1.PromptResponse:
        """See `CodexAgent.prompt`."""
        session = self.shown(request.session_id)
        return await session.prompt(self.client, lambda: session.agent.prompt(request))

    def cancel(self, notification: v1.CancelNotification) -> None:
        """See `CodexAgent.cancel`; ignored for what this connection does not show."""
        session_id, sessions = notification.session_id, self._registry.sessions
        session = sessions.get(session_id) or self._registry.above(session_id)
        if session is None or session.client is not self.client:
            logger.warning("session/cancel names a session that its connection does not show")
        else:
            session.agent.cancel(notification)

    # Whose it is.

    def _new(self) -> NetworkSession:
        kept = self._registry.limits.keep_seconds > 0
        return NetworkSession(self._token.owner, self.agent, self.client, kept=kept)

    async def _open(self, session_id: str, session: NetworkSession) -> None:
        self._registry.open(session_id, session)
        if self.client.gone:  # while the session was made
            self._registry.left(self.client)

    async def _reopen(
        self,
        session_id: str,
        reopen: Callable[[NetworkSession], Awaitable[T]],
        *,
        whole: bool,
    ) -> T | dict[str, JsonValue]:
        """Open a session, or have one shown here that is open; that may run on another connection.

        Gives the answer of ``reopen``, or what is answered for one that runs.
        """
        self._must_own(session_id)
        async with self._registry.lock(session_id):
            self._must_own(session_id)
            earlier = self._registry.sessions.get(session_id)
            if earlier is None:
                async with self._registry.room(self._token.owner):
                    session = self._new()
                    answer = await reopen(session)
                    await self._open(session_id, session)
                return answer
            before = earlier.taken_by(self.client)
            try:
                if earlier.busy:
                    return await self._show(earlier, whole=whole)
                kept = earlier.reopen_for(self.client, whole=whole)
                answer = await reopen(earlier)
                for event in kept:
                    earlier.send(session_id, event)
            except BaseException:
                self._given_back(earlier, before)
                raise
            await self._open(session_id, earlier)
            return answer

    def _given_back(self, session: NetworkSession, before: Client | None) -> None:
        """It could not be opened here: whoever showed it before, does so again."""
        session.left(self.client)
        if before is None or before.gone:
            self._registry.unshown(session)
        else:
            session.show_to(before, None)
            session.ask_again()

    async def _show(self, session: NetworkSession, *, whole: bool) -> dict[str, JsonValue]:
        """Show what goes on: the history first if it is to be shown whole, its questions last."""
        session_id = session.session_id
        sessions, config = session.agent.parts
        opened = sessions.open_session(session_id)
        mark: Mark | None = None
        if whole and opened is not None:
            mark, running = session.mark(), session.turn_ids
            history = Replay(self.client, session_id, None)
            await history.run(
                opened.codex,
                None,
                kept=lambda turn: session.kept and turn in (running | session.turn_ids),
            )
            history.end(None)
        session.show_to(self.client, mark)
        await self._open(session_id, session)
        asyncio.get_running_loop().call_soon(session.ask_again)  # behind the answer to this
        meta: dict[str, JsonValue] = {"running": True, "questions": session.questions}
        return {**config.answer(session_id), "_meta": {META_KEY: meta}}

    def _must_own(self, session_id: str, *, below: bool = False) -> None:
        """See `MustOwn`. Only the agent above a sub-agent's session knows that it is one."""
        if not self._registry.owned(self._token.owner, session_id):
            raise unknown_session(session_id)
        agent = self._registry.agent_of(session_id)
        if agent is not None and not below:
            agent.parts[0].not_below(session_id)

    def _endable(self, session_id: str) -> NetworkSession | None:
        """A session if it is open. Raises RpcError for one that another connection shows."""
        session = self._registry.sessions.get(session_id)
        if session is not None and session.client not in (None, self.client):
            raise _shown_elsewhere(session_id)
        return session

    def shown(self, session_id: str) -> NetworkSession:
        """A session that this connection shows. Raises RpcError for all others."""
        session = self._registry.sessions.get(session_id)
        if session is None or session.owner != self._token.owner:
            raise unknown_session(session_id)
        if session.client is not self.client:
            raise _shown_elsewhere(session_id)
        return session

    def agent_of(self, session_id: str) -> CodexAgent:
        """The agent that such a session is on. Raises as `shown`."""
        return self.shown(session_id).agent

    # A client that does not read.

    def _full(self, full: bool) -> None:
        """More waits for it than should; Codex goes on, since others use it as well."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if full:
            self._look_at_unread(asyncio.get_running_loop().time())

    def _look_at_unread(self, since: float) -> None:
        limits, loop = self._registry.limits, asyncio.get_running_loop()
        if self.client.outflow.unread > limits.unread_text:
            self._put_out(f"it has left {limits.unread_text} characters of updates unread")
        elif loop.time() - since >= limits.stall_seconds:
            self._put_out(f"it has left updates unread for {limits.stall_seconds:g} s")
        else:
            wait = min(UNREAD_SECONDS, limits.stall_seconds)
            self._stall = loop.call_later(wait, self._look_at_unread, since)


def _shown_elsewhere(session_id: str) -> RpcError:
    shown = f"the session {session_id!r} is shown on another connection"
    message = f"{shown}; session/load or session/resume on this one takes it over"
    return RpcError(INVALID_REQUEST, message, {"sessionId": session_id})
