"""The turn of a session's first prompt, asked for before what a turn needs is loaded.

Codex works on it meanwhile; what it says of it is held until the session is known, and with that
the prompt runs as every other one. Loads no model.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from codex_acp.mapping.prompt.simple import simple_turn_params
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codex_acp.adapter.prompts.queue import QueuedPrompt
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.mapping.events.content import TextBlock


class EarlyTurn:
    """Asks for the turn when it is made; the answer is for whoever runs the prompt."""

    def __init__(
        self,
        codex: AppServerConnection,
        thread_id: str,
        message: Sequence[TextBlock],
        when_inserted: Callable[[str], None] | None,
    ) -> None:
        self._codex = codex
        self.message = message
        self.when_inserted = when_inserted
        """See `Session.prompt`."""
        self.message_id = os.urandom(16).hex()
        """What Codex calls the message."""
        self.written = codex.link.offered if isinstance(codex.link, ChildProcess) else None
        """How much was written to this Codex before; see `TurnCalls.written`."""
        params = simple_turn_params(thread_id, message, self.message_id)
        self._asked = asyncio.ensure_future(codex.call_raw("turn/start", params))
        self._asked.add_done_callback(_seen)
        self._prompt: QueuedPrompt | None = None

    async def start(self) -> str:
        """The turn's id. Raises as every call."""
        result = self._codex.decode_result("turn/start", await self._asked)
        turn_id: str = result.turn.id
        return turn_id

    def placed(self, prompt: QueuedPrompt) -> None:
        """The session is known: the prompt has its place among those of the session."""
        self._prompt = prompt

    @property
    def has_place(self) -> bool:
        """Whether the prompt has begun and nobody waits for it yet."""
        return self._prompt is not None

    def taken(self) -> QueuedPrompt | None:
        """That place, once: a prompt that is run again is asked for anew."""
        prompt, self._prompt = self._prompt, None
        return prompt


def _seen(asked: asyncio.Task[JsonValue]) -> None:
    """Nobody may be left whom the error is for."""
    if not asked.cancelled():
        asked.exception()
