"""The sessions of one agent, and the connections to Codex that they are on.

A session is *opening* until Codex has answered, then *open*, in the end *closed*. An open session
holds its notifications, and gets its `Session` at its first use: the answer that opens the session
waits for no imports. A session outlives the connection on which it was opened (`Sessions.move`).
Must not know ACP's methods.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from codex_acp._json import list_at
from codex_acp._record import record
from codex_acp.adapter.prompts.early_turn import EarlyTurn
from codex_acp.adapter.server.threadless_notifications import (
    HeldNotifications,
    ThreadlessNotifications,
)
from codex_acp.adapter.sessions.git_consent import GitConsent
from codex_acp.adapter.sessions.opening_errors import sub_agent_session
from codex_acp.adapter.sessions.session_transcript import SessionTranscript
from codex_acp.mapping.session_setup import canonical_id, server_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.prompts.turn_calls import Interrupt
    from codex_acp.adapter.server.request_intake import RequestIntake
    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.sessions.session import Session
    from codex_acp.adapter.slash_commands import SessionCommands
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.approvals.running_items import Items
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.notification_router import NotificationSink
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.jsonrpc import JsonValue
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
    """One connection to Codex; its `RequestIntake` is made when something needs it. ``sessions``
    returns the sessions on a connection."""

    def __init__(
        self,
        codex: AppServerConnection,
        make_runner: Callable[[Items], ServerRequestRunner],
        sessions: Callable[[_Connection], list[OpenSession]],
        interrupt: Interrupt,
    ) -> None:
        self.codex = codex
        self._make_runner = make_runner
        self._interrupt = interrupt
        self._intake: RequestIntake | None = None
        self._held = HeldNotifications(codex, None)
        self.threadless: ThreadlessNotifications = ThreadlessNotifications(
            codex,
            lambda: [each.sink for each in sessions(self)],
            lambda: any(each.may_start_sub_agents() for each in sessions(self)),
        )
        codex.handle_others(self._handle)

    @property
    def intake(self) -> RequestIntake:
        """Return the sink that follows the connection's items, turns and requests."""
        if self._intake is None:
            from codex_acp.adapter.server.request_intake import RequestIntake

            self._intake = RequestIntake(self.codex, self._make_runner, self._interrupt)
            self._held.hand_over(self._intake)
        return self._intake

    @property
    def items(self) -> Items | None:
        """The items of the intake; None until `intake` is used."""
        return None if self._intake is None else self._intake.items

    async def _handle(self, request: ServerRequest) -> WireModel:
        """Answer a request that arrives before the intake is made."""
        return await self.intake.handle(request)


@record(eq=False)
class OpenSession:
    """A session that is open, with all that is needed to open it again on another connection."""

    connection: _Connection
    params: dict[str, JsonValue]
    """The client's arguments as params of a thread, made by `mapping.session_setup`."""
    roots: Mapping[str, str]
    """Working directory and additional directories → the real path of each at the opening."""
    awaited_mcp_servers: frozenset[str] = frozenset()
    """Names of the client's MCP servers that the first turn still has to wait for."""
    held: HeldNotifications | None = None
    """The thread's notifications; None once the session has its `Session`."""
    state: SessionState | None = None
    """The mapping's state after a replay; None once the session has its `Session`."""
    session: Session | None = None
    """None until the session is first used."""
    unloaded: bool = False
    """Whether the thread has to be resumed before its next turn, though its connection is open."""
    client: SessionClient | None = None
    """The session's own client, if it has one (over the network)."""
    early: EarlyTurn | None = None
    """The early turn of the first prompt; None once the session has its `Session`."""
    commands: SessionCommands | None = None
    """The slash commands; set by `SessionServices`."""
    answered: bool = False
    """Whether the opening was answered, so that the client knows the session."""

    @property
    def cwd(self) -> str:
        return str(self.params["cwd"])

    @property
    def codex(self) -> AppServerConnection:
        """The connection that the session is on now."""
        return self.connection.codex

    def take_unclaimed(self, thread_id: str) -> list[tuple[str, JsonValue]]:
        """Return the notifications of a thread that no sink has got, and forget them."""
        return self.connection.threadless.take(thread_id)

    @property
    def prompted(self) -> bool:
        """Whether Codex was asked for a turn since the session was opened."""
        session = self.session
        return self.early is not None or (session is not None and session.driver.machine.calls > 0)

    def may_start_sub_agents(self) -> bool:
        """Return whether a prompt or a sub-agent runs, which may start another sub-agent."""
        if self.session is None:
            return self.early is not None
        return self.session.driver.busy or self.session.sub_agents.busy

    @property
    def sink(self) -> NotificationSink:
        """The session's sink for notifications without a thread."""
        sink = self.held if self.session is None else self.session.thread
        assert sink is not None, "until there is a `Session`, notifications are held"
        return sink


class Sessions:
    """The sessions of one agent. ``spawn`` starts a task that may outlive its request; ``client``
    is the client of the sessions that have none of their own."""

    def __init__(self, spawn: Spawn, client: SessionClient, transcript: Transcript) -> None:
        self._spawn = spawn
        self._client = client
        self._log = transcript
        self.transcript: SessionTranscript = SessionTranscript(transcript, lambda: self.generation)
        self.git_consent: GitConsent = GitConsent(self.transcript)
        """Consents of the person to programs that git may run for a session's directory."""
        self.generation: int = 0
        """Number of the newest connection to Codex, from 1."""
        self._connection: _Connection | None = None
        self._open: dict[str, OpenSession] = {}
        self.on_session_made: Callable[[Session, OpenSession], None] = lambda *_: None
        """Called with each new `Session`, before its first notification; set by `CodexAgent`."""
        self.on_sub_agent: Callable[[str, str, str], None] = lambda *_: None
        """Called with the ids of session, new sub-agent and its parent; set by `CodexAgent`."""

    # The connections to Codex.

    def add_connection(self, codex: AppServerConnection) -> None:
        """Make a new connection to Codex the newest one."""
        number = self.generation = self.generation + 1
        self._connection = _Connection(
            codex,
            lambda items: self._runner_for(codex, number, items),
            lambda connection: [s for s in self._open.values() if s.connection is connection],
            lambda thread_id, turn_id: self._interrupt(codex, thread_id, turn_id),
        )

    def on_refused(self, request: RefusedRequest) -> None:
        """Show that the connection refused a request of Codex without routing it."""
        if self._connection is not None:
            self._connection.intake.ready_runner().note_refused(request)

    @property
    def intake(self) -> RequestIntake:
        """Return the intake of the newest connection."""
        return self._newest().intake

    def client_of(self, session_id: str | None) -> SessionClient:
        """Return the client of a session; the agent's client for None or an unopened session."""
        opened = None if session_id is None else self._open.get(session_id)
        return self._client if opened is None or opened.client is None else opened.client

    def features(self, session_id: str) -> ClientFeatures:
        return self.client_of(session_id).features

    def send(self, session_id: str, event: SessionEvent) -> None:
        self.client_of(session_id).outflow.send(session_id, event)

    # Opening and closing.

    def opening(self) -> AbstractContextManager[None]:
        """Hold notifications of unknown threads in a ``with`` block, while Codex makes a thread."""
        return self._newest().threadless.opening()

    @contextmanager
    def reopening(self, session_id: str) -> Iterator[HeldNotifications]:
        """Hold a stored thread's notifications and requests in a ``with`` block, while Codex opens
        the thread. Without a call of `open` or `move` with the result, drop the notifications."""
        connection = self._newest()
        held = HeldNotifications(connection.codex, session_id)
        with connection.threadless.opening(), connection.intake.opening(session_id):
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
        client: SessionClient | None = None,
    ) -> None:
        """Note that a session is open on the newest connection to Codex.

        ``held`` comes from `reopening`, ``state`` is the mapping's state after a replay, ``client``
        is the session's own client, if it has one."""
        connection = self._newest()
        self.close(session_id)
        if held is not None:  # a stored thread, which a model may have named as a sub-agent's
            for each in self._open.values():
                if each.session is not None:
                    each.session.sub_agents.forget(session_id)
        held = held or HeldNotifications(connection.codex, session_id)
        held.put_first(connection.threadless.take(None, session_id))
        paths = [params.get("cwd"), *list_at(params, "runtimeWorkspaceRoots")]
        roots = {path: os.path.realpath(path) for path in paths if isinstance(path, str)}
        opened = OpenSession(connection, params, roots, servers, held, state, client=client)
        self._open[session_id] = opened

    def close(self, session_id: str) -> None:
        """Forget a session and unsubscribe from its thread. Idempotent."""
        opened = self._open.pop(session_id, None)
        if opened is not None:
            if opened.held is not None:
                opened.held.leave()
            if opened.session is not None:
                opened.session.detach()

    def put_back(self, session_id: str, earlier: OpenSession) -> None:
        """Restore the ``earlier`` entry of a session, because opening the session again failed. The
        next turn resumes the thread first."""
        self.close(session_id)
        earlier.unloaded = True
        self._open[session_id] = earlier

    # Open sessions.

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._open

    def open_session(self, session_id: str) -> OpenSession | None:
        """Return the entry of an open session."""
        return self._open.get(session_id)

    def used_sessions(self) -> list[Session]:
        """Return all sessions that were used; makes the `Session` of an early first prompt."""
        used = [key for key, each in self._open.items() if each.session or each.early]
        return [session for session in map(self.find, used) if session is not None]

    def find(self, session_id: str) -> Session | None:
        """Return the `Session` of an open session, made on first use; None if it is not open."""
        opened = self._open.get(session_id)
        return None if opened is None else opened.session or self._make_session(session_id, opened)

    def ask_early(
        self,
        session_id: str,
        message: Sequence[TextBlock],
        on_accepted: Callable[[str], None] | None,
    ) -> EarlyTurn | None:
        """Send ``turn/start`` for a session's first prompt; None if the prompt has to wait."""
        opened = self._open.get(session_id)
        if opened is None or opened.session is not None or opened.early is not None:
            return None
        if opened.awaited_mcp_servers or not self.is_live(session_id):
            return None
        if not self.git_consent.is_given(opened.cwd):
            return None
        opened.early = EarlyTurn(opened.codex, session_id, message, on_accepted)
        return opened.early

    async def ensure_git_consent(
        self,
        codex: AppServerConnection,
        directory: str,
        session_id: str,
        client: SessionClient | None = None,
        *,
        opens: bool = True,
    ) -> None:
        """Ask the person, before Codex runs git in a directory, for consent to the programs that
        git's configuration of the directory names. Only a client that has the session open, or
        ``opens`` it now, can show the question. Raises RpcError -32600 without consent."""
        from codex_acp.adapter.sessions.activity import SessionActivity

        session_client = client or self.client_of(session_id)
        opened = self._open.get(session_id)
        if opened is None or opened.session is None:
            activity = SessionActivity(lambda now: session_client.outflow.send(session_id, now))
            asking = activity.asking_first
        else:
            asking = opened.session.driver.asking
        knows_session = opens or opened is not None
        await self.git_consent.ensure(
            codex, directory, session_id, session_client if knows_session else None, asking
        )

    def is_live(self, session_id: str) -> bool:
        """Return whether the newest connection has the session's thread loaded."""
        opened = self._open[session_id]
        if opened.connection is not self._connection or opened.codex.closed:
            return False
        driver = None if opened.session is None else opened.session.driver
        # A prompt that runs needs no resume. While the person reviews a plan, no turn runs.
        has_turn = driver is not None and driver.busy and driver.reviewing is None
        return has_turn or not opened.unloaded

    def mark_all_unloaded(self) -> None:
        """Have each thread resumed before its next turn, because the params of threads are new."""
        for opened in self._open.values():
            opened.unloaded = True

    def move(self, session_id: str, held: HeldNotifications) -> None:
        """Move a session to the newest connection; ``held`` comes from `reopening`."""
        opened = self._open[session_id]
        opened.connection, opened.unloaded = self._newest(), False
        opened.awaited_mcp_servers = server_names(opened.params)  # this Codex starts them again
        session = opened.session
        assert session is not None
        self._apply_back_pressure(session_id, opened.codex)
        session.move(opened.codex)
        session.thread.state.elsewhere = self._may_be_elsewhere(session_id, opened)
        session.thread.follow(held)

    def _make_session(self, session_id: str, opened: OpenSession) -> Session:
        from codex_acp.adapter.sessions.session import Session
        from codex_acp.mapping.state import SessionState

        _ = opened.connection.intake  # make it now: it must see items before the session does
        self._apply_back_pressure(session_id, opened.codex)
        client = self.client_of(session_id)
        state = opened.state or SessionState(client.features)
        state.roots = opened.roots
        state.elsewhere = self._may_be_elsewhere(session_id, opened)
        session = opened.session = Session(
            session_id,
            opened.codex,
            client.outflow,
            self._spawn,
            state,
            settle=partial(self._settle, session_id, opened),
            ensure_git_consent=lambda: self.ensure_git_consent(
                opened.codex, opened.cwd, session_id
            ),
            on_unloaded=partial(self._note_unloaded, opened),
            may_be_below=partial(self._may_be_below, session_id),
            on_sub_agent=lambda *threads: self.on_sub_agent(session_id, *threads),
            earlier=opened.take_unclaimed,
        )
        self.on_session_made(session, opened)
        if opened.early is not None:  # before the notifications of that turn
            session.begin(opened.early)
        held = opened.held
        opened.held = opened.state = opened.early = None
        session.thread.follow(held)
        runner = opened.connection.intake.runner
        if runner is not None:
            runner.opened_again(session_id)
        return session

    def _may_be_elsewhere(self, session_id: str, opened: OpenSession) -> bool:
        return bool(opened.connection.intake.items.environments_of(session_id))

    def _note_unloaded(self, opened: OpenSession) -> None:
        """Note that Codex unloaded a session's thread, and say so if the adapter has not asked."""
        if not opened.unloaded and opened.session is not None:
            opened.unloaded = True
            opened.session.say(CLOSED_BY_CODEX)

    def _settle(self, session_id: str, opened: OpenSession, turn_id: str | None) -> None:
        """Withdraw the person's questions of a turn. For ``turn_id`` None, withdraw all questions,
        and interrupt the sub-agents."""
        intake = opened.connection.intake
        if turn_id is not None:
            if intake.runner is not None:
                intake.runner.turn_ended(session_id, turn_id)
            return
        # Codex leaves a sub-agent running when the turn above it is interrupted.
        for agent_thread, agent_turn in intake.items.running_sub_agents_of(session_id):
            self._interrupt(opened.codex, agent_thread, agent_turn)
        if intake.runner is not None:
            intake.runner.prompt_cancelled(session_id)

    def rights_changed(self, session_id: str) -> bool:
        """Call `Session.rights_changed`; return False for a session that was never used."""
        session = self._open[session_id].session
        return session is not None and session.rights_changed()

    def running_turns(self, session_id: str) -> set[tuple[str, object]]:
        """Return thread and turn of each turn that runs in a session and in its sub-agents. The
        session's own turn is also there by its `Run`, because Codex may not have named the turn."""
        opened = self._open[session_id]
        turns: set[tuple[str, object]] = set()
        if opened.session is not None:
            machine = opened.session.driver.machine
            if machine.run is not None:
                turns.add((session_id, (machine, machine.run.number)))
        items = opened.connection.items
        if items is not None:
            turns |= {*items.running_sub_agents_of(session_id)}
            turns.add((session_id, items.running_turn(session_id)))
        return {(thread, turn) for thread, turn in turns if turn is not None}

    def sub_agents_of(self, session_id: str) -> list[str]:
        """Return the threads of a session's sub-agents, at any depth, running or not."""
        items = self._open[session_id].connection.items
        return [] if items is None else items.sub_agents_of(session_id)

    def refuse_sub_agent(self, session_id: str) -> None:
        """Raise RpcError -32602 for a thread that Codex started as a sub-agent's: no client may use
        it. A thread that a model has only named may be opened, and belongs to no other session."""
        if self.session_above(canonical_id(session_id)) is not None:
            raise sub_agent_session(session_id)

    def session_above(self, thread_id: str) -> Session | None:
        """Return the open session in which Codex started a thread as a sub-agent's, or None."""
        root = self._root_of(thread_id)
        return root if root is not None and root.sub_agents.has_started(thread_id) else None

    def _may_be_below(self, session_id: str, thread_id: str) -> bool:
        """Return whether a thread may be a sub-agent of a session: no client has opened the thread,
        and it is below no other open session."""
        connection = self._open[session_id].connection
        if thread_id in connection.codex.opened_threads:
            return False
        above = connection.intake.items.ancestors_of(thread_id)
        return next((each for each in above if each in self._open), session_id) == session_id

    def _root_of(self, thread_id: str) -> Session | None:
        """Return the open session that has a sub-agent of this thread, or None."""
        sessions = [each.session for each in self._open.values() if each.session is not None]
        return next((each for each in sessions if thread_id in each.sub_agents), None)

    def cancel_sub_agent(self, thread_id: str) -> bool:
        """Interrupt a sub-agent and all below it; return whether the thread is a sub-agent's."""
        root = self._root_of(thread_id)
        if root is None:
            return False
        connection = self._open[root.id].connection
        items = connection.intake.items
        running, own_turn = items.running_sub_agents_of(thread_id), items.running_turn(thread_id)
        if own_turn is not None:
            running.insert(0, (thread_id, own_turn))
        for thread, turn in running:
            self._interrupt(connection.codex, thread, turn)
        threads = frozenset([thread_id, *(thread for thread, _ in running)])
        if connection.intake.runner is not None:
            connection.intake.runner.sub_agents_cancelled(threads)
        return True

    def _interrupt(self, codex: AppServerConnection, thread_id: str, turn_id: str) -> None:
        from codex_acp.adapter.prompts.turn_calls import TurnCalls

        self._spawn(lambda: TurnCalls(codex, thread_id).interrupt(turn_id))

    def _apply_back_pressure(self, session_id: str, codex: AppServerConnection) -> None:
        """Pause reading from Codex while too much waits to be written to the session's client."""
        outflow = self.client_of(session_id).outflow
        outflow.when_full(
            lambda full: codex.pause_reading(outflow) if full else codex.resume_reading(outflow)
        )

    def _newest(self) -> _Connection:
        assert self._connection is not None, "no session opens before Codex is connected"
        return self._connection

    def _runner_for(
        self, codex: AppServerConnection, generation: int, items: Items
    ) -> ServerRequestRunner:
        from codex_acp.adapter.server_requests import ServerRequestRunner
        from codex_acp.routing.route import RoutingContext

        def interrupt(thread_id: str, turn_id: str) -> None:
            running = items.running_turn(thread_id) or turn_id  # a review runs in an inner turn
            self._interrupt(codex, thread_id, running)

        def context(thread_id: str | None) -> RoutingContext:
            root = None if thread_id is None else items.root_of(thread_id)
            return RoutingContext(items, self.client_of(root).features, self)

        return ServerRequestRunner(
            codex, lambda session_id: self.client_of(session_id).questioner, generation, items,
            context, self.find, self._log, interrupt,
        )  # fmt: skip
