"""Bound the wait for a reply: the app-server may be stopped, or have lost the call.

A call that may take long is given up only if the server leaves a trivial call unanswered, too.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._record import NamedTuple
from codex_acp.errors import NotAnswered, TransportError
from codex_acp.jsonrpc import EncodedJson

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from codex_acp.jsonrpc import JsonValue
    from codex_acp.transport.connection import Connection


class AnswerTimes(NamedTuple):
    """Seconds that a call waits for its reply."""

    reply: float = 30.0
    """Usually a reply takes milliseconds, longer if Codex has to read a long file."""
    presence: float = 5.0
    """Time for the reply to `PRESENCE`, which is sent while a call takes long."""
    silent: float = 1.0
    """Time for a reply if the server left an earlier call unanswered and has sent nothing since."""


ANSWER_TIMES: Final = AnswerTimes()

MAY_TAKE_LONG: Final = frozenset({
    "account/login/start", "account/logout", "account/rateLimits/read", "account/read",
    "command/exec", "config/mcpServer/reload", "initialize", "mcpServer/oauth/login",
    "mcpServerStatus/list", "model/list", "skills/list", "thread/fork", "thread/resume",
    "thread/start",
})  # fmt: skip
"""Methods for which Codex runs a command, uses the network, or waits for MCP servers."""

PRESENCE: Final = "thread/loaded/list"
"""A method that Codex answers from its memory: the reply shows that the server still works."""


class AnswerBound:
    """Bounds the calls of one connection."""

    def __init__(self, connection: Connection, times: AnswerTimes) -> None:
        self.connection = connection
        self.times = times
        self.reads = 0
        """Number of reads so far; `AppServerConnection` counts them here."""
        self._silent_since: int | None = None
        """`reads` at the beginning of the last call that was given up."""

    @property
    def _is_silent(self) -> bool:
        """Whether the server has sent nothing since the beginning of a call that was given up."""
        return self._silent_since == self.reads

    async def wait(self, method: str, call: Awaitable[JsonValue]) -> JsonValue:
        """Await a call and return its result. Raises NotAnswered if the reply comes too late.

        One timer runs at a time, first for `check`, which gives up a short call. For a long call,
        `check` sends `PRESENCE` and starts a timer for `give_up`. A reply to `PRESENCE` starts a
        timer for `check` instead.
        """
        loop, reads = asyncio.get_running_loop(), self.reads
        seconds = self.times.silent if self._is_silent else self.times.reply
        timeout = asyncio.timeout(None)
        timer: asyncio.TimerHandle
        presence_id: int | None = None  # of the unanswered request `PRESENCE`

        def give_up() -> None:
            timeout.reschedule(loop.time())

        def check() -> None:
            nonlocal timer, presence_id
            if method not in MAY_TAKE_LONG or self._is_silent:
                give_up()
                return
            with suppress(TransportError):  # the awaited call raises it, too
                presence_id = self.connection.post(PRESENCE, EncodedJson(b"{}"), on_presence)
                timer = loop.call_later(self.times.presence, give_up)

        def on_presence(_reply: object) -> None:
            nonlocal timer, presence_id
            presence_id = None
            timer.cancel()
            timer = loop.call_later(self.times.reply, check)

        try:
            async with timeout:
                timer = loop.call_later(seconds, check)
                try:
                    return await call
                finally:
                    timer.cancel()
                    if presence_id is not None:
                        self.connection.abandon(presence_id)
        except TimeoutError:
            self._silent_since = reads
            raise NotAnswered(method, seconds) from None
