"""Which turns of a thread have begun and ended, known as soon as it is read.

A sink beside the stream of a turn: an interrupt must know it although nobody iterates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codex_acp._json import text_at
from codex_acp.codex._generated.models import TurnInterruptParams
from codex_acp.codex.connection.notification_router import NotificationSink, is_unloaded
from codex_acp.errors import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.errors import TransportError
    from codex_acp.jsonrpc.message import JsonValue

TURN_MARKS: Final = frozenset({"turn/started", "turn/completed"})


class TurnMarks(NotificationSink):
    """The marks of one thread, from when this is made until `close`."""

    def __init__(self, client: AppServerConnection, thread_id: str) -> None:
        self._client = client
        self.thread_id = thread_id
        self.turn_id: str | None = None
        """Of the turn that is followed, once it has begun."""
        self._changed = anyio.Event()
        self.begun: list[str] = []
        """Ids of turns in the order in which they began."""
        self.ended: set[str] = set()
        self.lost: bool = False
        """Whether the connection has ended."""
        self.closed: bool = False
        """Whether Codex has closed the thread."""
        client.subscribe(thread_id, self)

    @property
    def runs(self) -> bool:
        """Whether the turn that is followed may run: from before it begins to its end."""
        return not (self.lost or self.closed or self.turn_id in self.ended)

    def close(self) -> None:
        """Hear no more."""
        self._client.unsubscribe(self.thread_id, self)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, or nothing of the thread comes any more."""
        while not (self.lost or self.closed or condition()):
            changed = self._changed
            await changed.wait()

    async def interrupt(self) -> None:
        """End the turn that is followed; that it has just ended is no error. Raises as a call."""
        turn_id = self.turn_id or ""
        while turn_id not in self.ended:
            had_begun = turn_id in self.begun
            try:
                params = TurnInterruptParams(thread_id=self.thread_id, turn_id=turn_id)
                await self._client.turn_interrupt(params)
            except ErrorReply:
                if had_begun:
                    return  # it has just ended
                # Codex knows a turn to interrupt only when it has said that it started.
                await self.wait_for(lambda: turn_id in self.ended or turn_id in self.begun)
            else:
                return

    async def wait_for_its_end(self) -> None:
        """Wait until the turn that is followed has ended, or nothing of the thread comes."""
        await self.wait_for(lambda: not self.runs)

    # NotificationSink

    def on_notification(self, method: str, params: JsonValue) -> None:
        if is_unloaded(method, params):
            self.closed = True
            self._wake()
        turn_id = text_at(params, "turn", "id")
        if method not in TURN_MARKS or turn_id is None:
            return
        if method == "turn/started":
            self.begun.append(turn_id)
        else:
            self.ended.add(turn_id)
        self._wake()

    def on_closed(self, error: TransportError | None) -> None:
        del error
        self.lost = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
