"""Make calls with a callback, calls that are repeated, and calls for several pages.

Must not know the methods. Source: the app-server's README, "Backpressure".
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from codex_acp.errors import CodexAcpError, ErrorReply, ServerOverloaded
from codex_acp.jsonrpc import OVERLOADED, EncodedJson, JsonValue, Response

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
    """Send a call, and return a function that gives the call up (`AppServerConnection.post`).
    ``on_reply`` is called in the order of arrival; an awaited call would continue only after all
    notifications of the same read."""
    is_waiting = False
    repetition: asyncio.Task[None] | None = None

    def stop_waiting() -> bool:
        """Stop waiting for the reply; return False if nobody waits any more."""
        nonlocal is_waiting
        was_waiting, is_waiting = is_waiting, False
        if was_waiting:
            gate.__exit__()
        return was_waiting

    def deliver(outcome: JsonValue | CodexAcpError) -> None:
        if stop_waiting():
            on_reply(outcome)

    async def repeat(refused: ErrorReply) -> None:
        try:
            deliver(await call_again(lambda: connection.call(method, params), refused))
        except CodexAcpError as error:
            deliver(error)

    def on_outcome(outcome: Outcome) -> None:
        nonlocal repetition
        if isinstance(outcome, ErrorReply) and outcome.code == OVERLOADED and is_waiting:
            repetition = asyncio.ensure_future(repeat(outcome))
        else:
            deliver(outcome.result if isinstance(outcome, Response) else outcome)

    def abandon() -> None:
        if stop_waiting():
            connection.abandon(request_id)
            if repetition is not None:
                repetition.cancel()

    request_id = connection.post(method, params, on_outcome)
    is_waiting = True
    gate.__enter__()
    return abandon


_Value = TypeVar("_Value")

ATTEMPTS: Final = 6
"""Attempts of one call, the first included: with these pauses they take about three seconds."""

FIRST_PAUSE_SECONDS: Final = 0.1
"""Seconds before the second attempt; each pause is twice the last, up to the longest."""

LONGEST_PAUSE_SECONDS: Final = 2.0


def pause_before(attempt: int, chance: float) -> float:
    """Return the seconds before attempt 2, 3 and so on, which double with each attempt. ``chance``
    (0 to 1) takes off up to a half, so that clients refused together do not return together."""
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS)
    return longest * (1.0 + chance) / 2


async def call_again(call: Callable[[], Awaitable[_Value]], refused: ErrorReply) -> _Value:
    """Repeat a call after its first error. Raises ServerOverloaded after the last attempt."""
    import random  # rarely needed

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
"""Pages of one list that are read: a bound against a cursor that never ends."""


class _Params(Protocol):
    cursor: str | None


P = TypeVar("P", bound=_Params)
T = TypeVar("T")


class _Page(Protocol[T]):
    data: list[T]
    next_cursor: str | None


async def all_pages(call: Callable[[P], Awaitable[_Page[T]]], params: P) -> list[T]:
    """Return the entries of all pages, up to a repeated cursor. Raises as ``call``."""
    entries: list[T] = []
    for _ in range(MAX_PAGES):
        page = await call(params)
        entries += page.data
        if page.next_cursor is None or page.next_cursor == params.cursor:
            break
        params.cursor = page.next_cursor
    return entries
