"""The client's methods of version 1, on a side that may speak version 2 as well."""

from __future__ import annotations

from codex_acp.acp._generated.v1.calls import ClientCalls
from codex_acp.acp.calls_on_side import CallsOnSide


class CallsOfClient(CallsOnSide, ClientCalls):
    """Methods of a client that an agent can call."""

    version = 1
