"""The open sessions of one agent, and the connections to Codex that they are on.

A session opens before anything is loaded that a prompt needs: until `Sessions.load`, it is only
a name under which notifications are kept. Must not know ACP's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from codex_acp.adapter.early import EarlyNotifications

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from codex_acp.acp.agent_side import AgentSide
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.codex_events import CodexEvents
    from codex_acp.adapter.outflow import Outflow
    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.adapter.session import Session
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.client import CodexClient
    from codex_acp.codex.items import Items
    from codex_acp.codex.requests import RefusedRequest
    from codex_acp.transcript.log import Transcript
    from codex_acp.wire.model import WireModel

    Spawn = Callable[[Callable[[], Coroutine[None, None, None]]], object]

__all__ = ["Sessions"]


class _Connection:
    """One connection to Codex, whose events are read from when something needs them."""

    def __init__(
        self, codex: CodexClient, make_runner: Callable[[Items], ServerRequestRunner]
    ) -> None:
        self.codex = codex
        self._make_runner = make_runner
        self._events: CodexEvents | None = None
        self._early = EarlyNotifications(codex, None)
        codex.handle_others(self._handle)

    @property
    def events(self) -> CodexEvents:
        """What follows items, turns and requests; from now on."""
        if self._events is None:
            from codex_acp.adapter.codex_events import CodexEvents

            self._events = CodexEvents(self.codex, self._make_runner)
            self._early.hand_over(self._events)
        return self._events

    async def _handle(self, request: ServerRequest) -> WireModel:
        """The first request may come before anything is loaded."""
        return await self.events.handle(request)


class _Opened(NamedTuple):
    """A session that nobody has used yet."""

    connection: _Connection
    early: EarlyNotifications


class Sessions:
    """``spawn`` starts a task that may outlive its request; ``features`` are the client's."""

    def __init__(
        self, spawn: Spawn, features: Callable[[], ClientFeatures], transcript: Transcript
    ) -> None:
        self._spawn = spawn
        self._features = features
        self._transcript = transcript
        self._side: AgentSide | None = None
        self._outflow: Outflow | None = None
        self.generation = 0
        """Which connection to Codex this is, counted from 1."""
        self._connection: _Connection | None = None
        self._opened: dict[str, _Opened] = {}
        self._sessions: dict[str, Session] = {}
        self._loaded = False

    def join(self, side: AgentSide) -> None:
        """Give the sessions the connection to the client."""
        self._side = side

    def codex_started(self, codex: CodexClient) -> None:
        """A new connection to Codex: its requests and items are told from an earlier one's."""
        self.generation += 1
        generation = self.generation
        self._connection = _Connection(codex, lambda items: self._runner(generation, items))
        if self._loaded:
            _ = self._connection.events

    def refused(self, refused: RefusedRequest) -> None:
        """The client to Codex refused a request by itself."""
        if self._connection is not None:
            self._connection.events.refused(refused)

    def open(self, session_id: str) -> None:
        """A session on the newest connection to Codex; its notifications count from now on."""
        connection = self._connection
        assert connection is not None
        early = EarlyNotifications(connection.codex, session_id)
        self._opened[session_id] = _Opened(connection, early)
        if self._loaded:
            self.load()

    def get(self, session_id: str) -> Session | None:
        """An open session; loads what sessions need."""
        if session_id in self._opened:
            self.load()
        return self._sessions.get(session_id)

    def load(self) -> None:
        """Import what a prompt needs, and give the sessions what was kept for them."""
        import codex_acp.adapter.session
        import codex_acp.mapping.mcp_servers  # noqa: F401

        self._loaded = True
        if self._connection is not None:
            _ = self._connection.events
        opened, self._opened = self._opened, {}
        for session_id, entry in opened.items():
            self._sessions[session_id] = session = self._session(session_id, entry.connection)
            entry.early.hand_over(session)

    def _session(self, session_id: str, connection: _Connection) -> Session:
        from codex_acp.adapter.outflow import Outflow
        from codex_acp.adapter.session import Session

        if self._outflow is None:
            assert self._side is not None
            self._outflow = Outflow(self._side, self._spawn)
        outflow, codex = self._outflow, connection.codex
        outflow.when_full(
            lambda full: codex.pause_reading(outflow) if full else codex.resume_reading(outflow)
        )
        events = connection.events
        return Session(
            session_id,
            codex,
            outflow,
            self._spawn,
            self._features(),
            lambda: events.prompt_cancelled(session_id),
        )

    def _runner(self, generation: int, items: Items) -> ServerRequestRunner:
        from codex_acp.adapter.server_requests import ServerRequestRunner
        from codex_acp.routing.route import RoutingContext

        self.load()
        assert self._side is not None
        return ServerRequestRunner(
            self._side,
            generation,
            lambda: RoutingContext(items, self._features(), self._sessions),
            self._sessions.get,
            self._transcript,
        )
