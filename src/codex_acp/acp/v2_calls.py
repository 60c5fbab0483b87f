"""The peer's methods of version 2, on a side that may speak version 1 as well."""

from __future__ import annotations

from codex_acp.acp._generated.v2.calls import AgentCalls, ClientCalls
from codex_acp.acp.calls_on_side import CallsOnSide


class CallsOfAgent(CallsOnSide, AgentCalls):
    """Methods of an agent that a client can call."""

    version = 2


class CallsOfClient(CallsOnSide, ClientCalls):
    """Methods of a client that an agent can call."""

    version = 2
