"""`Providers` for a client of ACP v2, whose requests and answers have the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.adapter.providers import Providers
    from codex_acp.wire.model import WireModel


class _HasProviders(Protocol):
    @property
    def providers(self) -> Providers:
        """Asked for with the first of these requests."""


class ProvidersInV2:
    """The methods of an agent's ``providers``."""

    def __init__(self, agent: _HasProviders) -> None:
        self._agent = agent

    async def list(self, request: v2.ListProvidersRequest) -> v2.ListProvidersResponse:
        """See `Providers.list`."""
        found = await self._agent.providers.list(_in_v1("ListProvidersRequest", request))
        return cast("v2.ListProvidersResponse", _answer("ListProvidersResponse", found))

    async def set(self, request: v2.SetProviderRequest) -> v2.SetProviderResponse:
        """See `Providers.set`."""
        await self._agent.providers.set(_in_v1("SetProviderRequest", request))
        return cast("v2.SetProviderResponse", _answer("SetProviderResponse", {}))

    async def disable(self, request: v2.DisableProviderRequest) -> v2.DisableProviderResponse:
        """See `Providers.disable`."""
        await self._agent.providers.disable(_in_v1("DisableProviderRequest", request))
        return cast("v2.DisableProviderResponse", _answer("DisableProviderResponse", {}))


def _in_v1(name: str, request: WireModel) -> Any:
    from codex_acp.acp._generated.v1.methods import MODELS
    from codex_acp.wire.codec import plain

    return MODELS.decode(name, plain(request), "the request")


def _answer(name: str, answer: object) -> object:
    from codex_acp.acp._generated.v2.methods import MODELS
    from codex_acp.wire.codec import plain

    return MODELS.decode(name, plain(answer), "the answer")
