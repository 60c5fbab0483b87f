"""The Agent Client Protocol (ACP): both sides of a connection, and its models.

The names load when they are first used: importing this package loads no model, pydantic or anyio.
The models of version 1 are in `codex_acp.acp.types`, those of version 2, a draft, in
`codex_acp.acp.v2`. A side uses the unstable parts only if it was given ``unstable`` handlers.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

TYPE_CHECKING = False  # typing itself is not worth its import here
if TYPE_CHECKING:
    from codex_acp._urls import AllowedUrl as AllowedUrl
    from codex_acp._urls import RefusedUrl as RefusedUrl
    from codex_acp._urls import allowed_url as allowed_url
    from codex_acp.acp import types as types
    from codex_acp.acp import unstable as unstable
    from codex_acp.acp import v2 as v2
    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers as AgentNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import AgentRequestHandlers as AgentRequestHandlers
    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers as ClientNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import ClientRequestHandlers as ClientRequestHandlers
    from codex_acp.acp._generated.v1.handlers import (
        SomeAgentNotificationHandlers as SomeAgentNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import (
        SomeAgentRequestHandlers as SomeAgentRequestHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import (
        SomeClientNotificationHandlers as SomeClientNotificationHandlers,
    )
    from codex_acp.acp._generated.v1.handlers import (
        SomeClientRequestHandlers as SomeClientRequestHandlers,
    )
    from codex_acp.acp.agent_connector import ConnectedAgent as ConnectedAgent
    from codex_acp.acp.agent_connector import connect_agent as connect_agent
    from codex_acp.acp.agent_runner import PromptTurn as PromptTurn
    from codex_acp.acp.agent_runner import TurnToolCall as TurnToolCall
    from codex_acp.acp.agent_runner import run_agent as run_agent
    from codex_acp.acp.agent_side import AgentSide as AgentSide
    from codex_acp.acp.capabilities import PROTOCOL_VERSION as PROTOCOL_VERSION
    from codex_acp.acp.capabilities import SUPPORTED_VERSIONS as SUPPORTED_VERSIONS
    from codex_acp.acp.capabilities import AgentFeatures as AgentFeatures
    from codex_acp.acp.capabilities import ClientFeatures as ClientFeatures
    from codex_acp.acp.capabilities import agent_features as agent_features
    from codex_acp.acp.capabilities import agent_features_v2 as agent_features_v2
    from codex_acp.acp.capabilities import client_features as client_features
    from codex_acp.acp.capabilities import client_features_v2 as client_features_v2
    from codex_acp.acp.capabilities import is_supported_version as is_supported_version
    from codex_acp.acp.capabilities import negotiated_version as negotiated_version
    from codex_acp.acp.client_side import ClientSide as ClientSide
    from codex_acp.acp.side import acp_connection as acp_connection
    from codex_acp.acp.side import stdio as stdio
    from codex_acp.transport.child import spawn as spawn
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "": "types unstable v2",
            "_generated.v1.handlers": (
                "AgentNotificationHandlers AgentRequestHandlers ClientNotificationHandlers "
                "ClientRequestHandlers SomeAgentNotificationHandlers SomeAgentRequestHandlers "
                "SomeClientNotificationHandlers SomeClientRequestHandlers"
            ),
            "agent_connector": "ConnectedAgent connect_agent",
            "agent_runner": "PromptTurn TurnToolCall run_agent",
            "agent_side": "AgentSide",
            "capabilities": (
                "PROTOCOL_VERSION SUPPORTED_VERSIONS AgentFeatures ClientFeatures "
                "agent_features agent_features_v2 client_features client_features_v2 "
                "is_supported_version negotiated_version"
            ),
            "client_side": "ClientSide",
            "side": "acp_connection stdio",
            "codex_acp._urls": "AllowedUrl RefusedUrl allowed_url",
            "codex_acp.transport.child": "spawn",
        },
    )
