"""Locks of sessions, with bounded waits, because the holder may wait for a hung Codex."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

END_SECONDS: Final = 12.0
"""Seconds that a request which ends a session waits for the lock; then it does without."""

OPEN_SECONDS: Final = 30.0
"""Seconds that a request which opens a session waits: a long history takes seconds to show."""


async def acquire_within(lock: asyncio.Lock, seconds: float = END_SECONDS) -> bool:
    """Acquire the lock within ``seconds``; return whether that succeeded."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await lock.acquire()
    return False


@asynccontextmanager
async def alone(lock: asyncio.Lock, session_id: str) -> AsyncIterator[None]:
    """Hold the lock in an ``async with`` block. Raises RpcError -32600 after `OPEN_SECONDS`."""
    if not await acquire_within(lock, OPEN_SECONDS):
        doing = f"the session {session_id!r} is being opened or closed by another request"
        message = f"{doing}, which Codex has not answered in {OPEN_SECONDS:g} s; try again later"
        raise RpcError(INVALID_REQUEST, message, {"sessionId": session_id})
    try:
        yield
    finally:
        lock.release()
