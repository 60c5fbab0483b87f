"""The agent's side of ACP: the peer is a client.

Owns the rule that ``initialize`` comes first and once. Must not know what any method does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from codex_acp.acp._generated.v1.calls import ClientCalls
from codex_acp.acp._generated.v1.methods import (
    AGENT_NOTIFICATIONS,
    AGENT_REQUESTS,
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
)
from codex_acp.acp.answers import answer_rpc_error
from codex_acp.acp.conventions import Methods, unstable_tables
from codex_acp.acp.side import Side
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentNotificationHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp.side import InvalidNotificationCallback, QuickHandler
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue, Notification, Request
    from codex_acp.transport.connection import Connection, Responder

__all__ = ["AgentSide"]

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_METHODS: Final = Methods(
    AGENT_REQUESTS, AGENT_NOTIFICATIONS, CLIENT_REQUESTS, CLIENT_NOTIFICATIONS
)


class AgentSide(Side, ClientCalls):
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

    A request before ``initialize``, and a second ``initialize``, are answered -32600.
    """

    def __init__(
        self,
        connection: Connection,
        requests: AgentRequestHandlers,
        notifications: AgentNotificationHandlers,
        *,
        on_invalid_notification: InvalidNotificationCallback | None = None,
        quick: Mapping[str, QuickHandler] | None = None,
        unstable: UnstableAgentRequestHandlers | None = None,
        unstable_notifications: UnstableAgentNotificationHandlers | None = None,
    ) -> None:
        super().__init__(
            connection,
            _METHODS,
            requests,
            notifications,
            on_invalid_notification,
            quick,
            unstable_tables(unstable, unstable_notifications),
        )
        initialize = requests["initialize"]
        if initialize is None:
            msg = "an agent must handle initialize: without it every other request is refused"
            raise MisuseError(msg)
        self._requests = {**self._requests, "initialize": self._or_reset(initialize)}
        first = self._quick.get("initialize")
        if first is not None:
            self._quick = {**self._quick, "initialize": self._quick_or_reset(first)}
        self._initialized = False

    def on_request(self, request: Request, responder: Responder) -> None:
        """See `Side.on_request`; ``initialize`` must be the first, and only once."""
        first = request.method == "initialize"
        if first and self._initialized:
            refusal = "initialize was sent before; it is allowed once per connection"
            answer_rpc_error(responder, RpcError(INVALID_REQUEST, refusal))
        elif not first and not self._initialized:
            refusal = f"{request.method} was sent before initialize"
            answer_rpc_error(responder, RpcError(INVALID_REQUEST, refusal))
        else:
            super().on_request(request, responder)
            if first:
                # Requests that follow in the same read run behind it, so they need not wait.
                self._initialized = not responder.settled

    def on_notification(self, notification: Notification) -> None:
        """See `Side.on_notification`; before ``initialize`` there is nothing they could be for."""
        if self._initialized:
            super().on_notification(notification)
        else:
            logger.debug("%s was sent before initialize and ignored", notification.method)

    def session_update_encoded(self, params: EncodedJson) -> None:
        """`session_update` with its params as JSON: for a sender that has most of it ready."""
        self._connection.notify("session/update", params)

    def hold(self, write: Callable[[], None]) -> None:
        """Have ``write`` send updates that may still grow; see `Connection.hold`."""
        self._connection.hold(write)

    def _or_reset(self, initialize: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """``initialize``, which may be sent again if it fails."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await initialize(*args, **kwargs)
            except BaseException:
                self._initialized = False
                raise

        return run

    def _quick_or_reset(self, quick: QuickHandler) -> QuickHandler:
        def look(params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
            run = quick(params)
            return None if run is None else self._or_reset(run)

        return look
