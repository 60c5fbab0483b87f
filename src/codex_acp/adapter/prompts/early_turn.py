"""Begin the turn of a session's first prompt before the modules that handle prompts are imported.

For a prompt of plain text, ``turn/start`` is sent at once, so that Codex works while the modules
load. Codex's notifications are held until the `Session` exists; then the prompt runs like any
other prompt. Imports no generated model.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.errors import CodexAcpError
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.content import TextBlock


OnAccepted: TypeAlias = "Callable[[str], None] | None"
"""Called with the message's id when Codex has taken the message."""

BeginEarly: TypeAlias = "Callable[[OnAccepted], Awaitable[EarlyTurn | None]]"
"""Sends ``turn/start`` for a prompt, and waits until the modules that run the prompt are loaded.
Returns None at once if ``turn/start`` cannot be sent yet."""


class EarlyTurn:
    """A turn whose ``turn/start`` the constructor sends."""

    def __init__(
        self,
        codex: AppServerConnection,
        thread_id: str,
        message: Sequence[TextBlock],
        on_accepted: OnAccepted,
    ) -> None:
        self.message = message
        self.on_accepted = on_accepted
        self.message_id: str = os.urandom(16).hex()
        self.written: int | None = (
            codex.link.offered if isinstance(codex.link, ChildProcess) else None
        )
        """Bytes written to this Codex before ``turn/start``; None if Codex is no child process. If
        Codex is lost, this number shows whether Codex has read the call."""
        self._reply: tuple[JsonValue | CodexAcpError] | None = None
        """The reply in a tuple, because a reply may be None; None until the reply arrives."""
        self._on_reply: Callable[[JsonValue | CodexAcpError], None] | None = None
        self.abandon: Callable[[], None] = lambda: None
        """Stops waiting for the reply."""
        from codex_acp.mapping.commands import simple_turn_params

        params = simple_turn_params(thread_id, message, self.message_id)
        try:
            self.abandon = codex.post("turn/start", params, self._note_reply)
        except CodexAcpError as error:
            self._note_reply(error)

    def when_answered(self, on_reply: Callable[[JsonValue | CodexAcpError], None]) -> None:
        """Call ``on_reply`` with the reply to ``turn/start``, at once if it has arrived."""
        self._on_reply = on_reply
        if self._reply is not None:
            on_reply(*self._reply)

    def _note_reply(self, reply: JsonValue | CodexAcpError) -> None:
        self._reply = (reply,)
        if self._on_reply is not None:
            self._on_reply(reply)
