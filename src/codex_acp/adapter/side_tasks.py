"""Tasks beside the requests: one that fails is logged, and ends neither others nor the agent."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.errors import CodexAcpError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    SideTask: TypeAlias = Callable[[], Coroutine[None, None, None]]
    Spawn: TypeAlias = Callable[[SideTask], object]

__all__ = ["guarded"]

logger = logging.getLogger(__name__)


def guarded(spawn: Spawn) -> Spawn:
    """``spawn`` for tasks that may fail: in a task group the first failure would end all.

    What a request needs of such a task is told to that request by whoever answers it.
    """

    def spawn_guarded(task: SideTask) -> object:
        async def run() -> None:
            try:
                await task()
            except CodexAcpError as error:
                logger.warning("what was done beside the requests failed: %s", error)
            except Exception:
                logger.exception("what was done beside the requests failed; the agent goes on")
            except asyncio.CancelledError:
                # The task ends here. Raised on, one that it made up (by awaiting what was
                # cancelled elsewhere) would end the task group, and with it the agent.
                return

        return spawn(run)

    return spawn_guarded
