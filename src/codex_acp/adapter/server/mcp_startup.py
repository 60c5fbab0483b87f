"""Waiting for the MCP servers that a client gave a session, before its first turn.

Codex starts them beside the turn: a model that is asked at once does not have their tools. Codex
can be told to wait (``required``), but then a server that does not start ends the thread. So the
wait is here, and bounded: what failed is said by the mapping, what is slow comes later.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._json import text_at, value_at

if TYPE_CHECKING:
    from collections.abc import Collection

    from codex_acp.jsonrpc.message import JsonValue

STARTUP_STATUS: Final = "mcpServer/startupStatus/updated"

LOGIN_WANTED: Final = "reauthenticationRequired"
"""The ``failureReason`` of a server that a login would make start."""

START_SECONDS: Final = 10.0
"""How long a first turn waits: a server that npm or uv has to download first takes longer."""

UNHEARD_SECONDS: Final = 2.0
"""How long it waits for a server of which Codex has said nothing: a policy may have dropped it."""

MAX_THREADS: Final = 1_000
"""Threads whose servers are remembered, sub-agents' too; a forgotten one's are not waited for."""

_STARTING: Final = "starting"


class McpStartups:
    """Notes what one connection to Codex says of its threads' MCP servers."""

    def __init__(self) -> None:
        self._statuses: dict[str, dict[str, str]] = {}
        """Thread → server → its last status."""
        self._logins: dict[str, dict[str, None]] = {}
        """Thread → the servers that want a login."""
        self._changed = asyncio.Event()

    def note(self, params: JsonValue) -> None:
        """Take one ``mcpServer/startupStatus/updated``."""
        thread_id, name, status = (text_at(params, key) for key in ("threadId", "name", "status"))
        if thread_id is not None and name is not None and status is not None:
            self._statuses.setdefault(thread_id, {})[name] = status
            if value_at(params, "failureReason") == LOGIN_WANTED:
                self._logins.setdefault(thread_id, {})[name] = None
            if len(self._statuses) > MAX_THREADS:
                self._logins.pop(oldest := next(iter(self._statuses)), None)
                del self._statuses[oldest]
        self._changed.set()
        self._changed = asyncio.Event()

    def logins_wanted(self, thread_id: str) -> list[str]:
        """The servers of a thread that did not start for want of a login."""
        return list(self._logins.get(thread_id, ()))

    def forget(self, thread_id: str) -> None:
        """The servers of a thread are about to be started anew."""
        self._statuses.pop(thread_id, None)
        self._logins.pop(thread_id, None)

    async def started(self, thread_id: str, servers: Collection[str]) -> list[str]:
        """Wait until each of the servers has started or failed, and only so long.

        Gives those that have begun to start and have done neither.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(UNHEARD_SECONDS):
                while self._are(thread_id, servers, (None, _STARTING)):
                    await self._changed.wait()
                return []
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS - UNHEARD_SECONDS):
                while self._are(thread_id, servers, (_STARTING,)):
                    await self._changed.wait()
        return self._are(thread_id, servers, (_STARTING,))

    def _are(
        self, thread_id: str, servers: Collection[str], statuses: tuple[str | None, ...]
    ) -> list[str]:
        known = self._statuses.get(thread_id, {})
        return [name for name in servers if known.get(name) in statuses]
