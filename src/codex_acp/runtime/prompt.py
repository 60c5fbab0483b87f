"""One prompt: its updates as an async iterator, its end, and its cancellation.

Owns that a prompt which nobody reads any more is cancelled, and that an update is given once and
in order. Must not know how updates come, nor what they mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import anyio

from codex_acp.errors import CodexAcpError
from codex_acp.runtime.results import PromptResult, Record, ToolCall
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp.types import PromptResponse, StopReason
    from codex_acp.runtime.results import Update
    from codex_acp.transport.outbox import ReadingGate

logger = logging.getLogger(__name__)

HIGH_WATER: Final = 1024
"""Updates waiting in one prompt above which reading pauses."""

LOW_WATER: Final = 256
"""Updates at which it goes on."""

CANCEL_SECONDS: Final = 10.0
"""For an agent to end a prompt that was cancelled; then its answer is no longer waited for."""


class RunningPrompt:
    """The prompt itself, which goes on though its reader may be gone.

    ``send`` sends the request and gives its answer; ``cancel`` tells the agent to stop.
    """

    def __init__(
        self,
        gate: ReadingGate,
        send: Callable[[], Awaitable[PromptResponse]],
        cancel: Callable[[], None],
    ) -> None:
        self._gate = gate
        self._send = send
        self._tell = cancel
        self.record: Record = Record()
        self.cancelled: bool = False
        """Whether it was cancelled from here."""
        self.ending: bool = False
        """Whether it is, or is about to be, cancelled."""
        self.sent = False
        """Whether the request is on its way; ``send`` says so. One that is not is never sent."""
        self.response: PromptResponse | None = None
        self.error: Exception | None = None
        self._unread: deque[Update] = deque()
        self._read = True
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="acp prompt")

    @property
    def done(self) -> bool:
        """Whether the agent has answered, or never will."""
        return self.response is not None or self.error is not None

    def take(self, update: Update) -> None:
        """An update came."""
        self.record.take(update)
        if self._read:
            self._unread.append(update)
            self._news.set()
            if len(self._unread) == HIGH_WATER:
                self._gate.hold(self)

    async def next(self) -> Update | None:
        """The next update; None at the end. Raises what the prompt ended with."""
        while not self._unread:
            if self.error is not None:
                raise self.error.with_traceback(None)
            if self.response is not None:
                return None
            self._news.clear()
            with self._gate:
                await self._news.wait()
        update = self._unread.popleft()
        if len(self._unread) == LOW_WATER:
            self._gate.release(self)
        return update

    def cancel(self) -> None:
        """Tell the agent to stop; once, and only while it runs."""
        if not self.cancelled and not self.done:
            self.cancelled = self.ending = True
            if self.sent:
                self._tell()

    def stop_reading(self) -> None:
        """Nobody reads any more: cancel, and keep no further update."""
        self._read = False
        self._unread.clear()
        self._gate.release(self)
        self.cancel()

    def abandon(self, error: Exception) -> None:
        """Wait for no answer any more; it ends with ``error``."""
        if not self.done:
            self.error = error
            self._task.cancel()
            self._news.set()

    async def ended(self) -> None:
        """Wait for its end, if it was cancelled no longer than the agent may take for that."""
        with self._gate, suppress(Exception):
            if not self.cancelled:
                await shielded(self._task)
                return
            with anyio.move_on_after(CANCEL_SECONDS):
                await shielded(self._task)
        if not self.done:
            message = f"the agent has not ended its prompt {CANCEL_SECONDS:g} seconds after cancel"
            logger.warning("%s", message)
            self.abandon(CodexAcpError(message))

    def leave(self) -> None:
        """`stop_reading`, from wherever Python collects garbage."""
        self.ending = True
        with suppress(RuntimeError):  # the loop is closed, and the agent gone
            self._loop.call_soon_threadsafe(self.stop_reading)

    async def _run(self) -> None:
        try:
            self.response = await self._send()
        except asyncio.CancelledError:
            if self.error is None:
                self.error = CodexAcpError("the prompt was given up with its session")
        except Exception as error:  # noqa: BLE001 - raised by `next`
            self.error = error
        finally:
            self._news.set()
            self._gate.release(self)


class Prompt:
    """A running prompt, made by `Session.prompt`; iterate over it once.

    To leave it early, by ``break`` or an exception, cancels it: at the end of an ``async with``
    and in `aclose` this waits for the agent to have stopped, otherwise it happens in passing.
    """

    def __init__(self, run: RunningPrompt) -> None:
        self._run = run

    def __repr__(self) -> str:
        return f"Prompt(stop_reason={self.stop_reason!r})"

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the agent stopped; None while it has not."""
        return None if self._run.response is None else self._run.response.stop_reason

    @property
    def tool_calls(self) -> Mapping[str, ToolCall]:
        """Every tool call so far by its id, each as its last update left it."""
        return self._run.record.tool_calls

    @property
    def messages(self) -> tuple[str, ...]:
        """Return the agent's messages so far."""
        return self._run.record.messages

    def cancel(self) -> None:
        """Ask the agent to stop. Go on iterating: it still says how far it got, and ends with the
        stop reason ``cancelled``. Open questions are answered "cancelled"."""
        self._run.cancel()

    async def result(self) -> PromptResult:
        """Read what is left, and give all of it together. Raises what the prompt ended with."""
        while await self._run.next() is not None:
            pass
        assert self._run.response is not None
        return self._run.record.result(self._run.response)

    async def aclose(self) -> None:
        """Cancel it if it still runs, and wait until the agent has stopped, at most 10 s."""
        if self._run.done:
            self._run.stop_reading()
            return
        self._run.stop_reading()
        with anyio.CancelScope(shield=True):
            await self._run.ended()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        update = await self._run.next()
        if update is None:
            raise StopAsyncIteration
        return update

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._run.done:
            self._run.leave()
