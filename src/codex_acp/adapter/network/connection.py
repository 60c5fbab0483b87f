"""One client's connection: what it may ask, and of which sessions.

The methods are the agent's. Here is only whose session it is: of one that the client's token does
not own nothing can be told from one that is not there, and what changes a session is taken only
from the connection that shows it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at, text_at
from codex_acp.adapter.client import Client
from codex_acp.adapter.network.archive import OwnedArchive
from codex_acp.adapter.network.network_session import Mark, NetworkSession
from codex_acp.adapter.sessions.opening_errors import unknown_session
from codex_acp.adapter.sessions.replay import Replay
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST, JsonValue
from codex_acp.mapping.agent import META_KEY, LoginWays
from codex_acp.mapping.session_setup import canonical_id
from codex_acp.transport.shielding import finish

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.acp.either_agent_side import EitherAgentSide
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.adapter.dialects.requests import (
        ForkSession,
        Json,
        ListSessions,
        NewSession,
        ResumeSession,
    )
    from codex_acp.adapter.network.registry import Registry
    from codex_acp.adapter.network.tokens import Token, Tokens
    from codex_acp.adapter.session.driver import PromptResult
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.mapping.content import Block
    from codex_acp.mapping.options import Option

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
