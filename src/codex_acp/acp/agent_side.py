"""The agent's side of ACP: the peer is a client.

Owns what a program gives for each version. Must not know what any method does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codex_acp.acp._generated.v1.calls import ClientCalls
from codex_acp.acp.dialects import Handlers
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

    ``requests`` has one async function for each method that a client can ask for, or None for one
    that is not offered (answered -32601). A function returns the result's model, or raises
    RpcError to answer with that error; anything else that it raises is answered -32603. Each runs
    in a task of its own, which is cancelled when the client sends ``$/cancel_request``.
    ``notifications`` has a plain function for each, or None to ignore it.
    ``on_invalid_notification`` is told of those that do not fit the schema. ``quick`` answers the
    first requests before the models are loaded, see `Side`; most agents do without. ``unstable``
    has the handlers of methods that the stable schema lacks, those that are offered; given, it also
    has the side read and send unstable fields and members. Without it they are unknown here.
    ``extensions`` has methods that are in no schema, which begin with ``_``: an async function of
    the params as plain JSON, which returns the result so, or raises RpcError.

    ``v2`` has the handlers for clients of version 2, a draft, or is a function that gives them when
    the first such client comes, so that nothing of that version is loaded before; then ``requests``
    and ``notifications`` may be None, for an agent that has no version 1. At ``initialize`` the
    highest version is chosen that is not above the client's, and its handlers take over; -32022
    where there is none. Params that were written for a newer version are read in the chosen one:
    the handler is given what that one knows of them.

    A request before ``initialize``, and a second ``initialize``, are answered -32600; but a client
    of version 2 may repeat it, for no lower version, until it has sent anything else.
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
        v1: Handlers | None = None
        if requests is not None and notifications is not None:
            both = (unstable, unstable_notifications)
            v1 = Handlers(requests, notifications, *both, quick, extensions)
        super().__init__(connection, v1, v2, on_invalid_notification)
