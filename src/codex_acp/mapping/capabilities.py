"""What this agent tells a client about itself at ``initialize``.

As JSON, which a process just started can send before it has loaded a model, and as models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.models import AgentCapabilities, Implementation
    from codex_acp.jsonrpc.message import JsonValue

__all__ = ["AGENT_CAPABILITIES", "agent_capabilities", "agent_info", "agent_info_json"]

AGENT_CAPABILITIES: Final[dict[str, JsonValue]] = {
    "loadSession": False,
    "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
    "mcpCapabilities": {"http": True, "sse": False},
}
"""What ``mapping.prompt`` and ``mapping.mcp_servers`` can map, and nothing more.

Text, resource links and stdio MCP servers are every agent's baseline and are not listed.
"""


def agent_capabilities() -> AgentCapabilities:
    """`AGENT_CAPABILITIES` as a model."""
    from codex_acp.acp._generated.v1.models import AgentCapabilities
    from codex_acp.wire.codec import decode

    return decode(AgentCapabilities, AGENT_CAPABILITIES)


def agent_info_json(version: str) -> dict[str, JsonValue]:
    """Name and version of this agent (``agentInfo``)."""
    return {"name": "codex-acp-sdk", "title": "Codex", "version": version}


def agent_info(version: str) -> Implementation:
    """`agent_info_json` as a model."""
    from codex_acp.acp._generated.v1.models import Implementation
    from codex_acp.wire.codec import decode

    return decode(Implementation, agent_info_json(version))
