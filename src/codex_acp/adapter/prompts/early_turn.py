"""The first prompt of a session, while what a prompt needs is still being loaded.

A prompt of text has its turn asked for at once; Codex works on it meanwhile, and what it says of it
is held until the session is known, and with that the prompt runs as every other one. Owns nothing
else, and loads no model.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.transport.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from codex_acp.adapter.load_ahead import LoadAhead
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import EncodedJson, JsonValue
    from codex_acp.mapping.content import TextBlock

BeginPrompt: TypeAlias = (
    "Callable[[Callable[[str], None] | None], Coroutine[object, object, EarlyTurn | None]]"
)
"""Asks for a prompt's turn, if that can be, and waits until what runs it is loaded; what it is
called with is called with the message's id when Codex has taken it."""


class EarlyTurn:
    """Asks for the turn when it is made; the answer is for whoever runs the prompt."""

    def __init__(
        self,
        codex: AppServerConnection,
        thread_id: str,
        message: Sequence[TextBlock],
        on_accepted: Callable[[str], None] | None,
    ) -> None:
        self._codex = codex
        self.message = message
        self.on_accepted = on_accepted
        """Called with the message's id when Codex has taken it."""
        self.message_id: str = os.urandom(16).hex()
        """Id of the message."""
        self.written: int | None = (
            codex.link.offered if isinstance(codex.link, ChildProcess) else None
        )
        """How much was written to this Codex before; see `TurnCalls.written`."""
        self._reply: tuple[JsonValue | CodexAcpError] | None = None
        self._on_reply: Callable[[JsonValue | CodexAcpError], None] | None = None
        self.abandon: Callable[[], None] = _nothing
        """Waits no longer for the answer."""
        from codex_acp.mapping.commands import simple_turn_params

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


AskEarly: TypeAlias = (
    "Callable[[str, Sequence[TextBlock], Callable[[str], None] | None], EarlyTurn | None]"
)
"""Asks for the turn of a session's first prompt, as `Sessions.ask_early` does."""


class AnswerPrompt(Protocol):
    """Has a prompt begun and run, and answers it as its version of ACP does."""

    async def __call__(
        self, session_id: str, message: Sequence[TextBlock], begin: BeginPrompt
    ) -> EncodedJson: ...


class QuickPrompts:
    """Begins plain prompts early: called with the params of each ``session/prompt``."""

    def __init__(self, ahead: LoadAhead | None, ask_early: AskEarly, answer: AnswerPrompt) -> None:
        self._ahead = ahead
        self._ask_early = ask_early
        self._answer = answer

    def __call__(self, params: JsonValue) -> Callable[[], Awaitable[EncodedJson]] | None:
        """Return what answers it; None: it is read by the models."""
        if self._ahead is None or not self._ahead.loading:
            return None
        from codex_acp.mapping.commands import simple_prompt

        simple = simple_prompt(params)
        if simple is None:
            return None
        return partial(self._answer, *simple, partial(self._begin, *simple))

    async def _begin(
        self,
        session_id: str,
        message: Sequence[TextBlock],
        on_accepted: Callable[[str], None] | None,
    ) -> EarlyTurn | None:
        early = self._ask_early(session_id, message, on_accepted)
        if early is None:  # it takes its place now: a cancel, or another, may be behind it
            return None
        assert self._ahead is not None
        try:
            await self._ahead.for_a_prompt()
        except asyncio.CancelledError:
            # The turn runs already. It is ended as that of every other prompt, by whoever waits
            # for it next; what is not loaded is then loaded where it is needed.
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return early


def _nothing() -> None:
    """Do nothing: nothing was asked."""
