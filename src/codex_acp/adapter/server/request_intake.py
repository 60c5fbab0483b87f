"""Follows the items, turns and requests of one app-server connection, for the routing.

A sink of all threads, sub-agents' included. The runner of server requests is made when the first
request comes: most turns ask nothing, and its models take their time to load.
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
from codex_acp.codex.approvals.running_items import FOLLOWED, ForeignReach, Items
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

_COMPLETED: Final = "completed"


class RequestIntake(NotificationSink):
    """Joins a client to the routing; ``make_runner`` is called at the first server request.

    ``interrupt`` begins to interrupt a turn of a thread.
    """

    def __init__(
        self,
        client: AppServerConnection,
        make_runner: Callable[[Items], ServerRequestRunner],
        interrupt: Callable[[str, str], None],
    ) -> None:
        self.items: Items = Items(client.opened_threads)
        self.mcp: McpStartups = McpStartups()
        self._openings: dict[str, asyncio.Event] = {}
        self._client = client
        self._make_runner = make_runner
        self._interrupt = interrupt
        self._runner: ServerRequestRunner | None = None
        self._asks_aside: AsyncQuestionRunner | None = None
        self._begun: set[tuple[type, RequestId]] = set()
        self._settled_early: set[tuple[type, RequestId]] = set()
        self._reach = ForeignReach(self.items)
        client.subscribe_all(self, FOLLOWED | {RESOLVED, STARTUP_STATUS})
        client.handle_others(self.handle)

    def prompt_cancelled(self, session_id: str) -> None:
        """The client cancelled the session's prompt."""
        if self._runner is not None:
            self._runner.prompt_cancelled(session_id)

    def turn_over(self, thread_id: str, turn_id: str) -> None:
        """A turn is over, whether Codex has said so or not."""
        if self._runner is not None:
            self._runner.turn_ended(thread_id, turn_id)

    def sub_agents_cancelled(self, threads: frozenset[str]) -> None:
        """The client cancelled these sub-agents."""
        if self._runner is not None:
            self._runner.sub_agents_cancelled(threads)

    @contextmanager
    def opening(self, thread_id: str) -> Iterator[None]:
        """While a thread is opened: what it asks again waits until the client can know of it."""
        opened = self._openings[thread_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._openings[thread_id]
            opened.set()

    def refused(self, refused: RefusedRequest) -> None:
        """The client refused a request by itself; the runner says so."""
        self._ready_runner().refused(refused)

    async def handle(self, request: ServerRequest) -> WireModel:
        """Answer one request of the app-server."""
        from codex_acp.routing.route import asking_thread

        key = (type(request.id), request.id)
        thread_id, looks = asking_thread(request), None
        if thread_id is not None:
            session_id = self.items.root_of(thread_id)
            opening = self._openings.get(session_id)
            if opening is not None:
                await opening.wait()
            looks = await self._ready_runner().look(request, session_id)
        if key in self._settled_early:
            self._settled_early.discard(key)
            reply = refusal(request.method, request.params, "Codex settled it itself")
            if isinstance(reply, RpcError):
                raise reply
            return reply
        self._begun.add(key)
        try:
            return await self._ready_runner().handle(request, looks)
        finally:
            self._begun.discard(key)

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
        elif method in FOLLOWED:
            event = self._client.decode_notification(method, params)
            if isinstance(event, UnknownNotification):
                return
            self.items.apply(event)
            self._look_elsewhere(event)
            if event.method == "item/completed" and getattr(event.params.item, "questions", None):
                if self._asks_aside is None:
                    from codex_acp.adapter.server_requests import AsyncQuestionRunner

                    self._asks_aside = AsyncQuestionRunner(self._client, self._ready_runner)
                self._asks_aside.completed(event.params)
            if self._runner is None:
                return
            self._runner.reported(event)
            if event.method == "item/completed":
                item = event.params.item
                if not isinstance(item, UnknownVariant):  # none of those is ever asked about
                    well = getattr(item, "status", _COMPLETED) == _COMPLETED
                    self._runner.item_ended(event.params.thread_id, item.id, ended_well=well)
            elif event.method == "turn/completed":
                self.turn_over(event.params.thread_id, event.params.turn.id)

    def on_closed(self, error: TransportError | None) -> None:
        del error
        if self._runner is not None:
            self._runner.codex_lost()

    def _look_elsewhere(self, event: ServerNotification) -> None:
        """End what reaches another session, where Codex did not run the hook that refuses it."""
        reach = self._reach.apply(event)
        if reach is not None:
            self._interrupt(reach.thread_id, reach.turn_id)
            if reach.others:
                self._ready_runner().reached_elsewhere(reach.thread_id, reach.others)

    def _resolved(self, params: JsonValue) -> None:
        request_id = value_at(params, "requestId")
        if not isinstance(request_id, str | int):
            return
        key = (type(request_id), request_id)
        if key in self._begun and self._runner is not None:
            self._runner.resolved(request_id)
        elif any((type(r.id), r.id) == key for r in self._client.open_requests):
            self._settled_early.add(key)  # it came in one read with its request
        elif self._runner is not None:
            self._runner.resolved(request_id)  # it has taken the answer
