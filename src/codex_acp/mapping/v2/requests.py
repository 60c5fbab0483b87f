"""Requests of ACP v2 for which v1 has one that means the same, as that one's params.

What v2 leaves open and this agent does not know is refused, as v2 says. Source: schema of v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from codex_acp.acp._generated.v2 import models
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.events.json_blocks import block_of_json
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.mapping.events.content import Block

    Opening = v2.NewSessionRequest | v2.ResumeSessionRequest | v2.ForkSessionRequest


def blocks_of(prompt: Sequence[v2.ContentBlock]) -> list[Block]:
    """The blocks of a prompt. Raises RpcError -32602 for one of a type that is not known."""
    blocks: list[Block] = []
    for number, given in enumerate(prompt):
        written = cast("dict[str, Any]", plain(given))
        block = block_of_json(written)
        if block is None:
            kind = written.get("type")
            message = f"prompt.{number}: this agent takes no content of the type {kind!r}"
            raise RpcError(INVALID_PARAMS, message)
        blocks.append(block)
    return blocks


def opening_params(request: Opening) -> dict[str, Any]:
    """Params of v1's ``session/new``, ``session/load``, ``session/resume`` or ``session/fork``.

    Raises RpcError -32602 for an MCP server of a type that is not known.
    """
    params = cast("dict[str, Any]", plain(request))
    params.pop("replayFrom", None)
    servers = params.get("mcpServers") or []
    params["mcpServers"] = [_server(server, number) for number, server in enumerate(servers)]
    return params


def _server(server: dict[str, Any], number: int) -> dict[str, Any]:
    """v1 wants the lists, also empty ones; stdio is what has no type there."""
    kind = server.get("type")
    if kind == "http":
        return {"headers": [], **server}
    if kind != "stdio":
        message = f"mcpServers.{number}: Codex has no transport of the type {kind!r}"
        raise RpcError(INVALID_PARAMS, message)
    return {"args": [], "env": [], **{key: value for key, value in server.items() if key != "type"}}


def wants_history(request: v2.ResumeSessionRequest) -> bool:
    """Whether the history is to be replayed. Raises RpcError -32602 for another place to begin."""
    if request.replay_from is None:
        return False
    if isinstance(request.replay_from, models.StartReplayFrom):
        return True
    kind = request.replay_from.wire().get("type")
    message = f"replayFrom: this agent replays from the start only, not from {kind!r}"
    raise RpcError(INVALID_PARAMS, message)


def option_params(request: v2.SetSessionConfigOptionRequest) -> dict[str, Any]:
    """Params of v1's ``session/set_config_option``. Raises RpcError -32602 for another type."""
    if isinstance(
        request,
        models.IdSetSessionConfigOptionRequest | models.BooleanSetSessionConfigOptionRequest,
    ):
        params = cast("dict[str, Any]", plain(request))
        if params["type"] == "id":
            del params["type"]
        return params
    kind = request.wire().get("type")
    raise RpcError(INVALID_PARAMS, f"type: there are no values of the type {kind!r}")
