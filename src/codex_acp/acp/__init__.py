"""The Agent Client Protocol (ACP): both sides of a connection, and its models.

The names load when they are first used: importing this package loads no model, pydantic or anyio.
The models of version 1 are in `codex_acp.acp.types`, the models of version 2 (a draft) in
`codex_acp.acp.v2`. A side uses the unstable parts only if it was given ``unstable`` handlers.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

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
