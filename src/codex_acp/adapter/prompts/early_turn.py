"""The turn of a session's first prompt, asked for before what a turn needs is loaded.

Codex works on it meanwhile; what it says of it is held until the session is known, and with that
the prompt runs as every other one. Loads no model.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.mapping.prompt.simple import simple_turn_params
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        """Called with the message's id when Codex has taken it."""
        self.message_id: str = os.urandom(16).hex()
        """Id of the message."""
        self.written: int | None = (
            codex.link.offered if isinstance(codex.link, ChildProcess) else None
        )
        """How much was written to this Codex before; see `TurnCalls.written`."""
        self._prompt: str | None = None
        self._reply: tuple[JsonValue | CodexAcpError] | None = None
        self._on_reply: Callable[[JsonValue | CodexAcpError], None] | None = None
        self.abandon: Callable[[], None] = _nothing
        """Waits no longer for the answer."""
        params = simple_turn_params(thread_id, message, self.message_id)
        try:
            self.abandon = codex.post("turn/start", params, self._answered)
        except TransportError as error:
            self._answered(error)

    def when_answered(self, on_reply: Callable[[JsonValue | CodexAcpError], None]) -> None:
        """Call ``on_reply`` with the answer of ``turn/start``, at once if it has come."""
        self._on_reply = on_reply
        if self._reply is not None:
            on_reply(*self._reply)

    def _answered(self, reply: JsonValue | CodexAcpError) -> None:
        self._reply = (reply,)
        if self._on_reply is not None:
            self._on_reply(reply)

    def placed(self, prompt: str) -> None:
        """The session is known: the prompt has its place among those of the session."""
        self._prompt = prompt

    @property
    def has_place(self) -> bool:
        """Whether the prompt has begun and nobody waits for it yet."""
        return self._prompt is not None

    def taken(self) -> str | None:
        """Return that prompt, once: one that is run again is asked for anew."""
        prompt, self._prompt = self._prompt, None
        return prompt


def _nothing() -> None:
    """Do nothing: nothing was asked."""
