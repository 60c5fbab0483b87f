"""Run ``/goal``: Codex works in turns of its own until the goal is reached.

The prompt lasts as long. Cancelling the prompt pauses the goal and interrupts the running turn.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp._json import text_at
from codex_acp.codex._generated.models import (
    ThreadGoalGetParams,
    ThreadGoalSetParams,
    TurnInterruptParams,
)
from codex_acp.codex.connection.notification_router import NotificationSink
from codex_acp.errors import CodexAcpError, ConnectionClosed, TransportError
from codex_acp.mapping.prompt.commands import goal_report

if TYPE_CHECKING:
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc.message import JsonValue

logger = logging.getLogger(__name__)

STOP_SECONDS: Final = 5.0
"""Seconds that Codex may take to pause a goal, and again to interrupt its turn."""

IDLE_SECONDS: Final = 5.0
"""Seconds without a turn after which Codex is asked for the state of an active goal."""


class _Pursuit(NotificationSink):
    """Follows in the thread's notifications whether the goal is active, and which turn runs."""

    def __init__(self) -> None:
        self.active = True
        self.turn_id: str | None = None
        self.news = asyncio.Event()
        self.lost: TransportError | None = None

    def on_notification(self, method: str, params: JsonValue) -> None:
        if method == "thread/goal/updated":
            self.active = text_at(params, "goal", "status") == "active"
        elif method == "thread/goal/cleared":
            self.active = False
        elif method in ("turn/started", "turn/completed"):
            began = method == "turn/started"
            self.turn_id = text_at(params, "turn", "id") if began else None
        else:
            return
        self.news.set()

    def on_closed(self, error: TransportError | None) -> None:
        self.lost = error or ConnectionClosed("Codex has ended")
        self.news.set()

    @property
    def over(self) -> bool:
        """Return whether no turn for the goal runs or will follow."""
        return self.lost is not None or (not self.active and self.turn_id is None)


async def pursue(codex: AppServerConnection, thread_id: str, goal: ThreadGoalSetParams) -> str:
    """Set the goal, wait until Codex stops working on it, and return a report of its state.

    Raises CodexAcpError if a call fails. If cancelled, it pauses the goal and interrupts its turn.
    """
    pursuit = _Pursuit()
    codex.subscribe(thread_id, pursuit)
    try:
        await codex.thread_goal_set(goal)
        while not pursuit.over:
            pursuit.news.clear()
            with anyio.move_on_after(IDLE_SECONDS if pursuit.turn_id is None else None):
                await pursuit.news.wait()
                continue
            found = (await codex.thread_goal_get(ThreadGoalGetParams(thread_id=thread_id))).goal
            if pursuit.turn_id is None:  # nothing came meanwhile
                pursuit.active = found is not None and found.status == "active"
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _stop(codex, thread_id, pursuit.turn_id)
        raise
    finally:
        codex.unsubscribe(thread_id, pursuit)
    if pursuit.lost is not None:
        raise pursuit.lost
    found = (await codex.thread_goal_get(ThreadGoalGetParams(thread_id=thread_id))).goal
    return goal_report(found)


async def _stop(codex: AppServerConnection, thread_id: str, turn_id: str | None) -> None:
    with anyio.move_on_after(STOP_SECONDS), suppress(CodexAcpError):
        await codex.thread_goal_set(ThreadGoalSetParams(thread_id=thread_id, status="paused"))
    if turn_id is not None:
        with anyio.move_on_after(STOP_SECONDS), suppress(CodexAcpError):
            await codex.turn_interrupt(TurnInterruptParams(thread_id=thread_id, turn_id=turn_id))
