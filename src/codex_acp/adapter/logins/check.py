"""Whether Codex needs a login before it can work, asked before the first session.

Loads no model: a process just started asks it, too.
"""

from __future__ import annotations

from asyncio import Lock
from typing import TYPE_CHECKING, Final

from codex_acp.codex.connection.login_check import login_is_missing
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import AUTHENTICATION_REQUIRED, JsonValue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex.connection.app_server_connection import AppServerConnection

ACCOUNT_UPDATED: Final = "account/updated"


class LoginCheck(NotificationSink):
    """Asks once for each connection to Codex, and again until somebody is logged in."""

    def __init__(self) -> None:
        self._passed: AppServerConnection | None = None
        self.log_in: Callable[[], Awaitable[bool]] | None = None
        """Makes the login that is needed, if whoever runs this agent has said how; whether it is
        Codex's, which is asked again then, and no gateway's."""
        self.changed: Callable[[], None] | None = None
        """Called when somebody has logged in or out, on the connections that are followed."""
        self._lock = Lock()
        self._followed: AppServerConnection | None = None

    def forget(self) -> None:
        """Somebody has logged out."""
        self._passed = None

    def follow(self, codex: AppServerConnection) -> None:
        """Hear what Codex says of the account; again is fine."""
        if self._followed is not codex:
            self._followed = codex
            codex.subscribe_all(self, frozenset({ACCOUNT_UPDATED}))

    async def check(self, codex: AppServerConnection) -> None:
        """Raises RpcError -32000 if the configured model provider needs a login and has none,
        ErrorReply if the configuration cannot be read.
        """
        if self.log_in is None:
            await self._check(codex)
            return
        async with self._lock:  # one login for all who wait
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
            message = "Codex needs a login first: choose one of this agent's authMethods"
            raise RpcError(AUTHENTICATION_REQUIRED, message)
        self._passed = codex

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """Note that somebody has logged in or out, here or elsewhere."""
        del params
        if method == ACCOUNT_UPDATED:
            self._passed = None
            if self.changed is not None:
                self.changed()
