"""Scopes, each of which cancels the rest of one block of a task.

Replaces anyio's scope, whose import takes as long as Codex takes to open a session. This scope
cancels once, and has neither deadline nor shield.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self


class CancelScope:
    """Scope of one ``with`` block, which ends early after `cancel`, even if called before."""

    __slots__ = ("_delivered", "_outer", "_task", "cancel_called", "cancelled_caught")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._outer = 0  # cancels of the task that came before the block and are in progress
        self._delivered = False
        self.cancel_called: bool = False
        self.cancelled_caught: bool = False
        """Whether `cancel` ended the block."""

    def cancel(self) -> None:
        """Cancel the block. Idempotent."""
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
        """Cancel the task between two of its steps, if the block has not ended."""
        if self._task is not None:
            self._delivered = True
            self._task.cancel()


class SessionScopes:
    """The open scopes of each session that has one, so that `cancel` can end their blocks."""

    def __init__(self) -> None:
        self._scopes: dict[str, list[CancelScope]] = {}

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._scopes

    def open(self, session_id: str) -> CancelScope:
        scope = CancelScope()
        self._scopes.setdefault(session_id, []).append(scope)
        return scope

    def close(self, session_id: str, scope: CancelScope) -> None:
        """Forget the scope, which `cancel` then cancels no more."""
        self._scopes[session_id].remove(scope)
        if not self._scopes[session_id]:
            del self._scopes[session_id]

    @contextmanager
    def entered(self, session_id: str) -> Iterator[CancelScope]:
        """Open a scope for the ``with`` block."""
        scope = self.open(session_id)
        try:
            with scope:
                yield scope
        finally:
            self.close(session_id, scope)

    def cancel(self, session_id: str) -> None:
        for scope in self._scopes.get(session_id, ()):
            scope.cancel()
