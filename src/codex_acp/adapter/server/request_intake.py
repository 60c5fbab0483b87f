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

    from codex_acp.adapter.server_requests import AsyncQuestionRunner, ServerRequestRunner
    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex._generated.server_requests import ServerRequest
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.codex.connection.server_requests import RefusedRequest
    from codex_acp.jsonrpc.message import JsonValue, RequestId

logger = logging.getLogger(__name__)

RESOLVED: Final = "serverRequest/resolved"


class RequestIntake(NotificationSink):
    """Passes the requests of ``codex`` to the runner that ``make_runner`` makes at the first one.
    ``interrupt`` is called with the thread and the turn to interrupt, and does not wait."""

    def __init__(
        self,
        codex: AppServerConnection,
        make_runner: Callable[[Items], ServerRequestRunner],
        interrupt: Callable[[str, str], None],
    ) -> None:
        self.items: Items = Items(codex.opened_threads)
        self.mcp: McpStartups = McpStartups()
        self._being_opened: dict[str, asyncio.Event] = {}
        """Id of a thread that is being opened → set when the thread is open."""
        self._codex = codex
        self._make_runner = make_runner
        self._interrupt = interrupt
        self._runner: ServerRequestRunner | None = None
        self._async_questions: AsyncQuestionRunner | None = None
        self._in_routing: set[tuple[type, RequestId]] = set()
        """Requests that the runner handles: the id, after the type of the id, as 1 is not "1"."""
        self._settled_early: set[tuple[type, RequestId]] = set()
        """Requests that Codex settled before the runner handled them."""
        self._reach = ForeignReach(self.items)
        codex.subscribe_all(self, USED_BY_ITEMS | {RESOLVED, STARTUP_STATUS})
        codex.handle_others(self.handle)

    def prompt_cancelled(self, session_id: str) -> None:
        """Settle the open requests of a session whose prompt the client cancelled."""
        if self._runner is not None:
            self._runner.prompt_cancelled(session_id)

    def opened_again(self, session_id: str) -> None:
        """Show the open questions of a session whose `Session` is a new one."""
        if self._runner is not None:
            self._runner.opened_again(session_id)

    def settle_turn(self, thread_id: str, turn_id: str) -> None:
        """Settle the open requests of a turn that is over, whether Codex reported that or not."""
        if self._runner is not None:
            self._runner.turn_ended(thread_id, turn_id)

    def sub_agents_cancelled(self, threads: frozenset[str]) -> None:
        """Settle the open requests of sub-agents that the client cancelled."""
        if self._runner is not None:
            self._runner.sub_agents_cancelled(threads)

    @contextmanager
    def opening(self, thread_id: str) -> Iterator[None]:
        """Let the requests of a thread wait while the thread is opened, in a ``with`` block."""
        opened = self._being_opened[thread_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._being_opened[thread_id]
            opened.set()

    def on_refused(self, request: RefusedRequest) -> None:
        """Report and record a request that the connection refused without a route."""
        self._ready_runner().refused(request)

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
            looks = await self._ready_runner().look(request, session_id)
        if key in self._settled_early:
            self._settled_early.discard(key)
            reply = refusal(request.method, request.params, "Codex settled it itself")
            if isinstance(reply, RpcError):
                raise reply
            return reply
        self._in_routing.add(key)
        try:
            return await self._ready_runner().handle(request, looks)
        finally:
            self._in_routing.discard(key)

    def _ready_runner(self) -> ServerRequestRunner:
        if self._runner is None:
            self._runner = self._make_runner(self.items)
        return self._runner

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method == RESOLVED:
            self._resolved(params)
        elif method == STARTUP_STATUS:
            self.mcp.note(params)
        elif method in USED_BY_ITEMS:
            event = self._codex.decode_notification(method, params)
            if isinstance(event, UnknownNotification):
                return
            self.items.apply(event)
            self._check_reach(event)
            if event.method == "item/completed" and getattr(event.params.item, "questions", None):
                if self._async_questions is None:
                    from codex_acp.adapter.server_requests import AsyncQuestionRunner

                    self._async_questions = AsyncQuestionRunner(self._codex, self._ready_runner)
                self._async_questions.completed(event.params)
            if self._runner is None:
                return
            self._runner.reported(event)
            if event.method == "item/completed":
                item = event.params.item
                if not isinstance(item, UnknownVariant):  # no request is about an unknown item
                    ended_well = getattr(item, "status", "completed") == "completed"
                    self._runner.item_ended(event.params.thread_id, item.id, ended_well=ended_well)
            elif event.method == "turn/completed":
                self.settle_turn(event.params.thread_id, event.params.turn.id)

    def on_closed(self, error: TransportError | None) -> None:
        del error
        if self._runner is not None:
            self._runner.codex_lost()

    def _check_reach(self, event: ServerNotification) -> None:
        """Interrupt a turn whose model reaches into another session, if no hook refused that."""
        reach = self._reach.apply(event)
        if reach is not None:
            self._interrupt(reach.thread_id, reach.turn_id)
            self._ready_runner().reached_elsewhere(reach.thread_id, reach.others)

    def _resolved(self, params: JsonValue) -> None:
        request_id = value_at(params, "requestId")
        if not isinstance(request_id, str | int):
            return
        key = (type(request_id), request_id)
        if key in self._in_routing and self._runner is not None:
            self._runner.resolved(request_id)
        elif any((type(each.id), each.id) == key for each in self._codex.open_requests):
            self._settled_early.add(key)  # `handle` has still to give the request to the runner
        elif self._runner is not None:
            self._runner.resolved(request_id)  # Codex has taken the answer
