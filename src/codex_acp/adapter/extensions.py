"""Methods that are in no schema of ACP, offered beside those of either version.

``_session/steering`` is the official adapter's, with the same shapes: a message for the running
turn. ``initialize`` says that it is there, in ``_meta.steering``; see `mapping.agent.capabilities`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.acp.conventions import ExtensionHandler
    from codex_acp.adapter.agent import CodexAgent
    from codex_acp.jsonrpc.message import JsonValue

STEERING: Final = "_session/steering"


def extensions_of(
    agent_of: Callable[[str], CodexAgent], version: int
) -> Mapping[str, ExtensionHandler]:
    """One row a method; ``agent_of`` gives the agent of an open session, or raises RpcError."""

    async def steer(params: JsonValue) -> JsonValue:
        from codex_acp.adapter.prompts.steering import answer_steering

        return await answer_steering(agent_of, version, params)

    return {STEERING: steer}
