"""Waiting for a clean-up that no cancellation may cut short."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import CancelScope

if TYPE_CHECKING:
    from asyncio import Task


async def finish(task: Task[None]) -> None:
    """Wait until ``task`` is done, then raise its error or the cancellation that came meanwhile.

    The task must be bounded in time. The shielded scope holds off anyio's cancellation, which is
    delivered again and again; the loop holds off `asyncio.Task.cancel`, which comes once.
    """
    cancelled: asyncio.CancelledError | None = None
    with CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()
