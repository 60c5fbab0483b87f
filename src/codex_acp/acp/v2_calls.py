"""The peer's methods of version 2, on a side that may speak version 1 as well."""

from __future__ import annotations

from codex_acp.acp._generated.v2.calls import AgentCalls, ClientCalls
from codex_acp.acp.calls_on_side import CallsOnSide


class CallsOfAgent(CallsOnSide, AgentCalls):
    """What a client can ask an agent."""

    version = 2


class CallsOfClient(CallsOnSide, ClientCalls):
    """What an agent can ask a client."""

    version = 2
