"""``providers/list``, ``set`` and ``disable`` (unstable): a client's own gateway to the model.

Process-wide and never stored: it travels with each thread that is opened, and the open sessions'
threads are opened anew before their next turn. Loads what it needs with the first request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1 import models as v1
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.session.gateway import Gateway

logger = logging.getLogger(__name__)


class Providers:
    """Of one agent and its sessions."""

    def __init__(self, opener: SessionOpener, sessions: Sessions) -> None:
        self._opener = opener
        self._sessions = sessions

    async def list(self, request: v1.ListProvidersRequest) -> v1.ListProvidersResponse:
        """The one provider that can be routed, and where it is asked now; never its headers."""
        from codex_acp.acp._generated.v1.methods import MODELS
        from codex_acp.mapping.session.gateway import API_TYPE, PROVIDER, native_base_url

        del request
        gateway = self._opener.route.gateway
        url = native_base_url(await self._configured()) if gateway is None else gateway.base_url
        provider: JsonValue = {
            "providerId": PROVIDER,
            "supported": [API_TYPE],
            "required": False,
            "current": {"apiType": API_TYPE, "baseUrl": url},
        }
        answer = MODELS.decode("ListProvidersResponse", {"providers": [provider]}, "the answer")
        return cast("v1.ListProvidersResponse", answer)

    async def set(self, request: v1.SetProviderRequest) -> v1.SetProviderResponse:
        """From the next turn of each session on, the model is asked there.

        Raises RpcError -32602 for another provider or protocol, an address or a header that cannot
        be; nothing is changed then.
        """
        from codex_acp.acp._generated.v1.models import SetProviderResponse
        from codex_acp.errors import RpcError
        from codex_acp.jsonrpc.message import INVALID_PARAMS
        from codex_acp.mapping.session.gateway import API_TYPE, PROVIDER, gateway_of

        if request.provider_id != PROVIDER:
            raise RpcError(INVALID_PARAMS, f"providerId: only {PROVIDER!r} can be configured")
        if request.api_type != API_TYPE:
            raise RpcError(INVALID_PARAMS, f"apiType: Codex speaks {API_TYPE!r} alone")
        await self._route(gateway_of(request.base_url, request.headers))
        return SetProviderResponse()

    async def disable(self, request: v1.DisableProviderRequest) -> v1.DisableProviderResponse:
        """The model is asked as Codex is configured again; one that is unknown is as disabled."""
        from codex_acp.acp._generated.v1.models import DisableProviderResponse
        from codex_acp.mapping.session.gateway import PROVIDER

        if request.provider_id == PROVIDER:
            await self._route(None)
        return DisableProviderResponse()

    async def log_in(self, meta: dict[str, object] | None) -> None:
        """The login ``gateway`` of the official adapter: the same, by ``_meta.gateway``."""
        from codex_acp.mapping.session.gateway import gateway_of

        given = (meta or {}).get("gateway")
        settings = given if isinstance(given, dict) else {}
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
        from codex_acp.mapping.session.http_secrets import http_secrets
        from codex_acp.transcript.secrets import remember_secrets

        if gateway == self._opener.route.gateway:
            return
        if gateway is not None:
            remember_secrets(http_secrets(gateway.base_url, gateway.headers))
            self._opener.route.had_gateway = True
            logger.info("the model is asked by %s", gateway.base_url)
        self._opener.route.gateway = gateway
        self._sessions.reopen_all()
        if self._opener.login.changed is not None:
            self._opener.login.changed()

    async def _configured(self) -> JsonValue:
        from codex_acp.adapter.sessions.model_route import configuration

        return await configuration(await self._opener.codex(), "/")
