"""Show the person the login page of an MCP server that needs a login, once for each server.

Owns the set of servers whose page was shown. Clients without URL elicitations get a notice from
`mapping.messages` instead. `open_until` shows the page of any login, also of the login to OpenAI.
Only `open_until` sends ``elicitation/complete``, because Codex reports the end of a login (contract
2.4).
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
from codex_acp.codex.approvals.running_items import full_server_name
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.routing.display import server_name
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from codex_acp.adapter.session_client import Questioner
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue


logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 10 * 60
"""Seconds that Codex and this agent wait for the person to log in."""

OAUTH_COMPLETED: Final = "mcpServer/oauthLogin/completed"

_MAX_OUTCOMES: Final = 32
"""Outcomes that are kept: Codex may report an outcome before `LoginOutcomes.of` is called."""


class McpLogins(NotificationSink):
    """The logins that the MCP servers of one connection to Codex ask for."""

    def __init__(self, codex: AppServerConnection, sessions: Sessions, spawn: Spawn) -> None:
        self._codex = codex
        self._sessions = sessions
        self._spawn = spawn
        self._shown_servers: set[str] = set()
        codex.subscribe_all(self, frozenset({STARTUP_STATUS}))

    def on_notification(self, method: str, params: JsonValue) -> None:
        del method
        if value_at(params, "failureReason") != LOGIN_WANTED:
            return
        name, session_id = text_at(params, "name"), text_at(params, "threadId") or ""
        opened = self._sessions.open_session(session_id)
        if name is not None and opened is not None and opened.answered:
            self.start_login(session_id, name, text_at(params, "environmentId"))

    def start_login(self, session_id: str, name: str, environment: str | None) -> None:
        """Show the login page of a server, unless it was shown or the client can show no pages."""
        server = full_server_name(name, environment)
        shows_pages = self._sessions.features(session_id).elicitation_url
        if shows_pages and server not in self._shown_servers:
            self._shown_servers.add(server)
            params = McpServerOauthLoginParams(
                name=name, thread_id=session_id, timeout_secs=LOGIN_SECONDS
            )
            if environment is not None:
                params.environment_id = environment
            self._spawn(lambda: self._login(session_id, server, params))

    async def _login(self, session_id: str, server: str, params: McpServerOauthLoginParams) -> None:
        try:
            problem = await self._run_login(session_id, server, params)
        except CodexAcpError as error:
            problem = str(error)
        if problem is not None:
            session = self._sessions.find(session_id)
            if session is not None:
                session.say(f"{server_name(server)} is not logged in: {problem}")
            return
        try:  # Codex connects to the servers again, now with the login
            await self._codex.config_mcp_server_reload()
        except CodexAcpError as error:
            logger.warning("the MCP servers were not started again: %s", error)

    async def _run_login(
        self, session_id: str, server: str, params: McpServerOauthLoginParams
    ) -> str | None:
        """Show the login page and wait; return why the login failed, None for success."""
        with LoginOutcomes(self._codex, OAUTH_COMPLETED) as outcomes:
            begun = await self._codex.mcp_server_oauth_login(params)
            outcome = outcomes.of(begun.login_id or params.name)
            page = allowed_url(begun.authorization_url)
            if isinstance(page, RefusedUrl):
                return f"its login page was refused: {page.reason}"
            message = f"{server_name(server)} needs a login at {page.host} before its tools work."
            request = {
                "mode": "url",
                "sessionId": session_id,
                "elicitationId": f"mcp-login-{len(self._shown_servers)}",
                "url": page.url,
                "message": message,
            }
            with anyio.move_on_after(LOGIN_SECONDS):
                questioner = self._sessions.client_of(session_id).questioner
                return await open_until(questioner, request, outcome) or outcome.result()
            return "nobody logged in in time"


class LoginOutcomes(NotificationSink):
    """The outcomes of logins that the notification ``method`` reports, by login id; without an id,
    by the MCP server's name. A context manager: the sink is subscribed within the block only."""

    def __init__(self, codex: AppServerConnection, method: str) -> None:
        self._codex = codex
        self._method = method
        self._outcomes: LastOnes[str, asyncio.Future[str | None]] = LastOnes(_MAX_OUTCOMES)

    def __enter__(self) -> LoginOutcomes:
        self._codex.subscribe_all(self, frozenset({self._method}))
        return self

    def __exit__(self, *_: object) -> None:
        self._codex.unsubscribe_all(self)

    def of(self, login: str) -> asyncio.Future[str | None]:
        """Return a future of a login's outcome: None for success, else why the login failed."""
        if login not in self._outcomes:
            self._outcomes[login] = asyncio.get_running_loop().create_future()
        return self._outcomes[login]

    def on_notification(self, method: str, params: JsonValue) -> None:
        del method
        login = text_at(params, "loginId") or text_at(params, "name")
        if login is not None and not self.of(login).done():
            why = str(value_at(params, "error") or "Codex gave no reason")
            self.of(login).set_result(None if value_at(params, "success") is True else why)

    def on_closed(self, error: TransportError | None) -> None:
        """Fail every login that has no outcome."""
        why = "Codex has ended" if error is None else str(error)
        for outcome in self._outcomes.values():
            if not outcome.done():
                outcome.set_result(why)


async def open_until(
    questioner: Questioner, request: dict[str, Any], outcome: asyncio.Future[str | None]
) -> str | None:
    """Ask the person to open a login page, and wait for the login's ``outcome``; return why the
    page was not opened, or None if the login has ended.

    If the outcome comes before the person's answer, withdraw the question. A cancel of the caller
    does not cancel ``outcome``."""
    refusal: str | None = None
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            nonlocal refusal
            try:
                response = await questioner.elicitation_create(request)
            except CodexAcpError as error:
                refusal = f"the client could not show the page: {error}"
            else:
                if response.get("action") != "accept":
                    refusal = "the page was not opened"
            if refusal is not None:
                tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await shielded(outcome)
        tasks.cancel_scope.cancel()
    if outcome.done():
        questioner.elicitation_complete(request["elicitationId"])
        return None
    return refusal
