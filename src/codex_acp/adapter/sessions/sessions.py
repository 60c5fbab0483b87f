"""The sessions of one agent, and the connections to Codex that they are on.

A session is *opening* until Codex has answered, then *open*: a name under which notifications are
held. It is *known* as soon as the client names it or has heard of it; then it has its `Session`,
whose modules are loaded no sooner. At the end it is *closed*. A session outlives the connection
that it was opened on, see `Sessions.move`. Must not know ACP's methods.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at
from codex_acp._record import record
from codex_acp.adapter.server.held_notifications import HeldNotifications
from codex_acp.adapter.server.threadless_notifications import ThreadlessNotifications
from codex_acp.adapter.sessions.git_consent import GitConsent
from codex_acp.adapter.sessions.opening_errors import sub_agent_session
from codex_acp.adapter.sessions.session_transcript import SessionTranscript
from codex_acp.mapping.session_setup import canonical_id, given_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.server.request_intake import RequestIntake
    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import Items
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.notification_router import NotificationSink
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.content import TextBlock
    from codex_acp.mapping.events import SessionEvent
    from codex_acp.mapping.state import SessionState
    from codex_acp.transcript.log import Transcript
    from codex_acp.wire.model import WireModel

CLOSED_BY_CODEX: Final = (
    "Codex has closed this session's thread, as the model of another session can have it do. "
    "What ran in it was ended; the next prompt opens it again."
)


class _Connection:
    """One connection to Codex, whose events are read from when something needs them."""

    def __init__(
        self,
        codex: AppServerConnection,
        make_runner: Callable[[Items], ServerRequestRunner],
        sessions: Callable[[_Connection], list[OpenSession]],
        interrupt: Callable[[str, str], None],
    ) -> None:
        self.codex = codex
        self._make_runner = make_runner
        self._interrupt = interrupt
        self._events: RequestIntake | None = None
        self._held = HeldNotifications(codex, None)
        self.threadless: ThreadlessNotifications = ThreadlessNotifications(
            codex,
            lambda: [sink for each in sessions(self) for sink in each.sinks()],
            lambda: any(each.works() for each in sessions(self)),
        )
        codex.handle_others(self._handle)

    @property
    def events(self) -> RequestIntake:
        """Return what follows items, turns and requests, from now on."""
        if self._events is None:
            from codex_acp.adapter.server.request_intake import RequestIntake

            self._events = RequestIntake(self.codex, self._make_runner, self._interrupt)
            self._held.hand_over(self._events)
        return self._events

    async def _handle(self, request: ServerRequest) -> WireModel:
        """The first request may come before anything is loaded."""
        return await self.events.handle(request)


@record(eq=False)
class OpenSession:
    """A session that is open, and what is needed to open it again on another connection."""

    connection: _Connection
    params: dict[str, JsonValue]
    """The client's arguments as the params of a thread, made by `mapping.session_setup`."""
    servers: frozenset[str] = frozenset()
    """Names of the client's MCP servers that the first turn still has to wait for."""
    held: HeldNotifications | None = None
    """Notifications of it until it is known."""
    state: SessionState | None = None
    """The same: what the mapping remembers."""
    session: Session | None = None
    """None until it is known."""
    unloaded: bool = False
    """Whether its thread has to be resumed although its connection lives."""
    audience: SessionClient | None = None
    """Its audience, if it has one of its own."""
    early: EarlyTurn | None = None
    """The early turn of its first prompt, until the client knows the session."""

    @property
    def codex(self) -> AppServerConnection:
        """The connection that the session is on now."""
        return self.connection.codex

    @property
    def roots(self) -> list[str]:
        """The directories that it was opened with: the working directory, and those beside it."""
        given = [self.params.get("cwd"), *list_at(self.params, "runtimeWorkspaceRoots")]
        return [*dict.fromkeys(path for path in given if isinstance(path, str))]

    def said_of(self, thread_id: str) -> list[tuple[str, JsonValue]]:
        """Return the notifications of a thread that nobody followed; once."""
        return self.connection.threadless.take(thread_id)

    @property
    def prompted(self) -> bool:
        """Whether a turn was asked for since it was opened."""
        s = self.session
        return self.early is not None or (s is not None and s.prompts.machine.calls > 0)

    def works(self) -> bool:
        """Whether something runs in it that may start a sub-agent."""
        s = self.session
        return self.early is not None or (s is not None and (s.prompts.busy or s.sub_agents.work))

    def sinks(self) -> list[NotificationSink]:
        """Return the sinks of notifications without a thread."""
        hears = self.held if self.session is None else self.session.thread
        return [] if hears is None else [hears]


class Sessions:
    """``spawn`` starts a task that may outlive its request; ``audience`` is that of the sessions
    that have none of their own."""

    def __init__(self, spawn: Spawn, audience: SessionClient, transcript: Transcript) -> None:
        self._spawn = spawn
        self._audience = audience
        self._transcript = transcript
        self.transcript: SessionTranscript = SessionTranscript(transcript, lambda: self.generation)
        self.git_consent: GitConsent = GitConsent(self.transcript)
        """Which programs git may run for a session's directory."""
        self.generation: int = 0
        """Which connection to Codex this is, counted from 1."""
        self._connection: _Connection | None = None
        self._open: dict[str, OpenSession] = {}
        self._on_known: Callable[[Session, OpenSession], None] | None = None

    def when_known(self, callback: Callable[[Session, OpenSession], None]) -> None:
        """``callback`` gets each session that becomes known, before that is told anything."""
        self._on_known = callback

    # The connections to Codex.

    def codex_started(self, codex: AppServerConnection) -> None:
        """A new connection to Codex: its requests and items are told from an earlier one's."""
        number = self.generation = self.generation + 1
        self._connection = _Connection(
            codex,
            lambda items: self._runner(codex, number, items),
            lambda newest: [each for each in self._open.values() if each.connection is newest],
            lambda thread_id, turn_id: self._interrupt(codex, thread_id, turn_id),
        )

    def refused(self, refused: RefusedRequest) -> None:
        """The client to Codex refused a request by itself."""
        if self._connection is not None:
            self._connection.events.refused(refused)

    @property
    def events(self) -> RequestIntake:
        """Those of the newest connection."""
        return self._newest().events

    def audience(self, session_id: str | None) -> SessionClient:
        """Return the audience of a session; of one that is not open, that of everything else."""
        opened = None if session_id is None else self._open.get(session_id)
        return self._audience if opened is None or opened.audience is None else opened.audience

    def features(self, session_id: str) -> ClientFeatures:
        """Return the capabilities of a session's client."""
        return self.audience(session_id).features

    def send(self, session_id: str, event: SessionEvent) -> None:
        """Send an event of a session behind all that was sent before."""
        self.audience(session_id).outflow.send(session_id, event)

    # Opening and closing.

    @contextmanager
    def opening(self) -> Iterator[None]:
        """While Codex makes a thread, whose id nobody knows: nothing that it says is lost."""
        with self._newest().threadless.opening():
            yield

    @contextmanager
    def reopening(self, session_id: str) -> Iterator[HeldNotifications]:
        """While Codex opens a thread that it has: what is said of it is held, what it asks waits.

        Give what this gives to `open` or to a session; if neither comes to pass it is dropped.
        """
        connection = self._newest()
        held = HeldNotifications(connection.codex, session_id)
        with connection.threadless.opening(), connection.events.opening(session_id):
            try:
                yield held
            finally:
                opened = self._open.get(session_id)
                if opened is None or opened.held is not held:
                    held.leave()

    def open(
        self,
        session_id: str,
        params: dict[str, JsonValue],
        servers: frozenset[str] = frozenset(),
        *,
        held: HeldNotifications | None = None,
        state: SessionState | None = None,
        audience: SessionClient | None = None,
    ) -> None:
        """It is open, on the newest connection to Codex; its notifications count from now on.

        ``held`` is that of `reopening`, ``state`` what the mapping remembers of a replay,
        ``audience`` its own if it has one.
        """
        connection = self._newest()
        self.close(session_id)
        if held is not None:  # a thread that there was, so that a model can have named it
            for each in self._open.values():
                if each.session is not None:
                    each.session.sub_agents.forget(session_id)
        held = held or HeldNotifications(connection.codex, session_id)
        held.keep(connection.threadless.take(None, session_id))
        opened = OpenSession(connection, params, servers, held, state, audience=audience)
        self._open[session_id] = opened

    def close(self, session_id: str) -> None:
        """Forget a session, and take no more of its notifications. Idempotent."""
        opened = self._open.pop(session_id, None)
        if opened is not None:
            if opened.held is not None:
                opened.held.leave()
            if opened.session is not None:
                opened.session.detach()

    # Those that are open.

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._open

    def open_session(self, session_id: str) -> OpenSession | None:
        """A session that is open, whether it is known or not."""
        return self._open.get(session_id)

    def begun(self) -> list[Session]:
        """All that are known, and those with a first prompt that makes them so."""
        begun = [key for key, each in self._open.items() if each.session or each.early]
        return [session for session in map(self.known, begun) if session is not None]

    def known(self, session_id: str) -> Session | None:
        """The same as the client knows it: from now on it says what it is told."""
        opened = self._open.get(session_id)
        return None if opened is None else opened.session or self._make_known(session_id, opened)

    def ask_early(
        self,
        session_id: str,
        message: Sequence[TextBlock],
        on_accepted: Callable[[str], None] | None,
    ) -> EarlyTurn | None:
        """Have Codex begin the first prompt's turn; None where that has to wait for something."""
        opened = self._open.get(session_id)
        if opened is None or opened.session is not None or opened.early is not None:
            return None
        if opened.servers or not self.is_live(session_id):
            return None
        if not self.git_consent.stands(str(opened.params["cwd"])):
            return None
        from codex_acp.adapter.prompts.early_turn import EarlyTurn

        opened.early = EarlyTurn(opened.codex, session_id, message, on_accepted)
        return opened.early

    async def ensure_git_consent(
        self,
        codex: AppServerConnection,
        directory: str,
        session_id: str,
        audience: SessionClient | None = None,
        *,
        opens: bool = False,
    ) -> None:
        """Ask whether git may run what the directory names, before Codex runs git there.

        The session is open, or ``opens`` now for ``audience``: else its client does not know it,
        and is not asked. Raises RpcError -32600 without an agreement.
        """
        from codex_acp.adapter.sessions.activity import SessionActivity

        hears, opened = audience or self.audience(session_id), self._open.get(session_id)
        if opened is None or opened.session is None:
            activity = SessionActivity(lambda now: hears.outflow.send(session_id, now))
            asking = activity.asking_first
        else:
            asking = opened.session.prompts.asking
        asked = hears if opens or opened is not None else None
        await self.git_consent.ensure(codex, directory, session_id, asked, asking)

    def is_live(self, session_id: str) -> bool:
        """Whether Codex has the session's thread loaded, and reports to us what happens in it."""
        opened = self._open[session_id]
        prompts = None if opened.session is None else opened.session.prompts
        busy = prompts is not None and prompts.busy and prompts.reviewing is None
        return (
            (not opened.unloaded or busy)  # what runs goes on as it is
            and opened.connection is self._connection
            and not opened.connection.codex.closed
        )

    def reopen_all(self) -> None:
        """Have each thread resumed before its next turn: the params of opening have changed."""
        for opened in self._open.values():
            opened.unloaded = True

    def move(self, session_id: str, held: HeldNotifications) -> None:
        """The session's thread was resumed on the newest connection; ``held`` is of `reopening`."""
        opened = self._open[session_id]
        opened.connection, opened.unloaded = self._newest(), False
        opened.servers = given_servers(opened.params)  # they start anew
        session = opened.session
        assert session is not None
        self._pace(session_id, opened.connection.codex)
        session.move(opened.connection.codex, self._settle(session_id, opened.connection))
        session.follow(held)

    def _make_known(self, session_id: str, opened: OpenSession) -> Session:
        from codex_acp.adapter.sessions.session import Session

        _ = opened.connection.events  # which hears of items before the session does
        self._pace(session_id, opened.codex)
        audience = self.audience(session_id)
        session = opened.session = Session(
            session_id,
            opened.codex,
            audience.outflow,
            self._spawn,
            audience.features,
            self._settle(session_id, opened.connection),
            state=opened.state,
            roots=opened.roots,
            may_be_below=lambda thread_id: self._may_be_below(session_id, thread_id),
            earlier=opened.said_of,
        )
        session.ensure_git_consent = lambda: self.ensure_git_consent(
            opened.codex, str(opened.params["cwd"]), session_id
        )
        session.on_unloaded = lambda: self._unloaded(opened)
        if self._on_known is not None:
            self._on_known(session, opened)
        if opened.early is not None:  # before it hears of the turn
            session.begin(opened.early)
        held, opened.held, opened.state, opened.early = opened.held, None, None, None
        session.follow(held)
        return session

    def _unloaded(self, opened: OpenSession) -> None:
        """Have a session's thread resumed before it is used; this side has not let go of it."""
        if not opened.unloaded and opened.session is not None:
            opened.unloaded = True
            opened.session.say(CLOSED_BY_CODEX)

    def _settle(self, session_id: str, connection: _Connection) -> Callable[[str | None], None]:
        def settle(turn_id: str | None) -> None:
            events = connection.events
            if turn_id is not None:
                events.turn_over(session_id, turn_id)
                return
            # Codex leaves a sub-agent running when the turn above it is interrupted.
            for thread_id, turn_id in events.items.running_below(session_id):
                self._interrupt(connection.codex, thread_id, turn_id)
            events.prompt_cancelled(session_id)

        return settle

    def not_below(self, session_id: str) -> None:
        """Raises RpcError -32602 for a sub-agent's session: its work is the agent's to give.

        A thread that a model has only named may be opened: that takes it out of where it was named.
        """
        if self.above(canonical_id(session_id)) is not None:
            raise sub_agent_session(session_id)

    def above(self, thread_id: str) -> Session | None:
        """The open session in which Codex has started a thread as a sub-agent's; None: in none."""
        root = self._root_of(thread_id)
        return root if root is not None and root.sub_agents.has_started(thread_id) else None

    def _may_be_below(self, session_id: str, thread_id: str) -> bool:
        """Whether a thread may be below a session: no client has opened it, and no other has it."""
        connection = self._open[session_id].connection
        if thread_id in connection.codex.opened_threads:
            return False
        above = connection.events.items.ancestors_of(thread_id)
        return next((each for each in above if each in self._open), session_id) == session_id

    def _root_of(self, thread_id: str) -> Session | None:
        """The open session below which a sub-agent's thread is; None if it is none's."""
        sessions = [each.session for each in self._open.values() if each.session is not None]
        return next((each for each in sessions if thread_id in each.sub_agents), None)

    def cancel_sub_agent(self, thread_id: str) -> bool:
        """Interrupt a sub-agent and those below it, and settle what they ask; whether it is one."""
        root = self._root_of(thread_id)
        if root is None:
            return False
        connection = self._open[root.id].connection
        items = connection.events.items
        below, turn_id = items.running_below(thread_id), items.running_turn(thread_id)
        for each in below if turn_id is None else [(thread_id, turn_id), *below]:
            self._interrupt(connection.codex, *each)
        connection.events.sub_agents_cancelled(frozenset([thread_id, *(t for t, _ in below)]))
        return True

    def _interrupt(self, codex: AppServerConnection, thread_id: str, turn_id: str) -> None:
        from codex_acp.adapter.prompts.turn_calls import TurnCalls

        self._spawn(lambda: TurnCalls(codex, thread_id).interrupt(turn_id))

    def _pace(self, session_id: str, codex: AppServerConnection) -> None:
        """While the client is too slow, nothing is read from this Codex."""
        outflow = self.audience(session_id).outflow
        outflow.when_full(
            lambda full: codex.pause_reading(outflow) if full else codex.resume_reading(outflow)
        )

    def _newest(self) -> _Connection:
        assert self._connection is not None, "Codex was asked before a session is opened"
        return self._connection

    def _runner(
        self, codex: AppServerConnection, generation: int, items: Items
    ) -> ServerRequestRunner:
        from codex_acp.adapter.server_requests import ServerRequestRunner
        from codex_acp.routing.route import RoutingContext

        def interrupt(thread_id: str, turn_id: str) -> None:
            running = items.running_turn(thread_id) or turn_id  # a review runs within another turn
            self._interrupt(codex, thread_id, running)

        def context(thread_id: str | None) -> RoutingContext:
            root = None if thread_id is None else items.root_of(thread_id)
            return RoutingContext(items, self.audience(root).features, self)

        return ServerRequestRunner(
            lambda session_id: self.audience(session_id).asks,
            generation,
            items,
            context,
            self.known,
            self._transcript,
            interrupt,
        )
