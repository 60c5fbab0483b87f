"""Handle a client's requests about the login: log in, log out, its state and its changes.

This module is imported with the first such request: most clients send none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from codex_acp.adapter.logins.auth import Authentication
from codex_acp.codex._generated.models import GetAccountParams
from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.jsonrpc.message import AUTHENTICATION_REQUIRED
from codex_acp.mapping.agent.auth_methods import GATEWAY
from codex_acp.mapping.agent.auth_status import NOT_REQUIRED, UNKNOWN, AuthStatus, auth_status

if TYPE_CHECKING:
    from codex_acp.adapter.client import Client
    from codex_acp.adapter.logins.check import LoginCheck
    from codex_acp.adapter.providers import Providers
    from codex_acp.adapter.server.app_server import AppServer
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)


class Logins:
    """The logins of one agent and its client.

    ``check`` is the check that a session makes before it opens. ``spawn`` runs a task that asks
    Codex for the state again.
    """

    def __init__(
        self,
        app_server: AppServer,
        client: Client,
        check: LoginCheck,
        spawn: Spawn,
        providers: Providers,
    ) -> None:
        self._app_server = app_server
        self._client = client
        self._check = check
        self._spawn = spawn
        self._providers = providers
        self._authentication = Authentication(client)
        check.changed = self._changed
        self._told: AuthStatus | None = None
        """The state that the client was sent last; None: it never asked, so it gets no updates."""

    async def authenticate(self, method: str, meta: dict[str, Any] | None) -> None:
        """Log in, as `Authentication.authenticate` does."""
        if method == GATEWAY:
            await self._providers.log_in(meta)
        else:
            codex = await self._app_server.client()
            await self._authentication.authenticate(method, meta, codex)

    async def by_default(self, login: dict[str, Any]) -> bool:
        """Log in as ``DEFAULT_AUTH_REQUEST`` says; return whether that is Codex's own login.

        A gateway is not. Raises RpcError.
        """
        method, meta = login["methodId"], login.get("_meta")
        try:
            await self.authenticate(method, meta)
        except RpcError as error:
            message = f"the login of DEFAULT_AUTH_REQUEST: {error.message}"
            raise RpcError(AUTHENTICATION_REQUIRED, message) from error
        return bool(method != GATEWAY)

    async def log_out(self) -> None:
        """Log out of Codex, and forget the gateway."""
        await self._authentication.log_out(await self._app_server.client())
        self._check.forget()
        await self._providers.log_out()

    async def status(self) -> dict[str, JsonValue]:
        """Answer ``auth/status`` (unstable), and send the client each change from now on."""
        self._told = await self._now()
        return self._told.wire()

    async def _now(self) -> AuthStatus:
        if self._providers.is_gateway:
            return NOT_REQUIRED
        try:
            codex = await self._app_server.client()
            self._check.follow(codex)
            return auth_status(await codex.account_read(GetAccountParams(refresh_token=False)))
        except CodexAcpError as error:
            logger.warning("Codex does not tell who is logged in: %s", error)
            return UNKNOWN

    async def _tell(self) -> None:
        now = await self._now()
        if self._told is not None and now != self._told:
            self._told = now
            self._client.auth_status(now.wire())

    def _changed(self) -> None:
        """Send the new state: somebody has logged in or out, here or elsewhere."""
        if self._told is not None:
            self._spawn(self._tell)
