"""MCP servers that want a login of their own: the person is shown where, once for each.

Owns which were asked about. Only for clients with URL elicitations; others get the notice that
`mapping.messages` makes of the same report.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp._json import text_at, value_at
from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.adapter.logins.pages import Ends, open_until
from codex_acp.adapter.server.mcp_startup import LOGIN_WANTED, STARTUP_STATUS
from codex_acp.codex._generated.models import McpServerOauthLoginParams
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError
from codex_acp.routing.display import server_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codex_acp.adapter.session_client import SessionClient
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 10 * 60
"""How long Codex, and so we, wait for the person."""

COMPLETED: Final = "mcpServer/oauthLogin/completed"


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
        """The client knows the session now, and these of its servers want a login."""
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
        """Why there is no login; None: there is."""
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
