"""Run one prompt, iterate over its updates, and cancel it.

Gives each update once and in order. Cancels a prompt that nobody reads any more. Must not know
how updates arrive, nor what they mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import anyio

from codex_acp.errors import CodexAcpError, MisuseError
from codex_acp.runtime.results import PromptResult, Record, ToolCall
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codex_acp.acp.types import PromptResponse, StopReason, ToolCallUpdate
    from codex_acp.runtime.results import Update
    from codex_acp.transport.outbox import ReadingGate

logger = logging.getLogger(__name__)

HIGH_WATER: Final = 1024
"""Number of unread updates of one prompt at which reading from the agent pauses."""

LOW_WATER: Final = 256
"""Number of unread updates at which reading resumes."""

CANCEL_SECONDS: Final = 10.0
"""Seconds for an agent to end a cancelled prompt; then the prompt is abandoned."""


class RunningPrompt:
    """A prompt that runs, also after its reader has left. ``send`` gets this object, sends the
    request ``session/prompt`` and returns the agent's answer; ``cancel`` sends ``session/cancel``.
    While the prompt holds ``gate``, reading from the agent pauses, unless a task waits for the
    agent (``with gate``)."""

    def __init__(
        self,
        gate: ReadingGate,
        send: Callable[[RunningPrompt], Awaitable[PromptResponse]],
        cancel: Callable[[], None],
    ) -> None:
        self._gate = gate
        self._send_cancel = cancel
        self.record: Record = Record()
        self.cancelled: bool = False
        """Whether `cancel` has cancelled the prompt."""
        self._ending = False
        """Whether the prompt is cancelled, or `leave` has scheduled its cancellation."""
        self.sent = False
        """Set by ``send`` when it sends the request, unless the prompt is cancelled by then."""
        self.response: PromptResponse | None = None
        self.error: Exception | None = None
        self._unread: deque[Update] = deque()
        self._has_reader = True
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(send), name="acp prompt")

    @property
    def done(self) -> bool:
        """Whether the prompt has its answer or an error."""
        return self.response is not None or self.error is not None

    @property
    def goes_on(self) -> bool:
        """Whether the prompt has no answer yet, and is not about to be cancelled."""
        return not self.done and not self._ending

    @property
    def agent_has_stopped(self) -> bool:
        """Whether the agent has answered the request, or the prompt is abandoned."""
        return self._task.done()

    def take(self, update: Update) -> None:
        self.record.take(update)
        if self._has_reader:
            self._unread.append(update)
            self._news.set()
            if len(self._unread) == HIGH_WATER:
                self._gate.hold(self)
        self._check_size()

    def take_tool_call(self, update: ToolCallUpdate) -> ToolCall:
        """Apply the tool call of a permission request; return it with all its updates."""
        call = self.record.take_tool_call(update)
        self._check_size()
        return call

    def _check_size(self) -> None:
        error = self.record.too_large
        if error is not None and not self.done:
            self.cancel()
            self.error = error  # the request goes on: the next prompt waits until the agent stops
            self._gate.release(self)
            self._news.set()

    async def next(self) -> Update | None:
        """Return the next update; None at the end. Raises the error that ended the prompt."""
        while not self._unread:
            if self.error is not None:
                raise self.error.with_traceback(None)  # at each call: else the traceback would grow
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
        """Cancel the prompt, once, and only while it runs."""
        if not self.cancelled and not self.done:
            self.cancelled = self._ending = True
            if self.sent:
                self._send_cancel()

    def cancel_and_discard(self) -> None:
        """Cancel the prompt, and keep no more updates."""
        self._has_reader = False
        self._unread.clear()
        self._gate.release(self)
        self.cancel()

    def abandon(self, error: Exception) -> None:
        """End the prompt with ``error``, without waiting for the answer."""
        if not self.done:
            self.error = error
        self._task.cancel()  # no effect once it has ended
        self._news.set()

    async def wait_until_ended(self) -> None:
        """Wait for the end; abandon a cancelled prompt after `CANCEL_SECONDS`."""
        with self._gate:
            if not self.cancelled:
                await shielded(self._task)
                return
            with anyio.move_on_after(CANCEL_SECONDS):
                await shielded(self._task)
        if not self.agent_has_stopped:
            message = f"the agent has not ended its prompt {CANCEL_SECONDS:g} seconds after cancel"
            logger.warning("%s", message)
            self.abandon(CodexAcpError(message))

    def leave(self) -> None:
        """Schedule `cancel_and_discard`. `Prompt.__del__` calls `leave`, in any thread."""
        self._ending = True
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.cancel_and_discard)

    async def _run(self, send: Callable[[RunningPrompt], Awaitable[PromptResponse]]) -> None:
        try:
            self.response = await send(self)
        except asyncio.CancelledError:
            if self.error is None:
                self.error = CodexAcpError("the prompt was given up with its session")
        except Exception as error:  # noqa: BLE001 - raised by `next`
            self.error = self.error or error
        finally:
            self._news.set()
            self._gate.release(self)


class Prompt:
    """A running prompt, made by `Session.prompt`; iterate over its updates once.

    Leaving the iteration early, by ``break`` or an exception, cancels the prompt. The end of an
    ``async with`` and `aclose` wait until the agent has stopped.
    """

    def __init__(self, run: RunningPrompt) -> None:
        self._running = run
        self._left = False
        """Whether `aclose` was called, also by the end of an ``async with``."""

    def __repr__(self) -> str:
        return f"Prompt(stop_reason={self.stop_reason!r})"

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the agent stopped; None while the prompt runs."""
        return None if self._running.response is None else self._running.response.stop_reason

    @property
    def tool_calls(self) -> Mapping[str, ToolCall]:
        """All tool calls so far by their ids, with their latest updates."""
        return self._running.record.tool_calls

    @property
    def messages(self) -> tuple[str, ...]:
        """Return the agent's messages so far."""
        return self._running.record.messages

    def cancel(self) -> None:
        """Ask the agent to stop, and answer its open questions with "cancelled". Go on iterating:
        the agent may send more updates before it ends the prompt with the stop reason
        ``cancelled``."""
        self._running.cancel()

    async def result(self) -> PromptResult:
        """Read the remaining updates; return the result. Raises the error that ended the prompt."""
        while await self._running.next() is not None:
            pass
        assert self._running.response is not None
        return self._running.record.result(self._running.response)

    async def aclose(self) -> None:
        """Cancel the prompt if it runs, and wait until the agent has stopped, at most 10 s."""
        self._left = True
        self._running.cancel_and_discard()
        if not self._running.agent_has_stopped:
            with anyio.CancelScope(shield=True):
                await self._running.wait_until_ended()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        update = await self._running.next()
        if update is None:
            raise StopAsyncIteration
        return update

    async def __aenter__(self) -> Self:
        if self._left:
            raise MisuseError("a Prompt can be used only once; call Session.prompt for another")
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._running.done:
            self._running.leave()
