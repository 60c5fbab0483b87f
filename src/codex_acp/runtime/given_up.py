"""A session that an agent opens when nobody waits for it any more: it is closed again.

Owns that end. Must not know why the session was wanted, nor why it was given up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from codex_acp.acp import types
from codex_acp.errors import CodexAcpError
from codex_acp.jsonrpc.message import encode_json
from codex_acp.runtime.errors import AnswerTimeout
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from codex_acp.runtime.agent_process import AgentProcess

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 5.0
"""For the agent to answer ``session/close``; afterwards the session is gone here all the same."""

_closing: Final[set[asyncio.Task[None]]] = set()

T = TypeVar("T")


async def ask_to_open(
    process: AgentProcess, method: str, call: Awaitable[T], session_id: str | None = None
) -> T:
    """`AgentProcess.ask` for a call that opens a session, which is closed if it comes too late.

    ``session_id`` is None for a new one. The agent is told all the same that nobody waits.
    """
    request_id: int | None = None

    async def run() -> T:
        nonlocal request_id
        request_id = process.client.next_request_id  # nothing comes between: the call sends at once
        return await call

    asked = asyncio.get_running_loop().create_task(run(), name=method)
    try:
        return await process.ask(method, shielded(asked))
    except (AnswerTimeout, asyncio.CancelledError):
        if request_id is None or not process.features.close_session:
            asked.cancel()
            raise
        if not asked.done():
            params = encode_json({"requestId": request_id})
            process.client.connection.notify("$/cancel_request", params)
        asked.add_done_callback(lambda done: _opened_late(process, session_id, done))
        raise


def _opened_late(process: AgentProcess, session_id: str | None, asked: asyncio.Task[T]) -> None:
    if asked.cancelled() or asked.exception() is not None or process.failure is not None:
        return
    answer: object = asked.result()
    late = answer.session_id if isinstance(answer, types.NewSessionResponse) else session_id
    if late is None or process.is_open(late):  # it was opened again meanwhile
        return
    task = asyncio.get_running_loop().create_task(
        close_session(process, late), name="session/close"
    )
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def close_session(process: AgentProcess, session_id: str) -> None:
    """``session/close``; never fails."""
    call = process.client.session_close(types.CloseSessionRequest(session_id=session_id))
    try:
        await process.ask("session/close", call, seconds=CLOSE_SECONDS)
    except CodexAcpError as error:
        logger.info("%s could not close %s: %s", process.agent, session_id, error)
