"""Calls that the app-server refused because it has too much to do, tried again (``-32001``).

Any call may be: the server says so before it takes a request up. Owns how often and how long
apart; must not know what is called. Source: the app-server's README, "Backpressure".
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from codex_acp.errors import ErrorReply, ServerOverloaded
from codex_acp.jsonrpc.message import OVERLOADED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

_Value = TypeVar("_Value")

ATTEMPTS: Final = 6
"""In all: with the pauses below the last one is made about three seconds after the first."""

FIRST_PAUSE_SECONDS: Final = 0.1
"""Doubles each time, up to the longest."""

LONGEST_PAUSE_SECONDS: Final = 2.0


def pause_before(attempt: int, chance: float) -> float:
    """Seconds to wait before attempt 2, 3, ...: exponential, between half of it and all of it.

    ``chance`` is between 0 and 1: clients that were refused together must not come back together.
    """
    longest = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS)
    return longest * (1.0 + chance) / 2


async def call_again(call: Callable[[], Awaitable[_Value]], refused: ErrorReply) -> _Value:
    """The value of a call whose first attempt was ``refused``.

    Raises ServerOverloaded after the last attempt, and whatever else the call raises.
    """
    for attempt in range(2, ATTEMPTS + 1):
        logger.info("%s: the app-server is overloaded; attempt %d", refused.method, attempt)
        await anyio.sleep(pause_before(attempt, random.random()))
        try:
            return await call()
        except ErrorReply as error:
            if error.code != OVERLOADED:
                raise
            refused = error
    raise ServerOverloaded(refused, ATTEMPTS) from refused
