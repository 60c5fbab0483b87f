"""The client's side of ACP: the peer is an agent, whichever.

Knows no method beyond the generated tables, and nothing of how the agent was started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codex_acp.acp._generated.v1.calls import AgentCalls
from codex_acp.acp._generated.v1.methods import (
    AGENT_NOTIFICATIONS,
    AGENT_REQUESTS,
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
)
from codex_acp.acp.conventions import Methods, unstable_tables
from codex_acp.acp.side import Side

if TYPE_CHECKING:
    from codex_acp.acp._generated.v1.handlers import (
        ClientNotificationHandlers,
        ClientRequestHandlers,
        UnstableClientNotificationHandlers,
        UnstableClientRequestHandlers,
    )
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.transport.connection import Connection

__all__ = ["ClientSide"]

_METHODS: Final = Methods(
    CLIENT_REQUESTS, CLIENT_NOTIFICATIONS, AGENT_REQUESTS, AGENT_NOTIFICATIONS
)


class ClientSide(Side, AgentCalls):
    """An ACP client on a connection, and the agent's methods for it to call.

    ``requests`` has one async function for each method that an agent can ask for, or None for one
    that is not offered (answered -32601). A function returns the result's model, or raises
    RpcError to answer with that error; anything else that it raises is answered -32603. Each runs
    in a task of its own, which is cancelled when the agent sends ``$/cancel_request``.
    ``notifications`` has a plain function for each, or None to ignore it.

    The schema's ``session/update`` is a closed union: one of a newer agent does not fit. It is
    logged and given to ``on_invalid_notification``, and the connection goes on. ``unstable`` and
    ``unstable_notifications`` have the handlers of methods that the stable schema lacks; one of
    them given also has the side read and send unstable fields and members.
    """

    def __init__(
        self,
        connection: Connection,
        requests: ClientRequestHandlers,
        notifications: ClientNotificationHandlers,
        *,
        on_invalid_notification: InvalidNotificationCallback | None = None,
        unstable: UnstableClientRequestHandlers | None = None,
        unstable_notifications: UnstableClientNotificationHandlers | None = None,
    ) -> None:
        super().__init__(
            connection,
            _METHODS,
            requests,
            notifications,
            on_invalid_notification,
            unstable=unstable_tables(unstable, unstable_notifications),
        )
