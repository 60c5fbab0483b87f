"""Run tasks that no request waits for, cancel blocks of tasks, and wait for locks within bounds.

`CancelScope` replaces anyio's scope, whose import takes as long as Codex takes to open a session.
`CancelScope` cancels once, and has neither deadline nor shield. Waits for the lock of a session are
bounded, because its holder may wait for a hung Codex.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from codex_acp.errors import CodexAcpError, RpcError
from codex_acp.jsonrpc import INVALID_REQUEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from types import TracebackType
    from typing import Self

    SideTask: TypeAlias = Callable[[], Coroutine[None, None, None]]
    Spawn: TypeAlias = Callable[[SideTask], object]

logger = logging.getLogger(__name__)

CANCEL_AGAIN_SECONDS: Final = 0.05
"""Seconds after which `SideTasks.aclose` cancels a task again that has not ended."""


class SideTasks:
    """The side tasks of one agent, which `aclose` ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def start(self, task: SideTask) -> None:
        """Start a task, unless `aclose` was called. The task must not raise: see `guarded`."""
        if self._closed:  # nobody would wait for the task
            task().close()
            return
        started = asyncio.get_running_loop().create_task(task())
        self._tasks.add(started)
        started.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Cancel all tasks and wait for their end, even if the caller is cancelled meanwhile."""
        from codex_acp.transport.shielding import finish  # loads anyio, which no start needs

        self._closed = True
        await finish(asyncio.get_running_loop().create_task(self._end()))

    async def _end(self) -> None:
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=CANCEL_AGAIN_SECONDS)


def guarded(spawn: Spawn) -> Spawn:
    """Return a ``spawn`` for tasks that may fail: it logs errors, which would end a task group."""

    def spawn_guarded(task: SideTask) -> object:
        async def run() -> None:
            try:
                await task()
            except CodexAcpError as error:
                logger.warning("a side task has failed: %s", error)
            except Exception:
                logger.exception("a side task has failed; the agent goes on")
            except asyncio.CancelledError:
                # Do not re-raise: a CancelledError that comes from inside the task (it awaited
                # a task that was cancelled elsewhere) would end the task group and the agent.
                return

        return spawn(run)

    return spawn_guarded


class CancelScope:
    """Scope of one ``with`` block. `cancel` ends the block, also if it comes before the block."""

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
        """Forget the scope, so that `cancel` no longer cancels it."""
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


END_SECONDS: Final = 12.0
"""Seconds that a request which ends a session waits for the lock; then it goes on without it."""

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
