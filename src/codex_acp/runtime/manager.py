"""Start the agents of a program, share their processes among sessions, and end all of them.

Owns when a process starts and which sessions share the process. Must not know what a session does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from anyio import to_thread
from pydantic import ValidationError

from codex_acp._files import absolute
from codex_acp.acp.types import DeleteSessionRequest, ListSessionsRequest, NewSessionRequest
from codex_acp.errors import (
    MisuseError,
    PeerError,
    must_be_count,
    must_be_seconds,
    refuse_unless,
    several,
)
from codex_acp.runtime.agent_process import AgentProcess
from codex_acp.runtime.agent_session import WantedSession, open_session
from codex_acp.runtime.agent_spec import BUILT_IN, AgentSpec
from codex_acp.runtime.errors import CrashLoop, MethodNotOffered, StoreError
from codex_acp.runtime.filesystem import FileAccess
from codex_acp.runtime.permissions import PermissionPolicy, Services, answering, reject_all
from codex_acp.runtime.session import Session
from codex_acp.runtime.session_store import SessionStore, StoredSession
from codex_acp.runtime.terminals import TerminalAccess
from codex_acp.transport.remote_agent import is_agent_url
from codex_acp.transport.restart_limit import RestartLimit, Restarts
from codex_acp.transport.shielding import finish, running_loop, shielded

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence

    from codex_acp.acp import AgentFeatures
    from codex_acp.acp.types import AuthMethod, Implementation, McpServer, SessionInfo
    from codex_acp.runtime.permissions import FormCallback, UrlCallback
    from codex_acp.transport.remote_address import Token

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 120.0
"""Seconds to wait for any answer but a prompt's. A new session may have to start MCP servers."""

BUSY_SECONDS: Final = 10.0
"""Seconds to wait for a session in which another process works: a short turn takes less."""

OPENING_AT_ONCE: Final = 8
"""Sessions that are opened at the same time. Each opening starts processes. More openings at once
would be slower, and might reach their time limits."""

MAX_PAGES: Final = 1000
"""Most pages of ``session/list`` that are read: a faulty agent's list may never end."""


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """Answer of an agent to ``initialize``."""

    info: Implementation | None
    features: AgentFeatures
    auth_methods: tuple[AuthMethod, ...]


class AgentRuntime:
    """Runs any ACP agents. The end of this async context manager ends all agents.

    ``agents`` adds agents, by name, to "codex" and "claude".

    These arguments answer the agents' requests, and are advertised to the agents:

    * ``permissions`` answers permission requests, see `PermissionPolicy`; by default all are
      rejected.
    * ``on_form`` and ``on_url`` answer elicitations. The mode of a missing function is not
      advertised. ``on_url_done`` is called with the ``elicitation_id`` when the page is done.
    * ``files`` lets agents read and write files, confined to the session's directories.
    * ``terminals`` lets agents run commands, as this user and not confined.

    ``store`` remembers the sessions. ``answer_seconds`` limits the wait for every answer but a
    prompt's, ``busy_seconds`` the wait for a session in which another process works.
    ``opening_at_once`` limits the sessions that are opened at the same time. ``restarts`` says
    after how many unexpected ends an agent is not started for a while.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentSpec] | None = None,
        *,
        permissions: PermissionPolicy = reject_all,
        on_form: FormCallback | None = None,
        on_url: UrlCallback | None = None,
        on_url_done: Callable[[str], None] | None = None,
        files: FileAccess | None = None,
        terminals: TerminalAccess | None = None,
        store: SessionStore | None = None,
        answer_seconds: float = ANSWER_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        opening_at_once: int = OPENING_AT_ONCE,
        restarts: RestartLimit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        refuse_unless(callable(permissions), "permissions is a function", permissions)
        for name, function in (
            ("on_form", on_form), ("on_url", on_url), ("on_url_done", on_url_done),
        ):  # fmt: skip
            refuse_unless(function is None or callable(function), f"{name} is a function", function)
        for name, value, kind in (
            ("files", files, FileAccess), ("terminals", terminals, TerminalAccess),
            ("store", store, SessionStore), ("restarts", restarts, RestartLimit),
        ):  # fmt: skip
            refuse_unless(isinstance(value, kind | None), f"{name} is a {kind.__name__}", value)
        must_be_seconds("answer_seconds", answer_seconds)
        if busy_seconds != 0:
            must_be_seconds("busy_seconds", busy_seconds)
        must_be_count("opening_at_once", opening_at_once)
        self._limit = restarts or RestartLimit()
        must_be_count("the count of a RestartLimit", self._limit.count)
        must_be_seconds("the seconds of a RestartLimit", self._limit.seconds)
        given: Any = agents or {}
        if not isinstance(given, Mapping) or not all(
            isinstance(k, str) and isinstance(v, AgentSpec) for k, v in given.items()
        ):
            raise MisuseError("agents maps names to AgentSpecs")
        self.agents: Mapping[str, AgentSpec] = {**BUILT_IN, **given}
        self._services = Services(permissions, on_form, on_url, on_url_done, files, terminals)
        self._store = store
        self._answer_seconds = answer_seconds
        self._busy_seconds = busy_seconds
        self._openings = asyncio.Semaphore(opening_at_once)
        self._clock = clock
        self._restarts: dict[tuple[object, ...], Restarts] = {}
        """`AgentSpec.key` → the times of the unexpected ends."""
        self._last_end: dict[tuple[object, ...], Exception] = {}
        """`AgentSpec.key` → the error of the last unexpected end."""
        self._shared: dict[tuple[object, ...], asyncio.Task[AgentProcess]] = {}
        """`AgentSpec.key` → the start of the shared process."""
        self._starts: set[asyncio.Task[AgentProcess]] = set()
        """All starts that have not ended, of shared processes and others."""
        self._processes: set[AgentProcess] = set()
        self._sessions: set[Session] = set()
        self._closing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"AgentRuntime({sorted(self.agents)!r}, sessions={len(self._sessions)})"

    def open(
        self,
        agent: str | AgentSpec = "codex",
        *,
        cwd: str | os.PathLike[str] | None = None,
        session_id: str | None = None,
        key: str | None = None,
        or_new: bool = True,
        fork_if_busy: bool = False,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[str | os.PathLike[str]] = (),
        permissions: PermissionPolicy | None = None,
        token: Token | None = None,
    ) -> _Opening:
        """Open a session in ``cwd``, by default the current directory.

        Await the result, or use it with ``async with``.

        ``agent`` is a name, a spec, or the URL of an agent that accepts network clients (``ws://``,
        ``wss://``, ``http://`` or ``https://``), which gets ``token`` as ``Authorization: Bearer``.

        ``session_id`` names an earlier session. The agent loads the session, or resumes it if the
        agent cannot load sessions. If the session is gone, or the agent can do neither, a new
        session is opened, and `Session.opened` says why; with ``or_new`` False, the error is
        raised. If another process works in the session, the runtime waits ``busy_seconds``, then
        raises SessionBusy. With ``fork_if_busy``, a copy is opened instead.

        ``key`` is the program's own name for the conversation. If the store has a session with this
        key, that session is opened again. ``permissions`` is the policy of this session.

        Raises AgentLaunchError, AgentStartError, TransportError, CrashLoop; ErrorReply if the agent
        refuses, which may be AuthenticationRequired or SessionBusy; AnswerTimeout,
        MethodNotOffered, StoreError.
        """
        if key is not None and self._store is None:
            raise MisuseError("a key needs a store; give the runtime one")
        for name, text in (("session_id", session_id), ("key", key)):
            refuse_unless(isinstance(text, str | None), f"{name} is a text", text)
        is_policy = permissions is None or callable(permissions)
        refuse_unless(is_policy, "permissions is a function", permissions)
        servers = [*several("mcp_servers", mcp_servers)]
        folders = several("additional_directories", additional_directories)
        directory = absolute("the working directory (cwd)", "." if cwd is None else cwd)
        try:
            request = NewSessionRequest(cwd=directory, mcp_servers=servers)
        except ValidationError:  # its message may show secrets
            msg = "mcp_servers has servers as StdioMcpServer, HttpMcpServer or SseMcpServer"
            raise MisuseError(msg) from None
        wanted = WantedSession(
            cwd=directory,
            session_id=session_id,
            mcp_servers=tuple(request.mcp_servers),
            directories=tuple(absolute("a directory", folder) for folder in folders),
            policy=permissions,
            or_new=or_new,
            fork_if_busy=fork_if_busy,
            busy_seconds=self._busy_seconds,
        )
        return _Opening(partial(self._open, self._spec(agent, token), wanted, key))

    async def describe(self, agent: str | AgentSpec = "codex") -> AgentDescription:
        """Return the agent's answer to ``initialize``; start the agent if it does not run."""
        async with self._borrowed(self._spec(agent)) as process:
            methods = tuple(process.response.auth_methods)
            return AgentDescription(process.response.agent_info, process.features, methods)

    async def sessions(
        self, agent: str | AgentSpec = "codex", *, cwd: str | os.PathLike[str] | None = None
    ) -> list[SessionInfo]:
        """Return the agent's list of sessions, of one directory or of all. Raises
        MethodNotOffered."""
        spec = self._spec(agent)
        async with self._borrowed(spec) as process:
            if not process.features.list_sessions:
                raise MethodNotOffered(process.agent, "session/list")
            request = ListSessionsRequest()
            if cwd is not None:
                request.cwd = absolute("the working directory (cwd)", cwd)
            sessions: list[SessionInfo] = []
            cursors: set[str] = set()
            while len(cursors) < MAX_PAGES:
                call = process.client.session_list(request)
                page = await process.ask("session/list", call)
                sessions += page.sessions
                cursor = page.next_cursor
                if cursor is None:
                    return sessions
                if cursor in cursors:
                    raise PeerError(f"{process.agent} gave the same cursor of session/list twice")
                cursors.add(cursor)
                request = request.model_copy(update={"cursor": cursor})
            return sessions

    async def delete(self, agent: str | AgentSpec, session_id: str) -> None:
        """Delete a session that is not open, at the agent and in the store. Raises
        MethodNotOffered. A session that does not exist is no error."""
        refuse_unless(isinstance(session_id, str), "session_id is a text", session_id)
        spec = self._spec(agent)
        async with self._borrowed(spec) as process:
            if not process.features.delete_session:
                raise MethodNotOffered(process.agent, "session/delete")
            request = DeleteSessionRequest(session_id=session_id)
            await process.ask("session/delete", process.client.session_delete(request))
        if self._store is not None:
            await to_thread.run_sync(self._store.remove, spec.name, session_id)

    def kill(self) -> None:
        """Kill every agent and its child processes at once; `aclose` must still be called. Agents
        with a link are not killed. Takes up to 0.1 s for each agent."""
        for process in tuple(self._processes):
            process.kill()

    async def aclose(self) -> None:
        """Close every session and end every agent, even if this call is cancelled."""
        if self._closing is None:
            self._closing = self._own_loop().create_task(self._close())
        if not answering.get():  # closing waits for tasks that answer a request, perhaps this one
            await finish(self._closing)

    async def __aenter__(self) -> Self:
        self._own_loop()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def _spec(self, agent: str | AgentSpec, token: Token | None = None) -> AgentSpec:
        """Return the spec of an agent. Raises MisuseError, also if the runtime is closed."""
        self._must_be_open()
        if isinstance(agent, str) and is_agent_url(agent):
            return AgentSpec.remote(agent, token)
        if token is not None:
            msg = "a token is for the URL of an agent; give it to AgentSpec.remote otherwise"
            raise MisuseError(msg)
        spec: object = self.agents.get(agent) if isinstance(agent, str) else agent
        if not isinstance(spec, AgentSpec):
            known = ", ".join(sorted(self.agents))
            msg = f"there is no agent {agent!r}; known are {known}; AgentSpec([...]) has a command"
            raise MisuseError(msg)
        if spec.version == 2 and (self._services.files or self._services.terminals):
            raise MisuseError(f"{spec.name} is to speak version 2 of ACP, without files, terminals")
        return spec

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop. Raises MisuseError if the processes belong to another loop."""
        loop = running_loop()
        if self._loop is None or self._loop.is_closed():
            self._loop = loop
        if self._loop is not loop:
            raise MisuseError("a runtime belongs to the event loop in which it was first used")
        return loop

    def _must_be_open(self) -> None:
        if self._closing is not None:
            raise MisuseError("the runtime was closed")

    async def _open(self, spec: AgentSpec, wanted: WantedSession, key: str | None) -> Session:
        if key is not None and self._store is not None and wanted.session_id is None:
            record = await to_thread.run_sync(self._store.find, spec.name, key)
            if record is not None:
                wanted = replace(wanted, session_id=record.session_id)
        async with self._openings:
            process = await self._usable_process(spec)
        try:
            state, opened = await open_session(process, wanted, self._openings)
        except BaseException:
            if not spec.shared:
                await process.aclose()
            raise
        session = Session(state, opened, self._forget_session)
        self._sessions.add(session)
        try:
            if self._store is not None:
                title = session.title
                stored = StoredSession(session.agent, session.session_id, session.cwd, key, title)
                await to_thread.run_sync(self._store.put, stored)
        except BaseException:
            await session.aclose()
            raise
        return session

    async def _forget_session(self, session: Session) -> None:
        """Drop a session that was closed or deleted; note that in the store."""
        self._sessions.discard(session)
        if self._store is None:
            return
        agent, session_id = session.agent, session.session_id
        try:
            if session.deleted:
                await to_thread.run_sync(self._store.remove, agent, session_id)
            else:
                await to_thread.run_sync(self._store.touch, agent, session_id, session.title)
        except StoreError as error:
            logger.warning("the end of the session %s is not noted: %s", session_id, error)

    async def _usable_process(self, spec: AgentSpec) -> AgentProcess:
        """Start a process for one session, or return the shared process of ``spec``. Calls at the
        same time start the shared process once."""
        self._must_be_open()
        self._own_loop()
        if not spec.shared:
            own = self._start_in_task(spec)
            try:
                return await shielded(own)
            except asyncio.CancelledError:
                had_ended = not own.cancel()
                if had_ended and not own.cancelled() and own.exception() is None:
                    await own.result().aclose()
                raise
        start = self._shared.get(spec.key)
        if start is None or _has_failed(start):
            start = self._shared[spec.key] = self._start_in_task(spec)
        return await shielded(start)  # a start goes on for other calls if this one is cancelled

    def _start_in_task(self, spec: AgentSpec) -> asyncio.Task[AgentProcess]:
        """Begin the start of a process, in a task of its own."""
        task = asyncio.get_running_loop().create_task(self._start(spec), name=f"start {spec.name}")
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)
        return task

    async def _start(self, spec: AgentSpec) -> AgentProcess:
        restarts = self._restarts.setdefault(spec.key, Restarts(self._limit))
        if restarts.seconds_to_wait(self._clock()):
            last = self._last_end[spec.key]
            raise CrashLoop(spec.name, self._limit.count, self._limit.seconds, last)

        def note_end(error: Exception) -> None:
            restarts.add(self._clock())
            self._last_end[spec.key] = error

        process = AgentProcess(spec, self._services, self._answer_seconds, note_end)
        try:
            await process.start()
        except Exception as error:
            note_end(error)
            raise
        self._processes.add(process)
        process.lifetime.add_done_callback(lambda _: self._processes.discard(process))
        return process

    @asynccontextmanager
    async def _borrowed(self, spec: AgentSpec) -> AsyncIterator[AgentProcess]:
        """Use a process within the block; then end it, unless it is shared."""
        process = await self._usable_process(spec)
        try:
            yield process
        finally:
            if not spec.shared:
                await process.aclose()

    async def _close(self) -> None:
        for task in tuple(self._starts):
            task.cancel()
        ends = [session.aclose() for session in tuple(self._sessions)]
        # A process with sessions ends after their close, in the last `gather`.
        ends += [process.aclose() for process in tuple(self._processes) if not process.sessions]
        for outcome in await asyncio.gather(*ends, *self._starts, return_exceptions=True):
            if isinstance(outcome, AgentProcess):  # it had started before the cancel
                await outcome.aclose()
            elif isinstance(outcome, Exception):
                logger.debug("closing the runtime: %s", outcome)
        await asyncio.gather(*[process.aclose() for process in tuple(self._processes)])
        self._shared.clear()


def _has_failed(start: asyncio.Task[AgentProcess]) -> bool:
    """Return whether a start has failed, or the started process cannot be used any more."""
    if not start.done():
        return False
    failed = start.cancelled() or start.exception() is not None
    return failed or start.result().failure is not None


class _Opening:
    """The result of `AgentRuntime.open`: ``await`` opens, ``async with`` also closes."""

    def __init__(self, open_session: Callable[[], Coroutine[Any, Any, Session]]) -> None:
        self._open_session = open_session
        self._session: Session | None = None

    if not TYPE_CHECKING:  # a type checker should find a forgotten ``await``

        def __getattr__(self, name: str) -> None:
            how = "write `session = await runtime.open(...)`, or `async with`"
            raise AttributeError(f"a session has {name!r} when it is open; {how}")

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open_session().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self
        return self._session

    async def __aexit__(self, *_exc: object) -> None:
        if self._session is not None:
            await self._session.aclose()
