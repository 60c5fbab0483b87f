"""Makes calls that are more than one awaited request: posted, tried again, or page by page.

Must not know what is called. Source: the app-server's README, "Backpressure".
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from codex_acp.errors import CodexAcpError, ErrorReply, ServerOverloaded
from codex_acp.jsonrpc.message import OVERLOADED, EncodedJson, JsonValue, Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.transport.connection import Connection, Outcome
    from codex_acp.transport.outbox import ReadingGate

logger = logging.getLogger(__name__)


def post(
    connection: Connection,
    gate: ReadingGate,
    method: str,
    params: EncodedJson | None,
    on_reply: Callable[[JsonValue | CodexAcpError], None],
) -> Callable[[], None]:
    """Send a call, and return what gives it up, as `AppServerConnection.post` says.

    An awaited call goes on one step of the event loop behind its reply, and so behind every
    notification of that read.
    """
    waits = False
    again: asyncio.Task[None] | None = None

    def end() -> bool:
        """Stop waiting for the reply; return whether it was still waited for."""
        nonlocal waits
        waited, waits = waits, False
        if waited:
            gate.__exit__()
        return waited

    def reply(outcome: JsonValue | CodexAcpError) -> None:
        if end():
            on_reply(outcome)

    async def ask_again(refused: ErrorReply) -> None:
        try:
            reply(await call_again(lambda: connection.call(method, params), refused))
        except CodexAcpError as error:
            reply(error)

    def settled(outcome: Outcome) -> None:
        nonlocal again
        if isinstance(outcome, ErrorReply) and outcome.code == OVERLOADED and waits:
            again = asyncio.ensure_future(ask_again(outcome))
        else:
            reply(outcome.result if isinstance(outcome, Response) else outcome)

    def abandon() -> None:
        if end():
            connection.abandon(request_id)
            if again is not None:
                again.cancel()

    request_id = connection.post(method, params, settled)
    waits = True
    gate.__enter__()
    return abandon


_Value = TypeVar("_Value")

ATTEMPTS: Final = 6
"""In all: with the pauses below the last one is made about three seconds after the first."""

FIRST_PAUSE_SECONDS: Final = 0.1
"""Doubles each time, up to the longest."""

LONGEST_PAUSE_SECONDS: Final = 2.0


def pause_before(attempt: int, chance: float) -> float:
    """Return the seconds before attempt 2, 3, ...: exponential, between half of it and all.

    ``chance`` is between 0 and 1: clients that were refused together must not come back together.
    """
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS)
    return longest * (1.0 + chance) / 2


async def call_again(call: Callable[[], Awaitable[_Value]], refused: ErrorReply) -> _Value:
    """Call again what was ``refused``. Raises ServerOverloaded after the last attempt."""
    import random  # only where a server is overloaded

    for attempt in range(2, ATTEMPTS + 1):
        logger.info("%s: the app-server is overloaded; attempt %d", refused.method, attempt)
        await asyncio.sleep(pause_before(attempt, random.random()))
        try:
            return await call()
        except ErrorReply as error:
            if error.code != OVERLOADED:
                raise
            refused = error
    raise ServerOverloaded(refused, ATTEMPTS) from refused


MAX_PAGES: Final = 50
"""Pages of one list, so that a cursor which never ends does not hold up the caller."""


class _Params(Protocol):
    cursor: str | None


P = TypeVar("P", bound=_Params)
T = TypeVar("T")


class _Page(Protocol[T]):
    data: list[T]
    next_cursor: str | None


async def all_pages(ask: Callable[[P], Awaitable[_Page[T]]], params: P) -> list[T]:
    """Return the entries of all pages; a repeated cursor ends them, too. Raises as ``ask``."""
    found: list[T] = []
    for _ in range(MAX_PAGES):
        page = await ask(params)
        found += page.data
        if page.next_cursor is None or page.next_cursor == params.cursor:
            break
        params.cursor = page.next_cursor
    return found
