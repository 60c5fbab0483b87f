"""Send one call whose reply is handled where it stands among what the server sends.

A call that is awaited goes on one step of the event loop behind its reply, and so behind every
notification of the same read. Owns the wait for one reply, also while the server is overloaded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from codex_acp.errors import CodexAcpError, ErrorReply
from codex_acp.jsonrpc.message import OVERLOADED, EncodedJson, JsonValue, Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.transport.connection import Connection, Outcome
    from codex_acp.transport.reading_gate import ReadingGate


class PostedCall:
    """One call; ``on_reply`` is called at most once, with its result or its error."""

    def __init__(
        self,
        connection: Connection,
        gate: ReadingGate,
        method: str,
        on_reply: Callable[[JsonValue | CodexAcpError], None],
    ) -> None:
        self._connection = connection
        self._gate = gate
        self._method = method
        self._on_reply = on_reply
        self._params: EncodedJson | None = None
        self._request_id: int | None = None
        self._again: asyncio.Task[None] | None = None
        self._waits = False

    def send(self, params: EncodedJson | None) -> None:
        """Write the request. Raises TransportError if the connection is closed."""
        self._params = params
        self._request_id = self._connection.post(self._method, params, self._settled)
        self._waits = True
        self._gate.__enter__()

    def abandon(self) -> None:
        """Wait no longer: the reply is dropped when it comes."""
        if self._end() and self._request_id is not None:
            self._connection.abandon(self._request_id)
            if self._again is not None:
                self._again.cancel()

    def _settled(self, outcome: Outcome) -> None:
        if isinstance(outcome, ErrorReply) and outcome.code == OVERLOADED and self._waits:
            self._again = asyncio.ensure_future(self._call_again(outcome))
        else:
            self._reply(outcome.result if isinstance(outcome, Response) else outcome)

    async def _call_again(self, refused: ErrorReply) -> None:
        from codex_acp.codex.connection.overload import call_again

        try:
            call = self._connection.call
            self._reply(await call_again(lambda: call(self._method, self._params), refused))
        except CodexAcpError as error:
            self._reply(error)

    def _reply(self, reply: JsonValue | CodexAcpError) -> None:
        if self._end():
            self._on_reply(reply)

    def _end(self) -> bool:
        """Whether the reply was still waited for; it is not any more."""
        waited, self._waits = self._waits, False
        if waited:
            self._gate.__exit__()
        return waited
