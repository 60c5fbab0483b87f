"""Make the link to a remote ACP agent; the scheme of the URL chooses websocket or HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp._urls import bare_url
from codex_acp.transport.remote_address import (
    HTTP_SCHEMES,
    TOKEN_HINT,
    WEBSOCKET_SCHEMES,
    RemotePeer,
    Token,
    check_remote_url,
)

if TYPE_CHECKING:
    from codex_acp.transport.link import Link

PING_SECONDS: Final = 60.0
"""Seconds for a remote agent to answer a ping of its websocket; then its connection is lost."""


def is_agent_url(agent: str) -> bool:
    """Return whether ``agent`` is a URL, and not a command."""
    return agent.startswith(tuple(f"{scheme}://" for scheme in (*WEBSOCKET_SCHEMES, *HTTP_SCHEMES)))


def check_agent_url(url: str, token: Token | None) -> None:
    """Raise MisuseError if no agent can have this URL, or the token would travel unencrypted."""
    wanted = "an agent: ws://HOST:PORT/acp, wss://..., http://... or https://..."
    check_remote_url(url, token, wanted, (*WEBSOCKET_SCHEMES, *HTTP_SCHEMES))


def remote_agent_link(url: str, token: Token | None = None, *, name: str = "") -> Link:
    """Return a link, which connects when it is started. ``name`` is the agent's in messages. Raises
    MisuseError for a URL or token that `check_agent_url` refuses, or if a package is missing."""
    check_agent_url(url, token)
    name = name or bare_url(url)
    if url.startswith("http"):
        from codex_acp.transport.http_link import HttpLink

        return HttpLink(url, name=name, token=token)
    from codex_acp.transport.websocket import WebSocketLink

    peer = RemotePeer(name, "ACP agent", TOKEN_HINT)
    return WebSocketLink(url, peer, token=token, ping_seconds=PING_SECONDS)
