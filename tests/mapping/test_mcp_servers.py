"""MCP servers of a session → Codex's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from codex_acp.acp.types import (
    AgentCapabilities,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    McpServer,
    SseMcpServer,
    StdioMcpServer,
)
from codex_acp.errors import RpcError
from codex_acp.mapping import session_setup
from codex_acp.mapping.agent import AGENT_CAPABILITIES
from codex_acp.wire.codec import decode, plain

STDIO = StdioMcpServer(
    name="notes", command="/bin/notes", args=["-v"], env=[EnvVariable(name="A", value="1")]
)
HTTP = HttpMcpServer(
    name="web", url="https://mcp.example", headers=[HttpHeader(name="X-Key", value="k")]
)
SSE = SseMcpServer(name="old", url="https://mcp.example/sse", headers=[])


def server_config(servers: Sequence[McpServer]) -> dict[str, dict[str, object]]:
    return session_setup.server_config(cast("list[dict[str, Any]]", plain(servers)))


def test_a_stdio_server_has_command_arguments_and_environment() -> None:
    table = {"command": "/bin/notes", "args": ["-v"], "env": {"A": "1"}}

    assert server_config([STDIO]) == {"notes": table}


def test_an_http_server_has_url_and_headers() -> None:
    table = {"url": "https://mcp.example", "http_headers": {"X-Key": "k"}}

    assert server_config([HTTP]) == {"web": table}


def test_no_servers_are_no_configuration() -> None:
    assert server_config([]) == {}


def test_an_sse_server_is_refused_by_its_place() -> None:
    with pytest.raises(RpcError, match=r"mcpServers\.1: .*'sse'") as refused:
        server_config([STDIO, SSE])

    assert refused.value.code == -32602


def test_a_name_given_twice_is_refused_by_its_place() -> None:
    with pytest.raises(RpcError, match=r"mcpServers\.2: .*'notes'") as refused:
        server_config([STDIO, HTTP, STDIO])

    assert refused.value.code == -32602


def test_the_transports_that_are_advertised_are_those_that_are_mapped() -> None:
    advertised = decode(AgentCapabilities, AGENT_CAPABILITIES).mcp_capabilities

    assert advertised is not None
    assert advertised.http
    assert not advertised.sse


def test_a_name_that_codex_would_refuse_is_spelled_otherwise() -> None:
    names = ["My Notes", "My_Notes", "a.b/c@1:x-y", "\N{WHITE SMILING FACE}", ""]
    servers = [StdioMcpServer(name=name, command="/run", args=[], env=[]) for name in names]
    assert list(server_config(servers)) == ["My_Notes", "My_Notes_2", "a_b/c@1:x-y", "_", "server"]
