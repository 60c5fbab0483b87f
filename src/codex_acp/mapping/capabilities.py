"""What this agent tells a client about itself at ``initialize``.

Kept apart from what uses it, so that answering ``initialize`` loads no model of a prompt or turn.
"""

from __future__ import annotations

from codex_acp.acp._generated.v1.models import (
    AgentCapabilities,
    Implementation,
    McpCapabilities,
    PromptCapabilities,
)

__all__ = ["agent_capabilities", "agent_info"]


def agent_capabilities() -> AgentCapabilities:
    """What ``mapping.prompt`` and ``mapping.mcp_servers`` can map, and nothing more.

    Text, resource links and stdio MCP servers are every agent's baseline and are not listed.
    """
    return AgentCapabilities(
        load_session=False,
        prompt_capabilities=PromptCapabilities(image=False, audio=False, embedded_context=False),
        mcp_capabilities=McpCapabilities(http=True, sse=False),
    )


def agent_info(version: str) -> Implementation:
    """Name and version of this agent."""
    return Implementation(name="codex-acp-sdk", title="Codex", version=version)
