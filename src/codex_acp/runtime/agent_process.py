"""Run one agent: spawn it, exchange ``initialize``, give the agent's messages to its sessions.

Owns the process from the spawn to the end of its last child, and the time limit of every answer.
Must not decide when a process is started, nor know what a session does with an update.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from codex_acp.acp import acp_connection, agent_features
from codex_acp.acp.client_of_both_versions import ClientOfBothVersions
from codex_acp.errors import (
    ConnectionClosed,
    ErrorReply,
    InvalidPayload,
    ProcessExited,
    TransportError,
    UnsupportedVersion,
    how_ended,
)
from codex_acp.jsonrpc import (
    AUTHENTICATION_REQUIRED,
    DEFAULT_LINE_LIMIT,
    METHOD_NOT_FOUND,
    Notification,
)
from codex_acp.runtime.errors import (
    AgentLaunchError,
    AgentStartError,
    AnswerTimeout,
    AuthenticationRequired,
    MethodNotOffered,
)
from codex_acp.runtime.permissions import Handlers, SessionSink
from codex_acp.runtime.results import Update, unknown_update
from codex_acp.transport.child import ChildProcess, spawn
from codex_acp.transport.outbox import ReadingGate
from codex_acp.transport.shielding import finish, shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from codex_acp.acp import AgentFeatures
    from codex_acp.acp.types import InitializeResponse
    from codex_acp.runtime.agent_spec import AgentSpec
    from codex_acp.runtime.permissions import Services
    from codex_acp.transport.connection import Direction
    from codex_acp.transport.link import Link

T = TypeVar("T")

logger = logging.getLogger(__name__)
stderr_logger = logging.getLogger("codex_acp.runtime.stderr")

HELD_UPDATES: Final = 256
"""Most updates held for sessions that are opening: some agents send a few before the answer."""

HELD_BYTES: Final = 16 * 1024 * 1024
"""Bytes of held updates from which further updates are dropped."""

MAX_UNKNOWN: Final = 256
"""Most unknown session ids in one agent's updates that are logged."""

EXIT_SECONDS: Final = 1.0
"""Seconds for an agent to exit after its stdin is closed. An adapter takes half a second to end the
processes that it started. If it were killed earlier, these processes would be orphans."""

SHOWN_OUTPUT: Final = 200
"""Bytes that an error shows of a first line that is not JSON."""


class _Client(ClientOfBothVersions):
    """The client of one agent; reports to the `AgentProcess`."""

    process: AgentProcess
    """Set by `AgentProcess`, which makes the client."""

    def on_closed(self, error: TransportError | None) -> None:
        super().on_closed(error)
        self.process._note_end()  # before the open calls fail

    def _give_update(self, session_id: str, update: Update) -> None:
        """Deliver an update of any kind; the base class drops kinds that version 1 lacks."""
        self.process._deliver_update(session_id, update)


class AgentProcess:
    """The process of an agent. Call `start` once, and `aclose` at the end, even if the agent has
    ended. If the started agent ends without `kill`, `disconnect` or `aclose`, ``on_ended`` is
    called once with the error."""

    response: InitializeResponse
    """The answer to ``initialize``."""
    features: AgentFeatures
    """Capabilities that the agent advertised."""
    client: _Client
    """The agent's methods of version 1; they are translated for an agent of version 2."""
    lifetime: asyncio.Task[None]
    """Runs from the spawn until the agent and all its children have ended."""

    def __init__(
        self,
        spec: AgentSpec,
        services: Services,
        answer_seconds: float,
        on_ended: Callable[[TransportError], None],
    ) -> None:
        self.spec = spec
        self.services = services
        self._answer_seconds = answer_seconds
        self._sessions: dict[str, SessionSink] = {}
        self._opening = 0
        """Number of sessions that the agent is making, whose ids are not known yet."""
        self._held: list[tuple[str, Update]] = []
        """Session ids and updates of unknown sessions, while sessions are opening."""
        self._held_bytes = 0
        """Bytes of all updates that were held since a session began to open."""
        self._unknown_sessions: set[str] = set()
        """Ids in the agent's updates that are no session of ours; each is logged once."""
        self._first_garbage: bytes | None = None
        """Beginning of the first line before the handshake that is no JSON object."""
        self._stop = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_ended = on_ended
        self.failure: TransportError | None = None
        """Why the agent cannot be used any more; None while it can."""

    async def start(self) -> None:
        """Spawn the agent and exchange ``initialize`` with it. Raises AgentLaunchError,
        AgentStartError, ErrorReply, InvalidPayload, TransportError, and ends the process then."""
        self._connect()
        try:
            await shielded(self._started)
        except BaseException:
            await self.aclose()
            raise

    @property
    def agent(self) -> str:
        """Return the agent's name for messages."""
        return self.spec.name

    @property
    def stderr_tail(self) -> str:
        """Return the end of the agent's output on stderr."""
        return self._link.stderr_tail if isinstance(self._link, ChildProcess) else ""

    @property
    def sessions(self) -> tuple[SessionSink, ...]:
        """Return the sessions that are open on the agent now."""
        return tuple(self._sessions.values())

    async def ask(
        self, method: str, call: Awaitable[T], *, seconds: float | None = None, prompt: bool = False
    ) -> T:
        """Wait for the answer to a call of `client`, at most ``seconds``. The call of a ``prompt``
        has no limit, and does not lift the pause of `ReadingGate`, because the reader of the
        prompt's updates may be slow. Raises the errors of the call, and AnswerTimeout,
        MethodNotOffered, AuthenticationRequired."""
        limit = self._answer_seconds if seconds is None else seconds
        try:
            if prompt:
                return await call
            with anyio.fail_after(limit), self.gate:
                return await call
        except TimeoutError:
            raise AnswerTimeout(self.agent, method, limit) from None
        except ErrorReply as reply:
            if reply.code == METHOD_NOT_FOUND:
                raise MethodNotOffered(self.agent, method) from reply
            if reply.code == AUTHENTICATION_REQUIRED:
                raise AuthenticationRequired(reply, self.response.auth_methods) from reply
            raise

    def add_session(self, session_id: str, sink: SessionSink) -> None:
        """Give the updates and requests of a session to ``sink`` from now on."""
        self._sessions[session_id] = sink
        held, self._held = self._held, []
        for held_id, update in held:
            if held_id == session_id:
                sink.take_update(update)
            else:
                self._held.append((held_id, update))
        if self.failure is not None:
            sink.agent_ended()

    def remove_session(self, session_id: str, sink: SessionSink) -> None:
        """Give no more updates and requests of a session to ``sink``."""
        if self._sessions.get(session_id) is sink:
            del self._sessions[session_id]

    def is_open(self, session_id: str) -> bool:
        """Return whether this program has the session open on this process."""
        return session_id in self._sessions

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Hold updates of unknown sessions within the block, while the agent makes a session."""
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1
            if not self._opening:
                for session_id, _ in self._held:
                    self._warn_of_unknown(session_id)
                self._held.clear()
                self._held_bytes = 0

    async def disconnect(self) -> None:
        """End the connection without sending anything more; `aclose` must still be called."""
        self._stop.set()
        await self._link.aclose()

    def kill(self) -> None:
        """Kill the process and all its children now; `aclose` must still be called."""
        if isinstance(self._link, ChildProcess):
            self._link.kill_tree()
        self._stop.set()  # ends calls that wait for the agent

    async def aclose(self) -> None:
        """End the process and all its children, and tell its sessions. Completes if cancelled."""
        self._stop.set()
        await finish(self.lifetime)

    def _spawn(self) -> Link:
        spec = self.spec
        if spec.link is not None:
            return spec.link()
        logs_stderr = stderr_logger.isEnabledFor(logging.INFO)
        try:
            return spawn(
                spec.command,
                spec.environment,
                spec.cwd,
                name=self.agent,
                on_stderr_line=self._log_stderr if logs_stderr else None,
                exit_seconds=EXIT_SECONDS,
            )
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError) and error.filename == spec.command[0]
            why = "there is no such command" if missing else error
            raise AgentLaunchError(
                f"{self.agent} could not be started: {why}; "
                f"install {spec.command[0]!r} or give its full path"
            ) from error

    def _connect(self) -> None:
        self._link = self._spawn()
        connection = acp_connection(
            self._link,
            name=self.agent,
            line_limit=self.spec.line_limit or DEFAULT_LINE_LIMIT,
            on_line=self._note_first_garbage,
        )
        self._connection = connection
        self.gate: ReadingGate = ReadingGate(connection.pause_reading, connection.resume_reading)

        def take_invalid(notification: Notification, _error: InvalidPayload) -> None:
            unknown = unknown_update(notification)
            if unknown is not None:
                self._deliver_update(*unknown)

        handlers = Handlers(
            self.services,
            self._sessions.get,
            lambda notification: self._deliver_update(notification.session_id, notification.update),
            connection.drain,
        )
        self.client = _Client(
            connection,
            handlers.requests(),
            handlers.notifications(),
            self.spec.version,
            on_invalid_notification=take_invalid,
        )
        self.client.process = self
        loop = asyncio.get_running_loop()
        self.lifetime = loop.create_task(self._run(), name=f"agent {self.agent}")

    async def _run(self) -> None:
        """Run the agent from the handshake to its end, in a task of its own."""
        try:
            async with self.client:
                await self._until_stopped(self._initialize)
                if not self._stop.is_set():
                    self._started.set_result(None)
                    await self._until_stopped(self.client.wait_closed)
        except Exception as error:
            if self._started.done():
                logger.exception("the agent %s was ended by an error", self.agent)
            else:
                self._started.set_exception(error)
        finally:
            if not self._started.done():
                self._started.set_exception(ConnectionClosed(f"{self.agent} was closed here"))
            self._note_end()
            self._started.exception()  # counts as retrieved, also if `start` was cancelled

    async def _until_stopped(self, wait: Callable[[], Coroutine[object, object, None]]) -> None:
        """Call ``wait``; cancel the call when `_stop` is set."""
        waiting = asyncio.create_task(wait())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            stopping.cancel()
            await asyncio.wait({waiting, stopping})
        if not waiting.cancelled():
            waiting.result()

    async def _initialize(self) -> None:
        seconds = self.spec.start_seconds
        try:
            with anyio.fail_after(seconds):
                self.response = await self.client.introduce(self.services.introduction())
        except TimeoutError:
            raise self._no_agent(f"did not answer initialize within {seconds:g} seconds") from None
        except ProcessExited as error:
            ended = how_ended(error.returncode)
            raise self._no_agent(f"{ended} before it answered initialize") from error
        except ErrorReply as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            raise self._no_agent(f"refused initialize: {error.message}") from error
        except UnsupportedVersion as error:
            raise AgentStartError(self.agent, str(error)) from error
        self.features = agent_features(self.response.agent_capabilities)

    def _no_agent(self, problem: str) -> AgentStartError:
        """Return the error for a program that seems to be no ACP agent."""
        why = f"it {problem} (is it an ACP agent?)"
        if self._first_garbage is not None:
            why += f"; its stdout is not the protocol's, it began with {self._first_garbage!r}"
        return AgentStartError(self.agent, why, self.stderr_tail)

    def _note_end(self) -> None:
        """Set `failure`, once, and tell the sessions and ``on_ended``."""
        if self.failure is not None:
            return
        stopped_here = self._stop.is_set()
        why_closed = None if stopped_here else self._connection.why_closed
        self.failure = why_closed or ConnectionClosed(f"{self.agent} was closed here")
        for sink in self.sessions:
            sink.agent_ended()
        has_started = self._started.done() and self._started.exception() is None
        if has_started and not stopped_here:
            logger.warning("the agent %s has ended: %s", self.agent, self.failure)
            self._on_ended(self.failure)

    def _deliver_update(self, session_id: str, update: Update) -> None:
        sink = self._sessions.get(session_id)
        if sink is not None:
            sink.take_update(update)
        elif self._opening and len(self._held) < HELD_UPDATES and self._held_bytes < HELD_BYTES:
            self._held.append((session_id, update))
            self._held_bytes += len(update.model_dump_json(warnings=False))
        else:
            self._warn_of_unknown(session_id)

    def _warn_of_unknown(self, session_id: str) -> None:
        """Warn once for each of the first unknown sessions: the log must not fill up."""
        if session_id not in self._unknown_sessions and len(self._unknown_sessions) < MAX_UNKNOWN:
            self._unknown_sessions.add(session_id)
            text = "%s sends updates of %r, which is no session here"
            logger.warning(text, self.agent, session_id)

    def _note_first_garbage(self, direction: Direction, line: bytes) -> None:
        if direction == "received" and self._first_garbage is None and not self._started.done():
            start = line.lstrip()[:SHOWN_OUTPUT]
            if start and not start.startswith(b"{"):
                self._first_garbage = start

    def _log_stderr(self, line: str) -> None:
        with suppress(Exception):
            stderr_logger.info("%s: %s", self.agent, line)
