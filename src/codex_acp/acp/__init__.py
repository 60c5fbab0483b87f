"""The Agent Client Protocol (ACP), version 1: both sides of a connection, and its models.

The names load when they are first used: importing this package loads no model, pydantic or anyio.
The models are in `codex_acp.acp.types`; those with the schema's unstable parts, as an explicit
opt-in, in `codex_acp.acp.unstable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.acp import types as types
    from codex_acp.acp import unstable as unstable
    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers as AgentNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import AgentRequestHandlers as AgentRequestHandlers
    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers as ClientNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import ClientRequestHandlers as ClientRequestHandlers
    from codex_acp.acp.agent_side import AgentSide as AgentSide
    from codex_acp.acp.capabilities import PROTOCOL_VERSION as PROTOCOL_VERSION
    from codex_acp.acp.capabilities import SUPPORTED_VERSIONS as SUPPORTED_VERSIONS
    from codex_acp.acp.capabilities import AgentFeatures as AgentFeatures
    from codex_acp.acp.capabilities import ClientFeatures as ClientFeatures
    from codex_acp.acp.capabilities import agent_features as agent_features
    from codex_acp.acp.capabilities import client_features as client_features
    from codex_acp.acp.capabilities import is_supported_version as is_supported_version
    from codex_acp.acp.capabilities import negotiated_version as negotiated_version
    from codex_acp.acp.client_side import ClientSide as ClientSide
    from codex_acp.acp.conventions import acp_connection as acp_connection
    from codex_acp.acp.conventions import spawn as spawn
else:
    _MODULE_OF = {
        "AgentNotificationHandlers": "_generated.v1.handlers",
        "AgentRequestHandlers": "_generated.v1.handlers",
        "ClientNotificationHandlers": "_generated.v1.handlers",
        "ClientRequestHandlers": "_generated.v1.handlers",
        "AgentSide": "agent_side",
        "ClientSide": "client_side",
        "acp_connection": "conventions",
        "spawn": "conventions",
        "AgentFeatures": "capabilities",
        "ClientFeatures": "capabilities",
        "PROTOCOL_VERSION": "capabilities",
        "SUPPORTED_VERSIONS": "capabilities",
        "agent_features": "capabilities",
        "client_features": "capabilities",
        "is_supported_version": "capabilities",
        "negotiated_version": "capabilities",
        "types": None,
        "unstable": None,
    }
    """Public name → the module below this package that defines it; None: it is a module."""

    __all__ = list(_MODULE_OF)

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _MODULE_OF:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = _MODULE_OF[name]
        if module is None:
            return import_module(f"{__name__}.{name}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
