"""Runs the program's tools when the model calls them (``item/tool/call``).

Finds the tool that a call of a thread means, and ends calls that Codex no longer waits for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from codex_acp._json import text_at, value_at
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.codex.threads.tools import Tool, failure, tool
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codex_acp.codex._generated.models import DynamicToolCallResponse
    from codex_acp.codex._generated.server_requests import ItemToolCall
    from codex_acp.jsonrpc.message import JsonValue, RequestId

EVERY_THREAD = None
"""The key of the tools that every thread has."""


class _Running(NamedTuple):
    """A tool call that runs."""

    task: asyncio.Task[Any]
    turn_id: str


class ToolCalls(NotificationSink):
    """The tools of one client, and their running calls."""

    def __init__(self) -> None:
        self._tools: dict[str | None, dict[str, Tool]] = {EVERY_THREAD: {}}
        self._running: dict[tuple[type, RequestId], _Running] = {}

    def add(
        self, tools: Iterable[Tool | Callable[..., object]], thread_id: str | None = EVERY_THREAD
    ) -> None:
        """Offer tools to one thread, or to all threads.

        Raises MisuseError if a function cannot be a tool, or two tools have one name.
        """
        known = self._tools.get(thread_id, {})
        self._tools[thread_id] = known | _by_name(tools, known)

    def offered(self, more: Iterable[Tool | Callable[..., object]]) -> list[JsonValue]:
        """Return the tools for ``thread/start``: those of all threads, and ``more``. Raises as
        `add`."""
        every = self._tools[EVERY_THREAD]
        return [t.spec() for t in (every | _by_name(more, every)).values()]

    async def handle(self, request: ItemToolCall) -> DynamicToolCallResponse:
        """Run a tool and return its result; for an unknown tool, return a failure that says so."""
        key = (type(request.id), request.id)
        task = asyncio.current_task()
        if task is not None:
            self._running[key] = _Running(task, request.params.turn_id)
        try:
            found = self._find(request)
            if found is None:
                return failure(f"this program has no tool {request.params.tool!r}")
            return await found.call(request.params.arguments)
        except asyncio.CancelledError:
            if key in self._running:
                raise
            return failure("Codex waits for it no more")
        finally:
            self._running.pop(key, None)

    def _find(self, request: ItemToolCall) -> Tool | None:
        params = request.params
        if params.namespace is not None:  # our tools have no namespace
            return None
        for key in (params.thread_id, EVERY_THREAD):
            found = self._tools.get(key, {}).get(params.tool)
            if found is not None:
                return found
        return None

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        """End a call that Codex no longer waits for.

        When a turn ends, Codex settles its calls in some cases, and says nothing in others.
        """
        if method == "serverRequest/resolved":
            request_id = value_at(params, "requestId")
            self._end([k for k in self._running if k == (type(request_id), request_id)])
        elif method == "turn/completed":
            turn_id = value_at(params, "turn", "id")
            self._end([k for k, running in self._running.items() if running.turn_id == turn_id])
        elif method in ("thread/closed", "thread/deleted"):
            thread_id = text_at(params, "threadId")
            if thread_id is not None:
                self._tools.pop(thread_id, None)

    def _end(self, keys: list[tuple[type, RequestId]]) -> None:
        for key in keys:
            self._running.pop(key).task.cancel()


def _by_name(
    tools: Iterable[Tool | Callable[..., object]], known: dict[str, Tool]
) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for given in tools:
        made = tool(given)
        taken = found.get(made.name) or known.get(made.name)
        if taken is not None and taken.function is not made.function:
            message = f"two tools have the name {made.name!r}; give one of them another name"
            raise MisuseError(message)
        found[made.name] = made
    return found
