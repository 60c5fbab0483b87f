"""Answers a client about the login: in, out, how it stands, and when that has changed.

Loaded with the first request: most clients ask nothing of it.
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
    """Of one agent and its client. ``check`` is what sessions ask before they open; ``spawn`` runs
    what asks Codex anew.
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
        """As the client has it; None: it has not asked, and is told nothing."""

    async def authenticate(self, method: str, meta: dict[str, Any] | None) -> None:
        """Log in, as `Authentication.authenticate` does."""
        if method == GATEWAY:
            await self._providers.log_in(meta)
        else:
            codex = await self._app_server.client()
            await self._authentication.authenticate(method, meta, codex)

    async def by_default(self, login: dict[str, Any]) -> bool:
        """The login that whoever runs this agent has named; whether it is Codex's own, and not a
        gateway's. Raises RpcError.
        """
        method, meta = login["methodId"], login.get("_meta")
        try:
            await self.authenticate(method, meta)
        except RpcError as error:
            message = f"the login of DEFAULT_AUTH_REQUEST: {error.message}"
            raise RpcError(AUTHENTICATION_REQUIRED, message) from error
        return bool(method != GATEWAY)

    async def log_out(self) -> None:
        """Forget all by which the model is asked: see `Authentication.log_out`, and the gateway."""
        await self._authentication.log_out(await self._app_server.client())
        self._check.forget()
        await self._providers.log_out()

    async def status(self) -> dict[str, JsonValue]:
        """``auth/status`` (unstable): never an error. The client is told of changes from now on."""
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
        """Somebody has logged in or out, here or elsewhere."""
        if self._told is not None:
            self._spawn(self._tell)
