"""Bound the wait for the reply to a call: the app-server may be stopped, or have lost the call.

A call that may take long is given up only if the server does not answer a trivial call either.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import NotAnswered, TransportError
from codex_acp.jsonrpc.message import EncodedJson

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
        reads = self.reads
        try:
            async with asyncio.timeout(None) as timeout:
                wait = _Wait(self, method, timeout)
                try:
                    return await call
                finally:
                    wait.end()
        except TimeoutError:
            self._silent_since = reads
            raise NotAnswered(method, wait.seconds) from None


class _Wait:
    """The timers of one call."""

    def __init__(self, bound: AnswerBound, method: str, timeout: asyncio.Timeout) -> None:
        self._bound = bound
        self._method = method
        self._timeout = timeout
        self._question: int | None = None
        self.seconds = bound.times.silent if bound.silent else bound.times.reply
        """Seconds that the call waits at least."""
        self._set(self.seconds, self._due)

    def end(self) -> None:
        """Stop the timers."""
        self._timer.cancel()
        if self._question is not None:
            self._bound.connection.abandon(self._question)

    def _give_up(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())

    def _set(self, seconds: float, due: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, due)

    def _due(self) -> None:
        if self._method not in MAY_TAKE_LONG or self._bound.silent:
            self._give_up()
            return
        post = self._bound.connection.post
        try:
            self._question = post(PRESENCE, EncodedJson(b"{}"), self._is_there)
        except TransportError:
            return  # the call raises it, too
        self._set(self._bound.times.presence, self._give_up)

    def _is_there(self, _reply: object) -> None:
        self._question = None
        self._timer.cancel()
        self._set(self._bound.times.reply, self._due)
