"""Check the open parts of v2's requests: unknown ones are refused, as v2 says.

Source: schema of v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from codex_acp.acp._generated.v2 import models
from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS
from codex_acp.mapping.events.content import block_of_json
from codex_acp.wire.codec import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.acp._generated.v2 import models as v2
    from codex_acp.mapping.events.content import Block


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


def wants_history(request: v2.ResumeSessionRequest) -> bool:
    """Whether the history is to be replayed. Raises RpcError -32602 for another place to begin."""
    if request.replay_from is None:
        return False
    if isinstance(request.replay_from, models.StartReplayFrom):
        return True
    kind = request.replay_from.wire().get("type")
    message = f"replayFrom: this agent replays from the start only, not from {kind!r}"
    raise RpcError(INVALID_PARAMS, message)


def option_and_value(request: v2.SetSessionConfigOptionRequest) -> tuple[str, str, str | bool]:
    """The session, the option, and the value. Raises RpcError -32602 for another type of those."""
    if isinstance(
        request,
        models.IdSetSessionConfigOptionRequest | models.BooleanSetSessionConfigOptionRequest,
    ):
        return request.session_id, request.config_id, request.value
    kind = request.wire().get("type")
    raise RpcError(INVALID_PARAMS, f"type: there are no values of the type {kind!r}")
