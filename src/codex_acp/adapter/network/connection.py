"""One client's connection: what it may ask, and of which sessions.

The methods are the agent's. Here is only whose session it is: of one that the client's token does
not own nothing can be told from one that is not there, and what changes a session is taken only
from the connection that shows it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from codex_acp._json import list_at, text_at
from codex_acp.acp.conventions import acp_connection
from codex_acp.acp.either_agent_side import EitherAgentSide
from codex_acp.adapter.agent import CodexAgent
from codex_acp.adapter.client import Client
from codex_acp.adapter.network.network_session import NetworkSession
from codex_acp.adapter.network.registry import Registry
from codex_acp.adapter.serve import ANSWER_SECONDS, PROMPT, VERSIONS, extensions_of
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.replay import Replay
from codex_acp.adapter.side_tasks import guarded
from codex_acp.errors import CodexAcpError, RpcError, TransportError
from codex_acp.jsonrpc.message import INVALID_REQUEST, JsonValue
from codex_acp.mapping.agent import META_KEY, LoginWays
from codex_acp.mapping.session_setup import canonical_id
from codex_acp.transport.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from codex_acp.acp.dialects import Handlers
    from codex_acp.acp.v2 import AgentHandlers
    from codex_acp.adapter.dialects.requests import (
        ForkSession,
        Json,
        ListSessions,
        NewSession,
        ResumeSession,
    )
    from codex_acp.adapter.network.access_control import Token, Tokens
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.network_session import Mark
    from codex_acp.adapter.network.registry import Owners
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.events import StateChanged
    from codex_acp.mapping.options import Option
    from codex_acp.transcript.log import Transcript
    from codex_acp.transport.link import Link


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
        self.client: Client = Client(registry.spawn)
        self.archive: OwnedArchive = OwnedArchive(agent, registry, self._must_own, self._endable)
        self._put_out: Callable[[str], None] = lambda _: None
        self._introduced = False
        self._opening: set[str] = set()
        """Sessions that are being opened for it and were not open anywhere."""
        self._stall: asyncio.TimerHandle | None = None

    def join(self, side: EitherAgentSide, put_out: Callable[[str], None]) -> None:
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

    # What it may ask, see `AgentMethods`. The login of a server is the business of whoever runs it.

    def introduce(self, params: dict[str, JsonValue], version: int) -> LoginWays:
        """Take in the client's ``initialize``, and offer no login: the network has none."""
        self.agent.introduce(params, version, self.client)
        self._introduced = True
        self.client.outflow.when_full(self._full)
        return LoginWays(offered=False)

    @property
    def about(self) -> Json:
        """For how long a session is kept that nobody shows."""
        return {"keepSeconds": self._registry.limits.keep_seconds}

    async def new_session(self, request: NewSession) -> Json:
        """Open a new session for this connection's owner."""
        async with self._registry.room(self._token.owner):
            session = self._new()
            response = await self.agent.new_session(request, session)
            await self._made(str(response["sessionId"]), session)
        return response

    async def fork_session(self, request: ForkSession) -> Json:
        """Fork a session of this connection's owner."""
        self._must_own(request.session_id)
        async with self._registry.room(self._token.owner):
            session = self._new()
            response = await self.agent.fork_session(request, session)
            await self._made(str(response["sessionId"]), session)
        return response

    async def load_session(self, request: ResumeSession) -> Json:
        """Load a session; a connection that shows it so far loses it."""
        return await self._reopen(
            request.session_id,
            lambda session: session.agent.load_session(request, session),
            whole=True,
        )

    async def resume_session(self, request: ResumeSession) -> Json:
        """Resume a session; a connection that shows it so far loses it."""
        return await self._reopen(
            request.session_id,
            lambda session: session.agent.resume_session(request, session),
            whole=False,
        )

    async def list_sessions(self, request: ListSessions) -> Json:
        """List the sessions of this connection's owner."""
        response = await self.agent.list_sessions(request)
        owner, owned = self._token.owner, self._registry.owned
        found = list_at(response, "sessions")
        mine = [each for each in found if owned(owner, text_at(each, "sessionId") or "")]
        return {**response, "sessions": mine}

    async def close_session(self, session_id: str) -> None:
        """Close a session that this connection shows, or is about to."""
        if session_id in self._opening and session_id not in self._registry.sessions:
            await self.agent.close_session(session_id)
            return
        session = self.shown(session_id)
        async with self._registry.alone(session_id):
            try:
                await session.agent.close_session(session_id)
            finally:
                self._registry.closed_by_agent(session_id, session)

    async def delete_session(self, session_id: str) -> None:
        """Delete a session, unless another connection shows it."""
        session_id = canonical_id(session_id)
        self._must_own(session_id)
        async with self._registry.alone(session_id):
            session = self._endable(session_id)
            if session is None:
                await self.agent.delete_session(session_id)
                return
            try:
                await session.agent.delete_session(session_id)
            finally:
                self._registry.closed_by_agent(session_id, session)

    async def set_title(self, session_id: str, title: str) -> Json:
        """Name a session of this connection's owner."""
        self._must_own(session_id)
        return await self.agent.set_title(session_id, title)

    async def set_mode(self, session_id: str, mode_id: str) -> None:
        """Set the mode of a session that this connection shows."""
        await self.shown(session_id).agent.set_mode(session_id, mode_id)

    async def set_config_option(
        self, session_id: str, config_id: str, value: str | bool
    ) -> list[Option]:
        """Set an option of a session that this connection shows."""
        return await self.shown(session_id).agent.set_config_option(session_id, config_id, value)

    async def run_prompt(self, session_id: str, blocks: Sequence[Block]) -> PromptResult:
        """Run a prompt in a session that this connection shows."""
        session = self.shown(session_id)
        return await session.prompt(
            self.client, lambda: session.agent.run_prompt(session_id, blocks)
        )

    def cancel(self, session_id: str) -> None:
        """Cancel what runs in a session; ignored unless this connection shows it."""
        sessions = self._registry.sessions
        session = sessions.get(session_id) or self._registry.above(session_id)
        if session is None or session.client is not self.client:
            logger.warning("session/cancel names a session that its connection does not show")
        else:
            session.agent.cancel(session_id)

    # Whose it is.

    def _new(self) -> NetworkSession:
        kept = self._registry.limits.keep_seconds > 0
        return NetworkSession(self._token.owner, self.agent, self.client, kept=kept)

    async def _made(self, session_id: str, session: NetworkSession) -> None:
        """Open a session that Codex has just made; one whose owner is not written is deleted."""
        try:
            self._open(session_id, session)
        except RpcError:
            session.left(self.client)  # which is told nothing of it
            try:
                await finish(asyncio.create_task(self.agent.delete_session(session_id)))
            except CodexAcpError as error:
                logger.warning("the session %s could not be deleted: %s", session_id, error)
            raise

    def _open(self, session_id: str, session: NetworkSession) -> None:
        self._registry.open(session_id, session)
        if self.client.gone:  # while the session was made
            self._registry.left(self.client)

    async def _reopen(
        self,
        session_id: str,
        reopen: Callable[[NetworkSession], Awaitable[Json]],
        *,
        whole: bool,
    ) -> Json:
        """Open a session, or have one shown here that is open; that may run on another connection.

        Gives the answer of ``reopen``, or what is answered for one that runs.
        """
        self._must_own(session_id)
        async with self._registry.alone(session_id):
            self._must_own(session_id)
            self._registry.owners.made(self._token.owner, session_id)  # before anything is opened
            earlier = self._registry.sessions.get(session_id)
            if earlier is None:
                self._opening.add(session_id)
                try:
                    async with self._registry.room(self._token.owner):
                        session = self._new()
                        answer = await reopen(session)
                        self._open(session_id, session)
                finally:
                    self._opening.discard(session_id)
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
            self._open(session_id, earlier)
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
            mark = session.mark()
            history = Replay(self.client, session_id, None)
            await history.run(opened.codex, None, kept=lambda turn: turn in session.noted)
            history.end(None)
        session.show_to(self.client, mark)
        self._open(session_id, session)
        asyncio.get_running_loop().call_soon(session.ask_again)  # behind the answer to this
        meta: dict[str, JsonValue] = {"running": True, "questions": session.questions}
        return {**config.answer(session_id), "_meta": {META_KEY: meta}}

    def _must_own(self, session_id: str, *, below: bool = False) -> None:
        """Raise RpcError -32002 unless the session belongs to this connection's owner. Only the
        agent above a sub-agent's session knows that it is one."""
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


class MustOwn(Protocol):
    """Raises RpcError for a session that is not the client's; ``below``: a sub-agent's may be."""

    def __call__(self, session_id: str, *, below: bool = False) -> None: ...


class OwnedArchive:
    """Archive sessions for one owner, as `SessionArchive` does for all. ``endable`` gives a session
    that is open, and raises RpcError for one that another connection shows.
    """

    def __init__(
        self,
        agent: CodexAgent,
        registry: Registry,
        must_own: MustOwn,
        endable: Callable[[str], NetworkSession | None],
    ) -> None:
        self._agent = agent
        self._registry = registry
        self._must_own = must_own
        self._endable = endable

    async def archive(self, session_id: str) -> None:
        """Move a session of this owner to the archive."""
        session_id = canonical_id(session_id)
        self._must_own(session_id)
        async with self._registry.alone(session_id):
            session = self._endable(session_id)
            if session is None:
                await self._agent.archive.archive(session_id)
                return
            try:
                await session.agent.archive.archive(session_id)
            finally:
                self._registry.closed_by_agent(session_id, session)

    async def unarchive(self, session_id: str) -> None:
        """Bring a session of this owner back from the archive."""
        self._must_own(session_id)
        await self._of(session_id).archive.unarchive(session_id)

    async def status(self, session_id: str) -> StateChanged | None:
        """Return the state of a session that any connection has open; None if it is only stored."""
        self._must_own(session_id, below=True)
        return await self._of(session_id).archive.status(session_id)

    def _of(self, session_id: str) -> CodexAgent:
        """The agent that has a session, which may be another connection's."""
        return self._registry.agent_of(session_id) or self._agent


POLICY_VIOLATION: Final = 1008
"""The close code for a client that is put out (RFC 6455, section 7.4.1)."""

GOING_AWAY: Final = 1001
"""The close code of a server that ends."""


class NetworkLink(Protocol):
    """A link that can also tell its peer why it closes."""

    def say_at_end(self, code: int, reason: str) -> None:
        """When this side closes the link, say why."""


class Hub:
    """``new_server`` makes an app-server, which starts when it is needed; ``shared``: one for all
    connections. ``spawn`` runs tasks that outlive connections; ``versions`` of ACP are offered.
    """

    def __init__(
        self,
        new_server: Callable[[], AppServer],
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
        self._new_server = new_server
        self._spawn = spawn
        self._tokens = tokens
        self._limits = limits
        self._transcript = transcript
        self._shared = shared
        self._versions = versions
        self._when_loaded = when_loaded
        self.registry: Registry = Registry(guarded(spawn), owners, limits)
        self.connections: dict[str, NetworkConnection] = {}
        """By id, those that are served now."""
        self._sides: set[EitherAgentSide] = set()
        self._servers: dict[CodexAgent, AppServer] = {}
        self._common: CodexAgent | None = None

    async def serve(
        self, link: Link, network_link: NetworkLink, token: Token, connection_id: str
    ) -> None:
        """Serve one client until it disconnects, or has to be put out."""
        name = f"client {connection_id[:8]}"
        connection = acp_connection(
            link,
            name=name,
            line_limit=self._limits.message_bytes,
            on_line=self._transcript.tap("client"),
        )
        agent = self.agent()
        ours = NetworkConnection(self.registry, token, agent)
        side = EitherAgentSide(
            connection,
            (lambda: _in_v1(ours)) if 1 in self._versions else None,
            (lambda: _in_v2(ours)) if 2 in self._versions else None,
        )

        def put_out(why: str) -> None:
            logger.warning("%s is put out: %s", name, why)
            network_link.say_at_end(POLICY_VIOLATION, why)
            self.registry.spawn(side.aclose)

        ours.join(side, put_out)
        self.connections[connection_id] = ours
        self._sides.add(side)
        watch = asyncio.ensure_future(ours.watch(self._tokens))
        network_link.say_at_end(GOING_AWAY, "the server ends")
        try:
            await side.run()
        except TransportError as error:
            logger.info("%s is gone: %s", name, error)
        finally:
            watch.cancel()
            del self.connections[connection_id]
            self._sides.discard(side)
            self.registry.left(ours.client)
            if not self._shared:
                self.registry.spawn(lambda: self._end_unused(agent))

    def agent(self) -> CodexAgent:
        """The agent for one more connection."""
        if not self._shared:
            return self._new_agent()
        if self._common is None:
            self._common = self._new_agent()
        return self._common

    def _new_agent(self) -> CodexAgent:
        server = self._new_server()
        server.when_connected(lambda: self._transcript.tap("codex"))
        agent = CodexAgent(server, self._spawn, self._transcript, self._when_loaded)
        self._servers[agent] = server
        return agent

    async def _end_unused(self, agent: CodexAgent) -> None:
        """End a Codex that was one connection's, when no session is left on it."""
        await self.registry.unused(agent)
        server = self._servers.pop(agent, None)
        if server is not None:
            agent.leave()
            await server.aclose()

    async def end_connections(self) -> None:
        """Cancel what runs, and close each connection behind its prompts' answers; bounded."""
        await asyncio.gather(*(agent.end_prompts() for agent in self._servers))
        await asyncio.gather(*(side.close_behind(PROMPT, ANSWER_SECONDS) for side in self._sides))

    async def aclose(self) -> None:
        """End every Codex and all of their children; bounded."""
        servers, self._servers = self._servers, {}
        for agent in servers:
            agent.leave()
        await asyncio.gather(*(server.aclose() for server in servers.values()))


def _in_v1(connection: NetworkConnection) -> Handlers:
    """Loaded with the first client that speaks v1."""
    from codex_acp.adapter.agent_v1 import AgentInV1

    return AgentInV1(connection).handlers(extensions_of(connection.agent_of, 1))


def _in_v2(connection: NetworkConnection) -> AgentHandlers:
    """Loaded with the first client that speaks v2."""
    from codex_acp.adapter.agent_v2 import AgentInV2

    agent = AgentInV2(connection, connection.agent_of)
    return agent.handlers(extensions_of(connection.agent_of, 2))
