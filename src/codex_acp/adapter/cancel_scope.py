"""Giving up what a task does in one block, by whoever has the scope.

As anyio's, which takes as long to import as Codex to open a session, but for asyncio alone: it
cancels once, and has neither a deadline (`asyncio.timeout` has) nor a shield.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class CancelScope:
    """``with scope:`` ends early after `cancel`, also one that came before. For one block."""

    __slots__ = ("_delivered", "_outer", "_task", "cancel_called", "cancelled_caught")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._outer = 0
        self._delivered = False
        self.cancel_called: bool = False
        self.cancelled_caught: bool = False
        """Whether the block was left because of it."""

    def cancel(self) -> None:
        """Give up what is done in the block; again is fine."""
        if not self.cancel_called and self._task is not None:
            asyncio.get_running_loop().call_soon(self._deliver)
        self.cancel_called = True

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None, "a scope is for a task"
        self._outer = self._task.cancelling()
        if self.cancel_called:
            asyncio.get_running_loop().call_soon(self._deliver)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        task, self._task = self._task, None
        if self._delivered and task is not None and task.uncancel() <= self._outer:
            self.cancelled_caught = isinstance(error, asyncio.CancelledError)
        return self.cancelled_caught

    def _deliver(self) -> None:
        """Between two steps of the task, so that the next one is surely within the block."""
        if self._task is not None:
            self._delivered = True
            self._task.cancel()
