"""The MCP servers that a client gives a session → Codex's configuration of them.

Source: ACP page "Session Setup", ``McpServer``; Codex configuration ``mcp_servers``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_:@/-]+")
"""Codex refuses to start a server whose name has these; in an editor it may be "My Notes". A dot
it takes, but not in a key: the table of all servers would hide those of Codex's command line."""


def server_config(servers: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    """Name, as Codex takes it → its table below ``mcp_servers``. ``servers`` are plain JSON.

    Raises RpcError -32602 for a transport that Codex lacks and for a name given twice.
    """
    config: dict[str, dict[str, object]] = {}
    names: set[str] = set()
    for number, server in enumerate(servers):
        where = f"mcpServers.{number}"
        table, name = _table(server, where), server["name"]
        if name in names:
            raise RpcError(INVALID_PARAMS, f"{where}: the name {name!r} is given twice")
        names.add(name)
        config[_free_name(name, config)] = table
    return config


def _free_name(name: str, taken: Container[str]) -> str:
    plain = _NOT_IN_A_NAME.sub("_", name) or "server"
    free, number = plain, 2
    while free in taken:
        free, number = f"{plain}_{number}", number + 1
    return free


def _table(server: Mapping[str, Any], where: str) -> dict[str, object]:
    """v1 writes all lists, also empty ones, and no type for stdio; v2 may leave lists out."""
    match server.get("type", "stdio"):
        case "stdio":
            env = {variable["name"]: variable["value"] for variable in server.get("env") or ()}
            return {"command": server["command"], "args": server.get("args") or [], "env": env}
        case "http":
            headers = {header["name"]: header["value"] for header in server.get("headers") or ()}
            return {"url": server["url"], "http_headers": headers}
    kind = server["type"]
    message = f"{where}: Codex has no transport of the type {kind!r}; give an http or stdio server"
    raise RpcError(INVALID_PARAMS, message)
