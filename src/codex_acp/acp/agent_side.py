"""The agent's side of ACP: the peer is a client.

Owns the rule that ``initialize`` comes first and once. Must not know what any method does.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from codex_acp.acp._generated.v1.calls import ClientCalls
from codex_acp.acp.answers import answer_rpc_error
from codex_acp.acp.dialects import Handlers, dialects
from codex_acp.acp.negotiation import choose_version, initialize_params
from codex_acp.acp.side import Side
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp._generated.v1.handlers import (
        AgentNotificationHandlers,
        AgentRequestHandlers,
        UnstableAgentNotificationHandlers,
        UnstableAgentRequestHandlers,
    )
    from codex_acp.acp._generated.v2.calls import ClientCalls as ClientCallsV2
    from codex_acp.acp.conventions import ExtensionHandler, QuickHandler
    from codex_acp.acp.dialects import Dialect
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.acp.v2_handlers import AgentHandlers
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue, Notification
    from codex_acp.transport.connection import Connection
    from codex_acp.transport.responder import Responder

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


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

        def complete(made: Dialect) -> Dialect:
            return made.with_initialize(self._or_reset, self._quick_or_reset)

        super().__init__(connection, dialects("agent", v1, v2, complete), on_invalid_notification)
        self._initialized = False
        self._asked = False
        """Whether any other request than ``initialize`` has come behind it."""

    @cached_property
    def v2(self) -> ClientCallsV2:
        """The client's methods, where the connection speaks version 2."""
        from codex_acp.acp.v2_calls import CallsOfClient

        return CallsOfClient(self)

    def on_request(self, request: Request, responder: Responder) -> None:
        """See `Side.on_request`; ``initialize`` must be the first, and only once."""
        if request.method == "initialize":
            self._on_initialize(request, responder)
        elif self._version is None:
            refusal = f"{request.method} was sent before initialize"
            answer_rpc_error(responder, RpcError(INVALID_REQUEST, refusal))
        else:
            self._asked = True
            super().on_request(request, responder)

    def _on_initialize(self, request: Request, responder: Responder) -> None:
        try:
            chosen = choose_version(request.params, self._dialects)
            if self._version is not None:
                self._check_repeated(self._version, chosen)
        except RpcError as error:
            answer_rpc_error(responder, error)
            return
        self._begin_with(chosen)
        params = initialize_params(request.params, chosen)
        super().on_request(Request(request.id, request.method, params), responder)
        if not responder.settled:
            # Requests that follow in the same read run behind it, so they need not wait.
            self._version = chosen

    def _check_repeated(self, spoken: int, chosen: int) -> None:
        """Raises RpcError for an ``initialize`` that may not come again."""
        if spoken == 1 or self._asked or not self._initialized:
            again = "before any other request" if spoken > 1 else "once per connection"
            raise RpcError(INVALID_REQUEST, f"initialize was sent before; it is allowed {again}")
        if chosen != spoken:
            refusal = f"a repeated initialize must request protocol version {spoken} or later"
            raise RpcError(INVALID_REQUEST, refusal)

    def on_notification(self, notification: Notification) -> None:
        """See `Side.on_notification`; before ``initialize`` there is nothing they could be for."""
        if self._version is not None:
            super().on_notification(notification)
        else:
            logger.debug("%s was sent before initialize and ignored", notification.method)

    def session_update_encoded(self, params: EncodedJson) -> None:
        """`session_update` with its params as JSON: for a sender that has most of it ready."""
        self.connection.notify("session/update", params)

    def hold(self, write: Callable[[], None]) -> None:
        """Have ``write`` send updates that may still grow; see `Outbox.hold`."""
        self.connection.outbox.hold(write)

    def _or_reset(self, initialize: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """``initialize``, which may be sent again if it fails."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            is_first, self._initialized = not self._initialized, False
            try:
                result = await initialize(*args, **kwargs)
                self._check_answered(getattr(result, "protocol_version", self._version))
            except BaseException:
                self._version = None if is_first else self._version
                self._initialized = not is_first
                raise
            self._initialized = True
            return result

        return run

    def _check_answered(self, version: int | None) -> None:
        """An agent of several versions must answer the one that was chosen: it is spoken."""
        if len(self._dialects) > 1 and version != self._version:
            msg = f"initialize answered version {version}, but {self._version} was chosen for it"
            raise MisuseError(msg)

    def _quick_or_reset(self, quick: QuickHandler) -> QuickHandler:
        def look(params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
            run = quick(params)
            return None if run is None else self._or_reset(run)

        return look
