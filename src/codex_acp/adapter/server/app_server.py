"""The Codex app-server of an adapter: spawned early, initialized once, replaced after a loss."""

from __future__ import annotations

import asyncio
import logging
import math
from time import monotonic
from typing import TYPE_CHECKING

from codex_acp.adapter.session_defaults import SessionDefaults
from codex_acp.codex.connection.answer_bound import ANSWER_TIMES
from codex_acp.codex.connection.app_server_connection import AppServerConnection
from codex_acp.codex.connection.handshake import Hello, check_version
from codex_acp.codex.connection.launch import (
    LaunchOptions,
    codex_version,
    find_codex,
    spawn_app_server,
)
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, LaunchError, RpcError, TransportError
from codex_acp.jsonrpc import AGENT_LOST, INTERNAL_ERROR, JsonValue
from codex_acp.mapping.agent import UNWANTED_NOTIFICATIONS
from codex_acp.transcript.secrets import scrub
from codex_acp.transport.restart_limit import Restarts

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex.connection.answer_bound import AnswerTimes
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.transport.child import ChildProcess
    from codex_acp.transport.connection import Direction

logger = logging.getLogger(__name__)


class _CodexLost(LaunchError):
    """Codex ended too often or too early; a later start may succeed."""


class AppServer(NotificationSink):
    """Runs one app-server process at a time.

    ``spawned`` is the process that was started before the imports, or the error of its start, which
    the first `connection` call raises. Servers that share a ``lock`` start one after the other:
    two that start at once in a new CODEX_HOME fail. ``hello`` is the handshake that was already
    sent to the spawned process. ``answer_times`` bound Codex's replies."""

    def __init__(
        self,
        options: LaunchOptions,
        spawned: ChildProcess | LaunchError | None = None,
        *,
        lock: asyncio.Lock | None = None,
        defaults: SessionDefaults | None = None,
        hello: Hello | None = None,
        answer_times: AnswerTimes = ANSWER_TIMES,
    ) -> None:
        self.options = options
        self._answer_times = answer_times
        self.defaults: SessionDefaults = defaults or SessionDefaults()
        """Defaults of new sessions."""
        self._spawned = None if isinstance(spawned, LaunchError) else spawned
        """The process that the first connection will use."""
        self._failure: CodexAcpError | None = spawned if isinstance(spawned, LaunchError) else None
        """Why an early start failed, until the next `connection` call raises this error."""
        self._hello = hello
        self._connection: AppServerConnection | None = None
        # Attributes that the creator of this object may set.
        self.client_info: dict[str, JsonValue] | None = None
        """Client info for later handshakes."""
        self.on_started: Callable[[AppServerConnection], None] = lambda _: None
        """Called with each new connection, before its first message."""
        self.before_use: Callable[[], object] = lambda: None
        """Called after each handshake, before the first request."""
        self.on_refused: Callable[[RefusedRequest], None] = lambda _: None
        """Called with each request of Codex that the connection refuses without a route: an unknown
        method, invalid params, or an id in use. Not called after `aclose`."""
        self.new_tap: Callable[[], Callable[[Direction, bytes], None] | None] = lambda: None
        """Called for each new connection; returns a function to call with every line."""
        self._closing = False
        self._lock = lock or asyncio.Lock()
        self._restarts = Restarts()
        self._end_reason = "it ended by itself"
        """Why the last connection ended."""

    async def connection(self) -> AppServerConnection:
        """Return a ready connection; start Codex again if it ended, but not too often. Raises
        RpcError -32603 with the reason and a remedy, or the time of the next start."""
        async with self._lock:
            if self._connection is not None and not self._connection.closed:
                return self._connection
            try:
                self._connection = await self._start()
            except CodexAcpError as error:
                reason = scrub(str(error))
                logger.warning("Codex could not be started: %s", reason)
                data = {"reason": AGENT_LOST} if isinstance(error, _CodexLost) else None
                raise RpcError(INTERNAL_ERROR, reason, data) from error
            return self._connection

    async def warm_up(self) -> None:
        """Do the handshake early; the next `connection` call raises its error, if any."""
        async with self._lock:
            if self._connection is None and self._failure is None:
                try:
                    self._connection = await self._start()
                except CodexAcpError as error:
                    self._failure = error

    async def _start(self) -> AppServerConnection:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._connection is not None:
            await self._connection.aclose()
        spawned, self._spawned = self._spawned, None
        hello, self._hello = self._hello, None
        connection = AppServerConnection(
            spawned or self._spawn(),
            client_info=self.client_info,
            opt_out_notifications=UNWANTED_NOTIFICATIONS,
            on_refused=self._report_refused,
            on_line=self.new_tap(),
            hello=hello,
            answer_times=self._answer_times,
        )
        self._restarts.add(monotonic())
        connection.subscribe_all(self, frozenset())
        self.on_started(connection)
        try:
            await connection.connect()
        except LaunchError as error:
            self._end_reason = str(error)
            raise
        except CodexAcpError as error:
            failure = await self._why_failed(error)
            self._end_reason = str(failure)
            raise failure from error
        self.before_use()
        return connection

    async def _why_failed(self, error: CodexAcpError) -> LaunchError:
        """Return why a handshake failed: the program is not Codex, is too old, or did not start."""
        from anyio import to_thread

        try:
            path = find_codex(self.options.codex).path
        except LaunchError:
            return _CodexLost(str(error))
        try:
            check_version(await to_thread.run_sync(codex_version, path, abandon_on_cancel=True))
        except LaunchError as refused:
            return refused
        reason = str(error).partition("\n\nStack backtrace:")[0]
        return _CodexLost(
            f"{path!r} did not start as a Codex app-server; `codex-acp-sdk doctor` in a terminal "
            f"looks for the reason: {reason}"
        )

    def _spawn(self) -> ChildProcess:
        wait = self._restarts.seconds_to_wait(monotonic())
        if wait:
            limit = self._restarts.limit
            raise _CodexLost(
                f"Codex has ended {limit.count} times within {limit.seconds:g} s; it is started "
                f"again in {math.ceil(wait)} s at the earliest. The last time: {self._end_reason}"
            )
        return spawn_app_server(self.options, on_stderr_line=_log_stderr)

    def _report_refused(self, request: RefusedRequest) -> None:
        if not self._closing:
            self.on_refused(request)

    async def aclose(self) -> None:
        """End the process and all of its children; bounded."""
        import anyio  # late: a start must not load anyio

        self._closing = True
        with anyio.CancelScope(shield=True):
            if self._connection is not None:
                await self._connection.aclose()
            elif self._spawned is not None:
                await self._spawned.aclose()
            self._spawned = None

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Do nothing: this sink only waits for `on_closed`."""

    def on_closed(self, error: TransportError | None) -> None:
        self._end_reason = "it ended by itself" if error is None else str(error)


def _log_stderr(line: str) -> None:
    logger.info("codex: %s", line)
