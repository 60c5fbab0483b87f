"""Call the peer's methods of version 2, on a side that may speak version 1 as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codex_acp.acp._generated.v2.calls import AgentCalls, ClientCalls

if TYPE_CHECKING:
    from codex_acp.acp.side import Side
    from codex_acp.wire.model import WireModel


class CallsOnSide:
    """Sends calls of version 2; raises MisuseError if the connection speaks version 1."""

    def __init__(self, side: Side) -> None:
        self._side = side

    async def _call(self, method: str, params: WireModel | Any | None) -> Any:
        return await self._side.call_as(2, method, params)

    def _notify(self, method: str, params: WireModel | Any | None) -> None:
        self._side.notify_as(2, method, params)


class CallsOfAgent(CallsOnSide, AgentCalls):
    """Methods of an agent that a client can call."""


class CallsOfClient(CallsOnSide, ClientCalls):
    """Methods of a client that an agent can call."""
