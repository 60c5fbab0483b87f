"""Follow the items, turns and server requests of one app-server connection, for the routing.

A sink of all threads, sub-agents' included. The `ServerRequestRunner` is made at the first request:
most turns have no request, and the models of the runner take time to load.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from codex_acp._json import value_at
from codex_acp.adapter.server.mcp_startup import STARTUP_STATUS, McpStartups
from codex_acp.codex._generated.notifications import UnknownNotification
from codex_acp.codex.approvals.refusals import refusal
from codex_acp.codex.approvals.running_items import USED_BY_ITEMS, ForeignReach, Items
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import RpcError, TransportError
from codex_acp.wire.model import UnknownVariant, WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.adapter.prompts.turn_calls import Interrupt
    from codex_acp.adapter.server_requests import ServerRequestRunner
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue, RequestId

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"


class RequestIntake(NotificationSink):
    """Passes the requests of ``codex`` to the runner that ``make_runner`` makes when needed."""

    def __init__(
        self,
        codex: AppServerConnection,
        make_runner: Callable[[Items], ServerRequestRunner],
        interrupt: Interrupt,
    ) -> None:
        self.items: Items = Items(codex.opened_threads)
        self.mcp: McpStartups = McpStartups()
        self._being_opened: dict[str, asyncio.Event] = {}
        """Id of a thread that is being opened → set when the thread is open."""
        self._codex = codex
        self._make_runner = make_runner
        self._interrupt = interrupt
        self.runner: ServerRequestRunner | None = None
        """None until the first request."""
        self._in_routing: set[tuple[type, RequestId]] = set()
        """Requests that the runner handles: the id, after the type of the id, as 1 is not "1"."""
        self._settled_early: set[tuple[type, RequestId]] = set()
        """Requests that Codex settled before the runner handled them."""
        self._reach = ForeignReach(self.items)
        codex.subscribe_all(self, USED_BY_ITEMS | {RESOLVED, STARTUP_STATUS})
        codex.handle_others(self.handle)

    @contextmanager
    def opening(self, thread_id: str) -> Iterator[None]:
        """Let the requests of a thread wait while the thread is opened, in a ``with`` block."""
        opened = self._being_opened[thread_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._being_opened[thread_id]
            opened.set()

    async def handle(self, request: ServerRequest) -> WireModel:
        """Answer one request of the app-server."""
        from codex_acp.routing.route import asking_thread

        key = (type(request.id), request.id)
        thread_id, looks = asking_thread(request), None
        if thread_id is not None:
            session_id = self.items.root_of(thread_id)
            opened = self._being_opened.get(session_id)
            if opened is not None:
                await opened.wait()
            looks = await self.ready_runner().look(request, session_id)
        if key in self._settled_early:
            self._settled_early.discard(key)
            reply = refusal(request.method, request.params, "Codex settled it itself")
            if isinstance(reply, RpcError):
                raise reply
            return reply
        self._in_routing.add(key)
        try:
            return await self.ready_runner().handle(request, looks)
        finally:
            self._in_routing.discard(key)

    def ready_runner(self) -> ServerRequestRunner:
        """Return the runner, made now if need be."""
        if self.runner is None:
            self.runner = self._make_runner(self.items)
        return self.runner

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method == RESOLVED:
            self._note_resolved(params)
        elif method == STARTUP_STATUS:
            self.mcp.note(params)
        elif method in USED_BY_ITEMS:
            event = self._codex.decode_notification(method, params)
            if isinstance(event, UnknownNotification):
                return
            self.items.apply(event)
            self._check_reach(event)
            if event.method == "item/completed" and getattr(event.params.item, "questions", None):
                self.ready_runner().ask_async(event.params)
            if self.runner is None:
                return
            self.runner.note_notification(event)
            if event.method == "item/completed":
                item = event.params.item
                if not isinstance(item, UnknownVariant):  # no request is about an unknown item
                    ended_well = getattr(item, "status", "completed") == "completed"
                    self.runner.item_ended(event.params.thread_id, item.id, ended_well=ended_well)
            elif event.method == "turn/completed":
                self.runner.turn_ended(event.params.thread_id, event.params.turn.id)

    def on_closed(self, error: TransportError | None) -> None:
        del error
        if self.runner is not None:
            self.runner.codex_lost()

    def _check_reach(self, event: ServerNotification) -> None:
        """Interrupt a turn whose model reaches into another session, if no hook refused that."""
        reach = self._reach.apply(event)
        if reach is not None:
            self._interrupt(reach.thread_id, reach.turn_id)
            self.ready_runner().note_reach(reach)

    def _note_resolved(self, params: JsonValue) -> None:
        request_id = value_at(params, "requestId")
        if not isinstance(request_id, str | int):
            return
        key = (type(request_id), request_id)
        if key in self._in_routing and self.runner is not None:
            self.runner.settle_resolved(request_id)
        elif any((type(each.id), each.id) == key for each in self._codex.open_requests):
            self._settled_early.add(key)  # `handle` has still to give the request to the runner
        elif self.runner is not None:
            self.runner.settle_resolved(request_id)  # Codex has taken the answer
