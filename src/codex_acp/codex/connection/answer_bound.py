"""Bound the wait for the reply to a call: the app-server may be stopped, or have lost the call.

A call that may take long is given up only if the server does not answer a trivial call either.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import NotAnswered, TransportError
from codex_acp.jsonrpc.message import EncodedJson

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from codex_acp.jsonrpc.message import JsonValue
    from codex_acp.transport.connection import Connection


class AnswerTimes(NamedTuple):
    """Seconds that a call waits for its reply."""

    reply: float = 30.0
    """For a reply: usually milliseconds, more if Codex has to read a long file."""
    presence: float = 5.0
    """For the reply to `PRESENCE`, which is sent while a call takes long."""
    silent: float = 1.0
    """For a reply, if the server left an earlier call unanswered and has sent nothing since."""


ANSWER_TIMES: Final = AnswerTimes()

MAY_TAKE_LONG: Final = frozenset(
    {
        "account/login/start",
        "account/logout",
        "account/rateLimits/read",
        "account/read",
        "command/exec",
        "config/mcpServer/reload",
        "initialize",
        "mcpServer/oauth/login",
        "mcpServerStatus/list",
        "model/list",
        "skills/list",
        "thread/fork",
        "thread/resume",
        "thread/start",
    }
)
"""Methods with which Codex runs a command, asks the network, or waits for MCP servers."""

PRESENCE: Final = "thread/loaded/list"
"""A call that Codex answers from its memory."""


class AnswerBound:
    """Bounds the calls of one connection."""

    def __init__(self, connection: Connection, times: AnswerTimes) -> None:
        self.connection = connection
        self.times = times
        self.reads = 0
        """Number of reads so far; the owner of the connection counts them here."""
        self._silent_since: int | None = None
        """`reads` at the beginning of the call that was given up last."""

    @property
    def silent(self) -> bool:
        """Return whether the server has sent nothing since a call began that was given up."""
        return self._silent_since == self.reads

    async def wait(self, method: str, call: Awaitable[JsonValue]) -> JsonValue:
        """Await a call and return its result. Raises NotAnswered when its bound has passed."""
        loop, reads = asyncio.get_running_loop(), self.reads
        seconds = self.times.silent if self.silent else self.times.reply
        question: int | None = None
        timer: asyncio.TimerHandle

        def give_up() -> None:
            timeout.reschedule(loop.time())

        def due() -> None:
            nonlocal timer, question
            if method not in MAY_TAKE_LONG or self.silent:
                give_up()
                return
            with suppress(TransportError):  # the call raises it, too
                question = self.connection.post(PRESENCE, EncodedJson(b"{}"), is_there)
                timer = loop.call_later(self.times.presence, give_up)

        def is_there(_reply: object) -> None:
            nonlocal timer, question
            question = None
            timer.cancel()
            timer = loop.call_later(self.times.reply, due)

        try:
            async with asyncio.timeout(None) as timeout:
                timer = loop.call_later(seconds, due)
                try:
                    return await call
                finally:
                    timer.cancel()
                    if question is not None:
                        self.connection.abandon(question)
        except TimeoutError:
            self._silent_since = reads
            raise NotAnswered(method, seconds) from None
