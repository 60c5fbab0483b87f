"""``providers/list``, ``set`` and ``disable`` (unstable): a client's own gateway to the model.

Process-wide and never stored: it travels with each thread that is opened, and the open sessions'
threads are opened anew before their next turn. Loaded with the first request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codex_acp._json import object_at
from codex_acp.adapter.sessions.model_route import configuration
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.session.setup import API_TYPE, PROVIDER, gateway_of, native_base_url
from codex_acp.transcript.given_values import secrets_in
from codex_acp.transcript.secrets import remember_secrets

if TYPE_CHECKING:
    from codex_acp.adapter.dialects.requests import Json, SetProvider
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.session.setup import Gateway

logger = logging.getLogger(__name__)


class Providers:
    """The model providers of one agent and its sessions."""

    def __init__(self, opener: SessionOpener, sessions: Sessions) -> None:
        self._opener = opener
        self._sessions = sessions

    async def list(self) -> Json:
        """The one provider that can be routed, and where it is asked now; never its headers."""
        gateway = self._opener.route.gateway
        url = native_base_url(await self._configured()) if gateway is None else gateway.base_url
        provider: JsonValue = {
            "providerId": PROVIDER,
            "supported": [API_TYPE],
            "required": False,
            "current": {"apiType": API_TYPE, "baseUrl": url},
        }
        return {"providers": [provider]}

    async def set(self, request: SetProvider) -> None:
        """From the next turn of each session on, the model is asked there.

        Raises RpcError -32602 for another provider or protocol, an address or a header that cannot
        be; nothing is changed then.
        """
        if request.provider_id != PROVIDER:
            raise RpcError(INVALID_PARAMS, f"providerId: only {PROVIDER!r} can be configured")
        if request.api_type != API_TYPE:
            raise RpcError(INVALID_PARAMS, f"apiType: Codex speaks {API_TYPE!r} alone")
        await self._route(gateway_of(request.base_url, request.headers))

    async def disable(self, provider_id: str) -> None:
        """The model is asked as Codex is configured again; one that is unknown is as disabled."""
        if provider_id == PROVIDER:
            await self._route(None)

    async def log_in(self, meta: dict[str, object] | None) -> None:
        """The login ``gateway`` of the official adapter: the same, by ``_meta.gateway``."""
        settings = object_at(meta, "gateway")
        name, where = settings.get("providerName"), "_meta.gateway."
        more = {"name": name} if isinstance(name, str) and name.strip() else {}
        url, headers = settings.get("baseUrl"), settings.get("headers")
        await self._route(gateway_of(url, headers, where=where, **more))

    @property
    def is_gateway(self) -> bool:
        """Whether the model is asked by a gateway of the client now."""
        return self._opener.route.gateway is not None

    async def log_out(self) -> None:
        """Forget the gateway with the login."""
        await self._route(None)

    async def _route(self, gateway: Gateway | None) -> None:
        if gateway == self._opener.route.gateway:
            return
        if gateway is not None:
            remember_secrets(secrets_in({"url": gateway.base_url, "headers": gateway.headers}))
            self._opener.route.had_gateway = True
            logger.info("the model is asked by %s", gateway.base_url)
        self._opener.route.gateway = gateway
        self._sessions.reopen_all()
        if self._opener.login.changed is not None:
            self._opener.login.changed()

    async def _configured(self) -> JsonValue:
        return await configuration(await self._opener.codex(), "/")
