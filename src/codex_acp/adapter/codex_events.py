"""What one app-server connection reports about its items, turns and requests, for the routing.

A sink of all threads, sub-agents' included. The runner of server requests is made when the first
request comes: most turns ask nothing, and its models take their time to load.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from codex_acp.codex._generated.notifications import UnknownNotification
from codex_acp.codex.items import FOLLOWED, Items

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.client import CodexClient
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.wire.model import WireModel

__all__ = ["CodexEvents"]

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"


class CodexEvents:
    """Joins a client to the routing; ``make_runner`` is called at the first server request."""

    def __init__(
        self, client: CodexClient, make_runner: Callable[[Items], ServerRequestRunner]
    ) -> None:
        self.items = Items()
        self._client = client
        self._make_runner = make_runner
        self._runner: ServerRequestRunner | None = None
        client.subscribe_all(self)
        client.handle_others(self._handle)

    def prompt_cancelled(self, session_id: str) -> None:
        """The client cancelled the session's prompt."""
        if self._runner is not None:
            self._runner.prompt_cancelled(session_id)

    async def _handle(self, request: ServerRequest) -> WireModel:
        if self._runner is None:
            self._runner = self._make_runner(self.items)
        return await self._runner.handle(request)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """See `NotificationSink`."""
        if method == RESOLVED:
            self._resolved(params)
        elif method in FOLLOWED:
            event = self._client.decode_notification(method, params)
            if isinstance(event, UnknownNotification):
                return
            self.items.apply(event)
            if event.method == "turn/completed" and self._runner is not None:
                self._runner.turn_ended(event.params.thread_id, event.params.turn.id)

    def on_batch_end(self) -> None:
        """See `NotificationSink`."""

    def on_closed(self, error: TransportError | None) -> None:
        """See `NotificationSink`."""
        del error
        if self._runner is not None:
            self._runner.codex_lost()

    def _resolved(self, params: JsonValue) -> None:
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if self._runner is not None and isinstance(request_id, str | int):
            self._runner.resolved(request_id)
