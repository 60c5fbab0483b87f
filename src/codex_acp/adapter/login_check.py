"""Check whether Codex needs a login before it can work, and find which logins are possible.

Imports no generated model, because a new process makes the check before its first session.
"""

from __future__ import annotations

import sys
from asyncio import Lock
from typing import TYPE_CHECKING, Final

from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.connection.shared_calls import login_is_missing
from codex_acp.errors import RpcError
from codex_acp.jsonrpc import AUTHENTICATION_REQUIRED, JsonValue
from codex_acp.mapping.agent import LoginWays
from codex_acp.transport.process_tree import sparing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.codex.connection.app_server_connection import AppServerConnection


ACCOUNT_UPDATED: Final = "account/updated"

NO_BROWSER: Final = "NO_BROWSER"
"""Environment variable: if set, no browser is opened, and no login is offered whose page redirects
to this machine."""

_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Environment variables, each a sign of a browser. If none is set, `webbrowser` might start a text
browser in this agent's terminal."""


class LoginCheck(NotificationSink):
    """Checks once on each connection to Codex, and again until somebody has logged in."""

    def __init__(self) -> None:
        self._passed: AppServerConnection | None = None
        """The connection on which no login is missing."""
        self.log_in: Callable[[], Awaitable[bool]] | None = None
        """Logs in as the variable ``DEFAULT_AUTH_REQUEST`` says; None if the variable is not set.
        Returns True for Codex's own login, which is then checked again; False for a gateway."""
        self.on_change: Callable[[], None] | None = None
        """Called when somebody has logged in or out, as the followed connection reports."""
        self._lock = Lock()
        self._followed: AppServerConnection | None = None

    def forget(self) -> None:
        """Make the check again before the next session, because somebody has logged out."""
        self._passed = None

    def follow(self, codex: AppServerConnection) -> None:
        """Follow the notifications about the account on this connection. Idempotent."""
        if self._followed is not codex:
            self._followed = codex
            codex.subscribe_all(self, frozenset({ACCOUNT_UPDATED}))

    async def check(self, codex: AppServerConnection) -> None:
        """Raise RpcError -32000 if the configured model provider needs a login and has none. Raises
        ErrorReply if the configuration cannot be read."""
        if self.log_in is None:
            await self._check(codex)
            return
        async with self._lock:  # one login for all sessions that wait
            try:
                await self._check(codex)
            except RpcError:
                if await self.log_in():
                    await self._check(codex)

    async def _check(self, codex: AppServerConnection) -> None:
        if self._passed is codex:
            return
        self.follow(codex)
        if await login_is_missing(codex):
            message = (
                "Codex needs a login first: choose one of this agent's authMethods, or run "
                "`codex-acp-sdk login` on its machine"
            )
            raise RpcError(AUTHENTICATION_REQUIRED, message)
        self._passed = codex

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Note that somebody has logged in or out, here or in another process."""
        del method, params
        self._passed = None
        if self.on_change is not None:
            self.on_change()


def can_open_pages(environment: Mapping[str, str]) -> bool:
    """Return whether, by the environment, a browser can open on a screen."""
    if environment.get(NO_BROWSER):
        return False
    if sys.platform == "darwin":
        return not environment.get("SSH_CONNECTION")
    return any(environment.get(name) for name in _SCREENS)


async def open_page(url: str) -> bool:
    """Open ``url`` in a browser; return whether a browser was found."""
    from anyio import to_thread

    return await to_thread.run_sync(_open_in_browser, url, abandon_on_cancel=True)


def _open_in_browser(url: str) -> bool:
    import webbrowser

    with sparing():  # the browser must outlive this agent
        return webbrowser.open(url)


def login_ways(environment: Mapping[str, str], codex: str | None) -> LoginWays:
    """Return the ways to log in. ``codex`` is the option ``--codex`` of this agent, if any."""
    named = () if codex is None else ("--codex", codex)
    return LoginWays(
        opens_pages=can_open_pages(environment),
        command=(sys.executable, "-P", "-m", "codex_acp", *named),
        is_unreachable=bool(environment.get(NO_BROWSER)),
    )
