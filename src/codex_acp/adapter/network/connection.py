"""Serve the connections of one server: `Hub` runs them, each is a `NetworkConnection`.

A `NetworkConnection` gives a client's request to the agent if the session belongs to the token's
owner; else it answers as if the session did not exist. At most one connection *shows* a session:
only this connection gets the session's updates, can prompt the session and set its options. The
owner can set the title of any own session, and delete or archive a session that no other connection
shows.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from codex_acp._json import list_at, text_at
from codex_acp.acp.side import acp_connection
from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.client import Client
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.adapter.network.registry import Registry
from codex_acp.adapter.serve import ANSWER_SECONDS, PROMPT_METHOD, VERSIONS, agent_side
from codex_acp.adapter.sessions.opening_errors import (
    closed_meanwhile,
    not_open,
    unknown_session,
)
from codex_acp.adapter.sessions.replay import replay_history
from codex_acp.adapter.tasks import SessionScopes, guarded
from codex_acp.errors import CodexAcpError, RpcError, TransportError
from codex_acp.jsonrpc import INVALID_REQUEST
from codex_acp.mapping.agent import META_KEY, LoginWays
from codex_acp.mapping.session_setup import canonical_id
from codex_acp.transport.json_decoding import bounded_loads
from codex_acp.transport.link import Link
from codex_acp.transport.shielding import finish
from codex_acp.transport.websocket import POLICY_VIOLATION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.adapter.network.access_control import Token, Tokens
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.network_session import JournalPosition
    from codex_acp.adapter.network.registry import Owners
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.session_client import (
        ForkSession,
        Json,
        ListSessions,
        NewSession,
        ResumeSession,
    )
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.events import StateChanged
    from codex_acp.transcript.log import Transcript


logger = logging.getLogger(__name__)

UNREAD_SECONDS: Final = 0.2
"""Seconds between two checks of the unread updates of a client that lags."""

WATCH_SECONDS: Final = 5.0
"""Seconds between two checks whether a client's token is still good."""


class NetworkConnection:
    """The connection of a client that has shown ``token``; its new sessions run on ``agent``."""

    def __init__(self, registry: Registry, token: Token, agent: CodexAgent) -> None:
        self._registry = registry
        self._token = token
        self.agent = agent
        self.client: Client = Client(registry.spawn)
        self.capability_meta: Json = {"keepSeconds": registry.limits.keep_seconds}
        """Members for the answer to ``initialize``, as `AgentMethods` says."""
        self.disconnect: Callable[[str], None] = lambda _: None
        """Ends the connection with a reason; set by `Hub.serve`."""
        self._initialized = False
        self._openings = SessionScopes()
        """The loads and resumes of this connection that have not ended, by session."""
        self._stall_timer: asyncio.TimerHandle | None = None

    async def watch(self, tokens: Tokens) -> None:
        """Disconnect a client that never initializes, or whose token is no longer good."""
        await asyncio.sleep(self._registry.limits.initialize_seconds)
        if not self._initialized:
            self.disconnect("it has not sent initialize")
            return
        while tokens.still_good(self._token):  # noqa: ASYNC110 - a file raises no event
            await asyncio.sleep(WATCH_SECONDS)
        self.disconnect("its token is no longer good")

    # Methods of `adapter.agent.AgentMethods`

    def introduce(self, params: Json, version: int) -> LoginWays:
        """Handle ``initialize``. Offers no login: only the person who runs the server logs in."""
        self.agent.introduce(params, version, self.client)
        self._initialized = True
        self.client.outflow.when_full(self._watch_outflow)
        return LoginWays(offered=False)

    async def new_session(self, request: NewSession) -> Json:
        agent = self.agent
        return await self._open(partial(agent.new_session, request), agent.delete_session)

    async def fork_session(self, request: ForkSession) -> Json:
        self._must_own(request.session_id)
        agent = self.agent
        return await self._open(partial(agent.fork_session, request), agent.delete_session)

    async def load_session(self, request: ResumeSession) -> Json:
        return await self._reopen(request, history=True)

    async def resume_session(self, request: ResumeSession) -> Json:
        return await self._reopen(request, history=False)

    async def list_sessions(self, request: ListSessions) -> Json:
        response = await self.agent.list_sessions(request)
        owner, owned = self._token.owner, self._registry.owns
        found = list_at(response, "sessions")
        mine = [each for each in found if owned(owner, text_at(each, "sessionId") or "")]
        return {**response, "sessions": mine}

    async def close_session(self, session_id: str) -> None:
        """Close a session that this connection shows. If this connection is opening the session,
        cancel the opening first. Raises RpcError for other sessions."""
        was_opening = session_id in self._openings
        if was_opening:
            self._openings.cancel(session_id)
        else:
            self.shown_session(session_id)  # raises before the wait for the lock
        async with self._registry.exclusive(session_id):
            if was_opening and session_id not in self._registry.sessions:
                return  # the opening was cancelled, or failed, so that nothing is open
            session = self.shown_session(session_id)  # another connection may have taken it over
            try:
                await session.agent.close_session(session_id)
            finally:
                self._registry.remove_if_closed(session)

    async def delete_session(self, session_id: str) -> None:
        await self._end_session(session_id, CodexAgent.delete_session)

    async def archive_session(self, session_id: str) -> None:
        await self._end_session(session_id, CodexAgent.archive_session)

    async def _end_session(
        self, session_id: str, end: Callable[[CodexAgent, str], Awaitable[None]]
    ) -> None:
        """Delete or archive a session of this connection's owner with the method ``end``. Raises
        RpcError for a session that another connection shows."""
        session_id = canonical_id(session_id)  # Codex would find a stored session by any spelling
        self._must_own(session_id)
        self._openings.cancel(session_id)
        async with self._registry.exclusive(session_id):
            session = self._registry.sessions.get(session_id)
            if session is None:
                await end(self.agent, session_id)
                return
            if session.client not in (None, self.client):
                raise _shown_elsewhere(session_id)
            try:
                await end(session.agent, session_id)
            finally:
                self._registry.remove_if_closed(session)

    async def unarchive_session(self, session_id: str) -> None:
        self._must_own(session_id)
        await self._agent_or_default(session_id).unarchive_session(session_id)

    async def session_state(self, session_id: str) -> StateChanged | None:
        """Return the state of a session that is open on any connection; None if it is not open."""
        self._must_own(session_id, or_sub_agent=True)
        return await self._agent_or_default(session_id).session_state(session_id)

    async def set_title(self, session_id: str, title: str) -> Json:
        self._must_own(session_id)
        return await self.agent.set_title(session_id, title)  # the session need not be open

    def agent_of(self, session_id: str) -> CodexAgent:
        """Return the agent of a session that this connection shows, else raise RpcError."""
        return self.shown_session(session_id).agent

    async def run_prompt(self, session_id: str, blocks: Sequence[Block]) -> PromptResult:
        session = self.shown_session(session_id)
        return await session.prompt(
            self.client, lambda: session.agent.run_prompt(session_id, blocks, sender=self.client)
        )

    def cancel(self, session_id: str) -> None:
        """Cancel the prompts of a session, if this connection shows the session."""
        session = self._registry.sessions.get(session_id)
        if session is None:  # the id may be that of a sub-agent's session
            session = self._registry.parent_of(session_id)
        if session is None or session.client is not self.client:
            logger.warning("session/cancel names a session that its connection does not show")
        else:
            session.agent.cancel(session_id)

    # Ownership, and the sessions that this connection shows

    async def _open(
        self,
        open_it: Callable[[NetworkSession], Awaitable[Json]],
        undo: Callable[[str], Awaitable[None]],
        session_id: str | None = None,
    ) -> Json:
        """Open a session with ``open_it``, record the session's owner, and return the answer of
        ``open_it``. ``session_id`` is None for a new session, whose id the answer has. If the owner
        cannot be recorded, calls ``undo`` with the session's id, and raises RpcError."""
        outlives = self._registry.limits.keep_seconds > 0
        owner = self._token.owner
        async with self._registry.reserve_place(owner):
            session = NetworkSession(owner, self.agent, self.client, outlives_client=outlives)
            answer = await open_it(session)
            session_id = session_id or str(answer["sessionId"])
            try:
                self._register(session_id, session)
            except RpcError:
                session.detach(self.client)  # the client gets no message of the session
                try:
                    await finish(asyncio.ensure_future(undo(session_id)))
                except CodexAcpError as error:
                    logger.warning("the opening of %s could not be undone: %s", session_id, error)
                raise
        return answer

    def _register(self, session_id: str, session: NetworkSession) -> None:
        self._registry.open(session_id, session)
        if self.client.gone:  # the client left while the session was opened
            self._registry.client_left(self.client)

    async def _reopen(self, request: ResumeSession, *, history: bool) -> Json:
        """Open a stored session, or show an open one here, perhaps taken from another connection.
        Raises RpcError, as `AgentMethods` do, also if this connection closes the session."""
        session_id = request.session_id
        self._must_own(session_id)
        with self._openings.entered(session_id):
            async with self._registry.exclusive(session_id):
                self._must_own(session_id)  # another owner may have opened it meanwhile
                session = self._registry.sessions.get(session_id)
                if session is not None:
                    return await self._take_over(session, request, history=history)
                agent = self.agent
                reopen = agent.load_session if history else agent.resume_session
                return await self._open(partial(reopen, request), agent.close_session, session_id)
        # Only a cancelled block comes here: its scope, which `close_session` or `_end_session`
        # cancelled, swallows the cancellation.
        raise closed_meanwhile(session_id)

    async def _take_over(
        self, session: NetworkSession, request: ResumeSession, *, history: bool
    ) -> Json:
        """Open an open session again, for this connection; if it is busy, only show it here."""
        try:
            with session.taken_over(self.client):
                if session.busy:
                    return await self._show_busy(session, history=history)
                # Kept events that no client has had. They come after the history, which is older.
                unsent_events = session.reopen_for(self.client, history=history)
                agent = session.agent
                reopen = agent.load_session if history else agent.resume_session
                answer = await reopen(request, session)  # `load_session` sends the history
                for event in unsent_events:
                    session.send(session.session_id, event)
                self._register(session.session_id, session)
                return answer
        finally:
            # If the block fails, `taken_over` shows the session to the earlier client again. None:
            # that client has left, there was none, or this connection's client has left.
            if session.client is None:
                self._registry.schedule_end(session)

    async def _show_busy(self, session: NetworkSession, *, history: bool) -> Json:
        """Show a busy session: its ``history`` first, if wanted, and its questions last."""
        session_id = session.session_id
        opened = session.agent.sessions.open_session(session_id)
        history_end: JournalPosition | None = None
        if history and opened is not None:
            history_end = session.begin_history(self.client)
            codex = opened.codex
            if codex.closed:
                # Codex ended while the client is asked about a plan, which keeps the session busy.
                # Only the next prompt moves the session to a new Codex: read the history there.
                codex = await session.agent.opener.codex()
            await replay_history(
                codex, session_id, self.client, result=None, running_turn_id=None,
                has_turn=lambda turn: turn in session.journaled_turns,
            )  # fmt: skip
        session.attach(self.client, history_end)
        self._register(session_id, session)
        loop = asyncio.get_running_loop()
        loop.call_soon(session.resume_questions)  # after the answer to this request
        meta: Json = {"running": session.busy, "questions": session.open_questions}
        return {**session.agent.config.answer(session_id), "_meta": {META_KEY: meta}}

    def _must_own(self, session_id: str, *, or_sub_agent: bool = False) -> None:
        """Raise RpcError -32002 unless the session belongs to this connection's owner.
        ``or_sub_agent`` allows the session of a sub-agent, too."""
        if not self._registry.owns(self._token.owner, session_id):
            raise unknown_session(session_id)
        agent = self._registry.agent_of(session_id)
        if agent is not None and not or_sub_agent:
            agent.sessions.refuse_sub_agent(session_id)

    def shown_session(self, session_id: str) -> NetworkSession:
        """Return a session that this connection shows. Raises RpcError for any other."""
        session = self._registry.sessions.get(session_id)
        if session is None or session.owner != self._token.owner:
            raise not_open(session_id)
        if session.client is not self.client:
            raise _shown_elsewhere(session_id)
        return session

    def _agent_or_default(self, session_id: str) -> CodexAgent:
        """Return the agent on which a session is open; the default is this connection's agent."""
        return self._registry.agent_of(session_id) or self.agent

    # A client that lags

    def _watch_outflow(self, full: bool) -> None:
        """Watch the client while its queue of updates is ``full``. A full queue does not pause
        Codex, because other clients use the same Codex."""
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if full:
            self._check_unread(asyncio.get_running_loop().time())

    def _check_unread(self, since: float) -> None:
        """Disconnect a client with too many unread updates, else check again later."""
        limits, loop = self._registry.limits, asyncio.get_running_loop()
        if self.client.outflow.unread > limits.unread_text:
            self.disconnect(f"it has left {limits.unread_text} characters of updates unread")
        elif loop.time() - since >= limits.stall_seconds:
            self.disconnect(f"it has left updates unread for {limits.stall_seconds:g} s")
        else:
            wait = min(UNREAD_SECONDS, limits.stall_seconds)
            self._stall_timer = loop.call_later(wait, self._check_unread, since)


def _shown_elsewhere(session_id: str) -> RpcError:
    shown = f"the session {session_id!r} is shown on another connection"
    message = f"{shown}; session/load or session/resume on this one takes it over"
    return RpcError(INVALID_REQUEST, message, {"sessionId": session_id})


GOING_AWAY: Final = 1001
"""Close code of a server that ends (RFC 6455, section 7.4.1)."""


class NetworkLink(Link, Protocol):
    """A link that sends its peer the reason when it closes."""

    def set_close_reason(self, code: int, reason: str) -> None:
        """Set the code (of RFC 6455) and the reason that are sent when this side closes."""


class Hub:
    """The connections of one server, their Codex, and the registry of open sessions.

    ``new_app_server`` makes an app-server, which starts when it is needed; if ``shared``, all
    connections use one. ``spawn`` runs tasks that outlive connections. ``versions`` are the
    versions of ACP that are offered. ``when_loaded`` is for `CodexAgent`: each agent calls the
    function once, when a session is open and the modules of a prompt are loaded."""

    def __init__(
        self,
        new_app_server: Callable[[], AppServer],
        spawn: Spawn,
        tokens: Tokens,
        owners: Owners,
        limits: Limits,
        transcript: Transcript,
        *,
        shared: bool = True,
        versions: Collection[int] = VERSIONS,
        when_loaded: Callable[[], None] | None = None,
    ) -> None:
        self._new_app_server = new_app_server
        self._tokens = tokens
        self._transcript = transcript
        self._shared = shared
        self._versions = versions
        self._when_loaded = when_loaded
        self.registry: Registry = Registry(guarded(spawn), owners, limits)
        self.sides: set[EitherAgentSide] = set()
        """This end of each connection that is open."""
        self._app_servers: dict[CodexAgent, AppServer] = {}
        self._shared_agent: CodexAgent | None = None

    async def serve(self, link: NetworkLink, token: Token, connection_id: str) -> None:
        """Serve one client until it disconnects or is disconnected."""
        name = f"client {connection_id[:8]}"
        json_rpc = acp_connection(
            link,
            name=name,
            line_limit=self.registry.limits.message_bytes,
            on_line=self._transcript.tap("client"),
        )
        json_rpc.loads = bounded_loads
        agent = self.agent()
        connection = NetworkConnection(self.registry, token, agent)
        side = agent_side(json_rpc, self._versions, connection)

        def disconnect(why: str) -> None:
            logger.warning("%s is disconnected: %s", name, why)
            link.set_close_reason(POLICY_VIOLATION, why)
            self.registry.spawn(side.aclose)

        connection.client.side, connection.disconnect = side, disconnect
        self.sides.add(side)
        watch = asyncio.ensure_future(connection.watch(self._tokens))
        link.set_close_reason(GOING_AWAY, "the server ends")
        try:
            await side.run()
        except TransportError as error:
            logger.info("%s is gone: %s", name, error)
        finally:
            watch.cancel()
            self.sides.discard(side)
            self.registry.client_left(connection.client)
            if not self._shared:
                self.registry.spawn(lambda: self._end_unused(agent))

    def agent(self) -> CodexAgent:
        """Return the shared agent; without ``shared``, a new agent for each call."""
        if self._shared_agent is not None:
            return self._shared_agent
        app_server = self._new_app_server()
        agent = CodexAgent(app_server, self.registry.spawn, self._transcript, self._when_loaded)
        self._app_servers[agent] = app_server
        if self._shared:
            self._shared_agent = agent
        return agent

    async def _end_unused(self, agent: CodexAgent) -> None:
        """End the Codex of a closed connection once no session uses it."""
        await self.registry.wait_until_unused(agent)
        app_server = self._app_servers.pop(agent, None)
        if app_server is not None:
            agent.note_client_left()
            await app_server.aclose()

    async def end_connections(self) -> None:
        """Cancel all prompts; when they are answered, or after a time, close the connections."""
        await asyncio.gather(*(agent.end_prompts() for agent in self._app_servers))
        closing = [side.close_behind(PROMPT_METHOD, ANSWER_SECONDS) for side in self.sides]
        await asyncio.gather(*closing)

    async def aclose(self) -> None:
        """End every Codex with its children, in bounded time."""
        app_servers, self._app_servers = self._app_servers, {}
        for agent in app_servers:
            agent.note_client_left()
        await asyncio.gather(*(each.aclose() for each in app_servers.values()))
