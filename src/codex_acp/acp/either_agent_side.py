"""The agent's side of ACP, whichever version the client speaks. Loads no models by itself.

Owns the rule that ``initialize`` comes first and once. Must not know what any other method does.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING

from codex_acp.acp.capabilities import choose_version, initialize_params
from codex_acp.acp.dialects import dialects
from codex_acp.acp.side import Side, answer_rpc_error
from codex_acp.errors import MisuseError, RpcError
from codex_acp.jsonrpc import INVALID_REQUEST, Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.acp._generated.v2.calls import ClientCalls as ClientCallsV2
    from codex_acp.acp.dialects import AgentHandlers, AnyHandlers
    from codex_acp.acp.side import InvalidNotificationCallback
    from codex_acp.jsonrpc import EncodedJson, Notification
    from codex_acp.transport.connection import Connection, Responder

logger = logging.getLogger(__name__)


class EitherAgentSide(Side):
    """An ACP agent that speaks either version. ``v1`` and ``v2`` are the handlers of a version, or
    functions that return them when a client speaks that version; see `AgentSide`."""

    def __init__(
        self,
        connection: Connection,
        v1: AnyHandlers | Callable[[], AnyHandlers] | None,
        v2: AgentHandlers | Callable[[], AgentHandlers] | None,
        on_invalid_notification: InvalidNotificationCallback | None = None,
    ) -> None:
        super().__init__(connection, dialects("agent", v1, v2), on_invalid_notification)
        self._initialized = False
        """Whether ``initialize`` was answered with a result."""
        self._is_in_use = False
        """Whether another request has followed ``initialize``."""

    @cached_property
    def v2(self) -> ClientCallsV2:
        """The client's methods of version 2; a call raises MisuseError in another version."""
        from codex_acp.acp.v2_calls import CallsOfClient

        return CallsOfClient(self)

    def on_request(self, request: Request, responder: Responder) -> None:
        """Handle a request; ``initialize`` must be the first, and may be sent once."""
        if request.method == "initialize":
            try:
                chosen = choose_version(request.params, self._dialects)
                if self._version is not None:
                    self._check_repeated(self._version, chosen)
            except RpcError as error:
                answer_rpc_error(responder, error)
                return
            self._load_dialect(chosen)
            params = initialize_params(request.params, chosen)
            super().on_request(Request(request.id, request.method, params), responder)
            if not responder.settled:
                # Not later: requests of the same read are checked before `initialize` is answered.
                self._version = chosen
        elif self._version is None:
            refusal = f"{request.method} was sent before initialize"
            answer_rpc_error(responder, RpcError(INVALID_REQUEST, refusal))
        else:
            self._is_in_use = True
            super().on_request(request, responder)

    def _check_repeated(self, current: int, chosen: int) -> None:
        """Raise RpcError unless ``initialize`` may be repeated: in version 2, before any other
        request, and while no ``initialize`` runs. ``current`` is the version of the first request,
        ``chosen`` the version of the repeated request."""
        if current == 1 or self._is_in_use or not self._initialized:
            again = "before any other request" if current > 1 else "once per connection"
            raise RpcError(INVALID_REQUEST, f"initialize was sent before; it is allowed {again}")
        if chosen != current:
            refusal = f"a repeated initialize must request protocol version {current} or later"
            raise RpcError(INVALID_REQUEST, refusal)

    def on_notification(self, notification: Notification) -> None:
        """Handle a notification; ignore notifications before ``initialize``."""
        if self._version is not None:
            super().on_notification(notification)
        else:
            logger.debug("%s was sent before initialize and ignored", notification.method)

    async def close_behind(self, method: str, seconds: float) -> None:
        """Close once the open requests of ``method`` are answered, or after ``seconds``."""
        entries = [entry for entry in self._open.values() if entry.responder.method == method]
        tasks = {entry.task for entry in entries if entry.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        await self.aclose()

    def session_update_encoded(self, params: EncodedJson) -> None:
        """Send ``session/update`` with params that are encoded already."""
        self.connection.notify("session/update", params)

    def hold(self, write: Callable[[], None]) -> None:
        """Call ``write`` at the next `Outbox.flush`; until then, updates can be joined."""
        self.connection.outbox.hold(write)

    def _call_for(self, request: Request) -> Callable[[], Awaitable[object]]:
        run = super()._call_for(request)
        return partial(self._initialize, run) if request.method == "initialize" else run

    async def _initialize(self, run: Callable[[], Awaitable[object]]) -> object:
        """Call the handler of ``initialize``; if it fails, the client may send it again."""
        is_first = not self._initialized
        self._initialized = False  # another `initialize` is refused until this one is answered
        try:
            result = await run()
            answered = getattr(result, "protocol_version", self._version)
            # With handlers of one version, there was nothing to choose.
            if len(self._dialects) > 1 and answered != self._version:
                chosen = f"but {self._version} was chosen for it"
                raise MisuseError(f"initialize answered version {answered}, {chosen}")
        except BaseException:
            if is_first:
                self._version = None
            self._initialized = not is_first  # a repetition that fails changes nothing
            raise
        self._initialized = True
        return result
