"""Wait for the MCP servers that a client gave a session, before the session's first turn.

Codex does not wait for the servers, so a model that is called at once lacks their tools. With the
setting ``required`` Codex waits, but a server that does not start ends the thread. So the adapter
waits for a bounded time. The mapping reports servers that failed; the tools of a slow server come
with a later turn.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at, value_at
from codex_acp.codex.approvals.running_items import full_server_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.jsonrpc import JsonValue

STARTUP_STATUS: Final = "mcpServer/startupStatus/updated"

LOGIN_WANTED: Final = "reauthenticationRequired"
"""The ``failureReason`` of a server that needs a login to start."""

START_SECONDS: Final = 10.0
"""Seconds that a first turn waits; npm or uv may take longer to download a server."""

UNREPORTED_SECONDS: Final = 2.0
"""Seconds that a first turn waits for a server without a status: a policy may have dropped it."""

MAX_THREADS: Final = 1_000
"""Threads whose servers are remembered, sub-agents' too; the oldest are forgotten."""

_STARTING: Final = "starting"


class McpStartups:
    """The statuses of the MCP servers of one connection's threads."""

    def __init__(self) -> None:
        self._statuses: dict[str, dict[str, str]] = {}
        """Thread → server → its last status."""
        self._logins: dict[str, dict[tuple[str, str | None], None]] = {}
        """Thread → name and environment of the servers that need a login."""
        self._changed = asyncio.Event()
        """Set, and replaced by a new event, at each status."""

    def note(self, params: JsonValue) -> None:
        """Note the status in a ``mcpServer/startupStatus/updated``."""
        thread_id, name, status = (text_at(params, key) for key in ("threadId", "name", "status"))
        if thread_id is not None and name is not None and status is not None:
            environment = text_at(params, "environmentId")
            self._statuses.setdefault(thread_id, {})[full_server_name(name, environment)] = status
            if value_at(params, "failureReason") == LOGIN_WANTED:
                self._logins.setdefault(thread_id, {})[name, environment] = None
            if len(self._statuses) > MAX_THREADS:
                oldest = next(iter(self._statuses))
                self.forget(oldest)
        self._changed.set()
        self._changed = asyncio.Event()

    def logins_wanted(self, thread_id: str) -> list[tuple[str, str | None]]:
        """Return name and environment of the servers of a thread that need a login to start."""
        return list(self._logins.get(thread_id, ()))

    def forget(self, thread_id: str) -> None:
        """Forget the servers of a thread, before they are started again."""
        self._statuses.pop(thread_id, None)
        self._logins.pop(thread_id, None)

    async def wait_started(self, thread_id: str, servers: Collection[str]) -> list[str]:
        """Wait, for a bounded time, for each server to start or fail; return the slow servers."""
        # First wait for servers without a status, too; then only for servers that report a start.
        more_seconds = START_SECONDS - UNREPORTED_SECONDS
        waits = (UNREPORTED_SECONDS, (None, _STARTING)), (more_seconds, (_STARTING,))
        for seconds, statuses in waits:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while self._with_status(thread_id, servers, statuses):
                        await self._changed.wait()
                    return []
        return self._with_status(thread_id, servers, (_STARTING,))

    def _with_status(
        self, thread_id: str, servers: Collection[str], statuses: tuple[str | None, ...]
    ) -> list[str]:
        reported = self._statuses.get(thread_id, {})
        return [name for name in servers if reported.get(name) in statuses]
