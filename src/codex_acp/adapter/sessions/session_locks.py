"""Locks of sessions, and how long anybody waits for one: who has it may wait for a hung Codex."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

END_SECONDS: Final = 12.0
"""How long whoever has to end a session waits for another who opens it, before it ends it all the
same."""

OPEN_SECONDS: Final = 30.0
"""How long who wants to open or close a session waits for another who does: a long history takes
seconds."""


async def acquired_soon(lock: asyncio.Lock, seconds: float = END_SECONDS) -> bool:
    """Take the lock, but wait no longer than ``seconds`` for whoever has it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await lock.acquire()
    return False


@asynccontextmanager
async def alone(lock: asyncio.Lock, session_id: str) -> AsyncIterator[None]:
    """Hold the lock of a session. Raises RpcError -32600 if somebody else does for too long."""
    if not await acquired_soon(lock, OPEN_SECONDS):
        doing = f"the session {session_id!r} is being opened or closed by another request"
        message = f"{doing}, which Codex has not answered in {OPEN_SECONDS:g} s; try again later"
        raise RpcError(INVALID_REQUEST, message, {"sessionId": session_id})
    try:
        yield
    finally:
        lock.release()
