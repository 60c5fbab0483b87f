"""The MCP servers that a client gives a session → Codex's configuration of them.

Source: ACP page "Session Setup", ``McpServer``; Codex configuration ``mcp_servers``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from codex_acp.acp._generated.v1.models import (
    HttpMcpServer,
    SseMcpServer,
    StdioMcpServer,
)
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v1.models import McpServer

__all__ = ["server_config"]


def server_config(servers: Sequence[McpServer]) -> dict[str, dict[str, object]]:
    """Name → its table below ``mcp_servers``.

    Raises RpcError -32602 for a transport that Codex lacks and for a name given twice.
    """
    config: dict[str, dict[str, object]] = {}
    for number, server in enumerate(servers):
        where = f"mcpServers.{number}"
        if server.name in config:
            raise RpcError(INVALID_PARAMS, f"{where}: the name {server.name!r} is given twice")
        config[server.name] = _table(server, where)
    return config


def _table(server: McpServer, where: str) -> dict[str, object]:
    match server:
        case StdioMcpServer():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": list(server.args), "env": env}
        case HttpMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"url": server.url, "http_headers": headers}
        case SseMcpServer():
            message = f"{where}: Codex has no SSE transport; give an http or stdio server"
            raise RpcError(INVALID_PARAMS, message)
        case _:
            assert_never(server)
