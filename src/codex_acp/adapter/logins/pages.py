"""A page that a person is asked to open, until Codex reports what came of it.

Owns the wait. The one place where ``elicitation/complete`` is sent: a login's end is a completion
that is really reported (contract 2.4).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import anyio

from codex_acp._json import text_at, value_at
from codex_acp._last_ones import LastOnes
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from codex_acp.adapter.session_client import Asks
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue


_MAX_EARLY: Final = 32
"""Ends that are kept because nobody waits for them yet."""


class Ends(NotificationSink):
    """A sink: how each thing ended that ``method`` reports, by the id in the field ``key``.

    A context manager, so that it hears nothing more than it has to.
    """

    def __init__(self, codex: AppServerConnection, method: str, key: str = "loginId") -> None:
        self._codex = codex
        self._method = method
        self._key = key
        self._ends: LastOnes[str, asyncio.Future[str | None]] = LastOnes(_MAX_EARLY)

    def __enter__(self) -> Ends:
        self._codex.subscribe_all(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._codex.unsubscribe_all(self)

    def of(self, name: str) -> asyncio.Future[str | None]:
        """Done when it has ended: None for success, else why not."""
        if name not in self._ends:
            self._ends[name] = asyncio.get_running_loop().create_future()
        return self._ends[name]

    def on_notification(self, method: str, params: JsonValue) -> None:
        name = text_at(params, self._key) if method == self._method else None
        if name is not None and not self.of(name).done():
            why = str(value_at(params, "error") or "Codex gave no reason")
            self.of(name).set_result(None if value_at(params, "success") is True else why)

    def on_closed(self, error: TransportError | None) -> None:
        """Give up every login: nothing can succeed any more."""
        why = "Codex has ended" if error is None else str(error)
        for end in self._ends.values():
            if not end.done():
                end.set_result(why)


async def open_until(
    asks: Asks, request: dict[str, Any], end: asyncio.Future[str | None]
) -> str | None:
    """Ask the person to open the page, and wait for ``end``; why it was not opened, else None.

    The question is withdrawn when the end comes first. Cancelling this changes nothing of ``end``.
    """
    refusal: str | None = None
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            nonlocal refusal
            try:
                response = await asks.elicitation_create(request)
            except CodexAcpError as error:
                refusal = f"the client could not show the page: {error}"
            else:
                if response.get("action") != "accept":
                    refusal = "the page was not opened"
            if refusal is not None:
                tasks.cancel_scope.cancel()

        tasks.start_soon(ask)
        await shielded(end)
        tasks.cancel_scope.cancel()
    if end.done():
        asks.elicitation_complete(request["elicitationId"])
        return None
    return refusal
