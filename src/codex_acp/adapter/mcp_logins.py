"""MCP servers that want a login of their own: the person is shown where, once for each.

Owns which were asked about. Only for clients with URL elicitations; others get the notice that
`mapping.messages` makes of the same report. `open_until` waits at such a page, for the account's
login as well: the one place where ``elicitation/complete`` is sent, because a login's end is a
completion that is really reported (contract 2.4).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from codex_acp._json import text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.adapter.server.mcp_startup import LOGIN_WANTED, STARTUP_STATUS
from codex_acp.codex._generated.models import McpServerOauthLoginParams
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.routing.display import server_name
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codex_acp.adapter.session_client import Asks, SessionClient
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 10 * 60
"""Seconds that Codex, and this agent with it, waits for the person."""

COMPLETED: Final = "mcpServer/oauthLogin/completed"

_MAX_EARLY: Final = 32
"""Ends that are kept because nobody waits for them yet."""


class McpLogins(NotificationSink):
    """A sink of one connection to Codex. ``is_open`` tells whether a thread is a session that the
    client knows; what failed before that, `session_answered` is told. ``audience`` gives who
    answers for a session.
    """

    def __init__(
        self,
        codex: AppServerConnection,
        audience: Callable[[str], SessionClient],
        spawn: Spawn,
        is_open: Callable[[str], bool],
        say: Callable[[str, str], None],
    ) -> None:
        self._codex = codex
        self._audience = audience
        self._spawn = spawn
        self._is_open = is_open
        self._say = say
        self._asked: set[str] = set()
        codex.subscribe_all(self, frozenset({STARTUP_STATUS}))

    def session_answered(self, session_id: str, servers: Iterable[str]) -> None:
        """Ask for the logins of ``servers``: the client knows the session now."""
        for server in servers:
            self._ask(session_id, server)

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method != STARTUP_STATUS or value_at(params, "failureReason") != LOGIN_WANTED:
            return
        server, session_id = text_at(params, "name"), text_at(params, "threadId")
        if server is not None and session_id is not None and self._is_open(session_id):
            self._ask(session_id, server)

    def _ask(self, session_id: str, server: str) -> None:
        if server not in self._asked and self._audience(session_id).features.elicitation_url:
            self._asked.add(server)
            self._spawn(lambda: self._login(session_id, server))

    async def _login(self, session_id: str, server: str) -> None:
        try:
            with Ends(self._codex, COMPLETED, "name") as ends:
                problem = await self._try(ends, session_id, server)
        except CodexAcpError as error:
            problem = str(error)
        if problem is not None:
            self._say(session_id, f"{server_name(server)} is not logged in: {problem}")
            return
        try:  # what was refused without the login is tried again with it
            await self._codex.config_mcp_server_reload()
        except CodexAcpError as error:
            logger.warning("the MCP servers were not started again: %s", error)

    async def _try(self, ends: Ends, session_id: str, server: str) -> str | None:
        """Return why there is no login; None: there is."""
        end = ends.of(server)
        params = McpServerOauthLoginParams(
            name=server, thread_id=session_id, timeout_secs=LOGIN_SECONDS
        )
        url = (await self._codex.mcp_server_oauth_login(params)).authorization_url
        page = allowed_url(url)
        if isinstance(page, RefusedUrl):
            return f"its login page was refused: {page.reason}"
        request = {
            "mode": "url",
            "sessionId": session_id,
            "elicitationId": f"mcp-login-{len(self._asked)}",
            "url": page.url,
            "message": f"{server_name(server)} needs a login at {page.host} before its tools work.",
        }
        with anyio.move_on_after(LOGIN_SECONDS):
            asks = self._audience(session_id).asks
            return await open_until(asks, request, end) or end.result()
        return "nobody logged in in time"


class Ends(NotificationSink):
    """A sink: how each thing ended that ``method`` reports, by the id in the field ``key``.

    A context manager, so that it hears nothing more than it has to.
    """

    def __init__(self, codex: AppServerConnection, method: str, key: str = "loginId") -> None:
        self._codex = codex
        self._method = method
        self._key = key
        self._ends: LastOnes[str, asyncio.Future[str | None]] = LastOnes(_MAX_EARLY)

    def __enter__(self) -> Ends:
        self._codex.subscribe_all(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._codex.unsubscribe_all(self)

    def of(self, name: str) -> asyncio.Future[str | None]:
        """Return a future of how ``name`` ended: None for success, else why not."""
        if name not in self._ends:
            self._ends[name] = asyncio.get_running_loop().create_future()
        return self._ends[name]

    def on_notification(self, method: str, params: JsonValue) -> None:
        name = text_at(params, self._key) if method == self._method else None
        if name is not None and not self.of(name).done():
            why = str(value_at(params, "error") or "Codex gave no reason")
            self.of(name).set_result(None if value_at(params, "success") is True else why)

    def on_closed(self, error: TransportError | None) -> None:
        """Give up every login: nothing can succeed any more."""
        why = "Codex has ended" if error is None else str(error)
        for end in self._ends.values():
            if not end.done():
                end.set_result(why)


async def open_until(
    asks: Asks, request: dict[str, Any], end: asyncio.Future[str | None]
) -> str | None:
    """Ask the person to open the page, and wait for ``end``; return why it was not opened, if so.

    The question is withdrawn when the end comes first. Cancelling this changes nothing of ``end``.
    """
    refusal: str | None = None
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            nonlocal refusal
            try:
                response = await asks.elicitation_create(request)
            except CodexAcpError as error:
                refusal = f"the client could not show the page: {error}"
            else:
                if response.get("action") != "accept":
                    refusal = "the page was not opened"
            if refusal is not None:
                tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await shielded(end)
        tasks.cancel_scope.cancel()
    if end.done():
        asks.elicitation_complete(request["elicitationId"])
        return None
    return refusal
