"""The agent's side of ACP: the peer is a client.

Owns the handlers that a program gives for each version. Must not know what any method does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.calls import ClientCalls
from codex_acp.acp.dialects import handlers_of_v1
from codex_acp.acp.either_agent_side import EitherAgentSide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentNotificationHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.dialects import AgentHandlers, ExtensionHandler, QuickHandler
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.transport.connection import Connection


class AgentSide(EitherAgentSide, ClientCalls):
    """An ACP agent on a connection, and the client's methods for it to call.

    ``requests`` has one function for each method that a client can ask for, or None for a
    method that is not offered (answered -32601). A function returns the result's model, or raises
    RpcError to answer with that error; any other exception is answered -32603. The function may be
    async; a plain function must not block the event loop. Each function runs in a task of
    its own, which is cancelled when the client sends ``$/cancel_request``.
    ``notifications`` has a plain function for each notification, or None to ignore it;
    ``on_invalid_notification`` is called with each that does not fit the schema. ``quick`` answers
    the first requests before the models are loaded, see `Side`; most agents do not need it.
    ``unstable`` and ``unstable_notifications`` have the handlers of methods that the stable schema
    lacks. If either is given, the side also reads and sends unstable models and fields.
    ``extensions`` has methods that are in no schema and begin with ``_``: an async function gets
    the params as plain JSON, and returns the result as plain JSON or raises RpcError.

    ``v2`` has the handlers for clients of version 2, a draft, or is a function that returns these
    handlers. The function is called when the first such client connects: before, nothing of version
    2 is loaded. An agent without version 1 has None for ``requests`` and ``notifications``.

    ``initialize`` chooses the agent's highest version up to the client's. If the agent has no such
    version, the answer is -32022. Params of a newer version are converted to the chosen version. A
    request before ``initialize``, and a second ``initialize``, are answered -32600. A client of
    version 2 may repeat ``initialize`` for version 2 until the client has sent another request.
    """

    def __init__(
        self,
        connection: Connection,
        requests: AgentRequestHandlers | None,
        notifications: AgentNotificationHandlers | None,
        *,
        on_invalid_notification: InvalidNotificationCallback | None = None,
        quick: Mapping[str, QuickHandler] | None = None,
        unstable: UnstableAgentRequestHandlers | None = None,
        unstable_notifications: UnstableAgentNotificationHandlers | None = None,
        v2: AgentHandlers | Callable[[], AgentHandlers] | None = None,
        extensions: Mapping[str, ExtensionHandler] | None = None,
    ) -> None:
        v1 = handlers_of_v1(
            requests, notifications, unstable, unstable_notifications, quick, extensions
        )
        super().__init__(connection, v1, v2, on_invalid_notification)
