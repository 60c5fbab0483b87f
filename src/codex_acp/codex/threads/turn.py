"""One turn of a thread: its notifications, its result, and its interruption.

A turn is interrupted when the program leaves it before its end, unless it was detached. Must not
know how the turn's input is made.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast

import anyio

from codex_acp.codex._generated import notifications
from codex_acp.codex._generated.models import TurnSteerParams
from codex_acp.codex.threads.notification_stream import NotificationStream, TurnMarks
from codex_acp.codex.threads.options import Input, user_input
from codex_acp.codex.threads.results import RunResult, TurnRecord, turn_of
from codex_acp.codex.threads.turn_errors import (
    ReachedElsewhere,
    ThreadClosed,
    TurnFailed,
    TurnInterrupted,
    TurnSilent,
)
from codex_acp.codex.threads.watchdog import CHECKS_PER_SILENCE
from codex_acp.errors import CodexAcpError, ConnectionClosed, MisuseError, must_be_seconds
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.threads.thread_services import ThreadServices
    from codex_acp.codex.threads.tools import OutputType

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS: Final = 5.0
"""Seconds that leaving a turn waits for its interrupt, which usually takes milliseconds."""
WARN_AFTER_SECONDS: Final = 120.0
"""Seconds after which the log has a warning for a silent turn, if the program set no time."""


class Turn(Generic[T]):
    """A turn, from its start to its end. Made by `Thread.turn`; use it once, with ``async with``.

    Entering starts the turn. Iterating yields the typed notifications of the turn, and of its
    thread if they name no turn, in Codex's order; the last is the `TurnCompletedEvent`, however the
    turn ended. `result` takes the remaining notifications and returns the whole result. Leaving
    before the end interrupts the turn, and waits for the end at most five seconds; `detach` lets
    the turn run on.

    Entering raises the errors of calls. Iterating raises ProcessExited or ConnectionClosed if the
    app-server is lost, ThreadClosed if Codex closes the thread, and TurnSilent after
    ``silent_after`` seconds without an event; iterating may then continue.
    """

    def __init__(
        self,
        services: ThreadServices,
        thread_id: str,
        begin: Callable[[], Awaitable[str | None]],
        output: OutputType[T] | None = None,
        silent_after: float | None = None,
    ) -> None:
        if silent_after is not None:
            must_be_seconds("silent_after", silent_after)
        self._services = services
        self._client = services.client
        self._begin = begin
        """Sends the call that starts the turn; returns the turn's id, None if the thread's next
        ``turn/started`` has it."""
        self._output = output
        self._silent_after = silent_after
        self._record = TurnRecord(thread_id, services.ended_by_older_error)
        self._id: str | None = None
        self._stream: NotificationStream | None = None
        self._marks: TurnMarks | None = None
        self._begun_at = 0.0
        self._silent_since = 0.0
        """Time of the last event before the silence that was reported last."""
        self._left = False
        """Whether the program has left or detached the turn."""
        self._closed = False
        """Whether the program has received the notification that Codex closed the thread."""
        self.thread_id = thread_id

    def __repr__(self) -> str:
        return f"Turn({self._id!r}, thread_id={self.thread_id!r})"

    @property
    def id(self) -> str:
        """Return the turn's id. Raises MisuseError before the turn was entered."""
        if self._id is None:
            raise MisuseError("the turn has not begun; use it with `async with` or `with`")
        return self._id

    @property
    def so_far(self) -> RunResult[None]:
        """Return the turn's result up to the last notification that the program received."""
        return self._record.result(self.id)

    async def __aenter__(self) -> Self:
        """Start the turn. If this is cancelled, a turn that begins is interrupted."""
        if self._stream is not None or self._left:
            raise MisuseError("a Turn can be used only once; make a new one")
        self._stream = NotificationStream(self._client, self.thread_id)
        self._marks = marks = TurnMarks(self._client, self.thread_id)
        self._services.hand_over.turns.add(marks)
        try:
            self._id = marks.turn_id = await self._start_shielded(marks)
            self._begun_at = monotonic()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ServerNotification:
        turn_id = self.id
        while self._record.final_turn is None and not self._left:
            if self._closed:
                raise ThreadClosed(self.so_far)
            event = await self._next_notification()
            if event is None:
                break
            if turn_of(event) in (turn_id, None):
                self._record.add(event)
                unloads = isinstance(event, notifications.ThreadClosedEvent) or (
                    isinstance(event, notifications.ThreadStatusChangedEvent)
                    and event.params.status.type == "notLoaded"
                )
                # After an older closing event, `HandOver` may have opened the thread again.
                self._closed = unloads and self._marks is not None and self._marks.closed
                return event
        raise StopAsyncIteration

    async def result(self) -> RunResult[T]:
        """Wait for the end, and return the whole result; may be called again.

        Logs a warning each time that Codex tries again to reach its model.

        Raises TurnFailed and TurnInterrupted if the turn did not complete, ReachedElsewhere if its
        model called threads of other sessions, OutputInvalid if its text does not fit the output
        type, MisuseError if the turn was left, and the errors of iterating.
        """
        async for event in self:
            if isinstance(event, notifications.ErrorEvent) and event.params.will_retry:
                # Without a network Codex tries for ever: only this warning explains the wait.
                logger.warning(
                    "Codex tries again in turn %s: %r", self.id, event.params.error.message
                )
        result = self.so_far
        if self._record.final_turn is None:
            raise MisuseError("the turn was left before its end, so that it has no result")
        others = self._client.reached_elsewhere(self.id)
        if others:
            raise ReachedElsewhere(others, result)
        if result.status == "failed":
            raise TurnFailed(result)
        if result.status != "completed":
            raise TurnInterrupted(result)
        if self._output is None:
            return cast("RunResult[T]", result)
        read: RunResult[Any] = replace(result, output=self._output.read(result))  # type: ignore[arg-type]
        return read

    async def steer(self, more: Input) -> None:
        """Add a message to the running turn. Raises ErrorReply if the turn has ended."""
        await self._client.turn_steer(
            TurnSteerParams(
                thread_id=self.thread_id, expected_turn_id=self.id, input=user_input(more)
            )
        )

    async def interrupt(self) -> None:
        """Interrupt the turn, unless it has just ended; the notifications up to its end follow.

        Raises the errors of calls.
        """
        if self.id and self._marks is not None:
            await self._marks.interrupt()

    async def detach(self) -> None:
        """Let the turn run on without this object: leaving does not interrupt it any more."""
        self._left = True
        await self._release()

    async def aclose(self) -> None:
        """Leave the turn: interrupt it unless it has ended or was detached."""
        if self._left:
            return
        self._left = True
        # Before the interrupt, because a full stream would stop the reader.
        if self._stream is not None:
            await self._stream.aclose()
        try:
            has_ended = self._record.final_turn is not None or self._client.closed
            if self._id is not None and self._marks is not None and not has_ended:
                await self._interrupt_and_wait(self._id, self._marks)
        finally:
            await self._release()

    async def _interrupt_and_wait(self, turn_id: str, marks: TurnMarks) -> None:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True) as timeout:
            try:
                await marks.interrupt()
                await marks.wait_for(lambda: turn_id in marks.ended)
            except CodexAcpError as error:
                logger.warning("turn %s could not be interrupted: %s", turn_id, error)
        if timeout.cancelled_caught:
            logger.warning("turn %s was not interrupted within %g s", turn_id, CLOSE_SECONDS)

    async def _release(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
        if self._marks is not None:
            self._services.hand_over.turns.discard(self._marks)
            self._marks.close()

    async def _start_shielded(self, marks: TurnMarks) -> str:
        """Start the turn and return its id; if cancelled, interrupt the turn that begins."""
        task = asyncio.ensure_future(self._start())
        try:
            return await shielded(task) or await self._next_begun(marks)
        except asyncio.CancelledError:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await asyncio.wait([task])
                try:
                    self._id = marks.turn_id = await task or await self._next_begun(marks)
                except CodexAcpError as error:
                    logger.info("the turn that was given up had not begun: %s", error)
            if not task.done():
                self._marks = None  # `_interrupt_late` closes the marks
                # The waiting call keeps a reference to this task.
                asyncio.ensure_future(self._interrupt_late(task, marks))  # noqa: RUF006
            raise

    async def _interrupt_late(self, start: Awaitable[str | None], marks: TurnMarks) -> None:
        """Interrupt a turn that begins after it was given up."""
        try:
            marks.turn_id = await start or await self._next_begun(marks)
            await marks.interrupt()
        except CodexAcpError as error:
            logger.info("a turn that was given up has not begun, or has ended: %s", error)
        finally:
            self._services.hand_over.turns.discard(marks)
            marks.close()

    async def _start(self) -> str | None:
        """Send the call that starts the turn; return the turn's id, as `_begin` does."""
        turn_id = await self._begin()
        self._services.hand_over.note_turn(self.thread_id)
        return turn_id

    async def _next_begun(self, marks: TurnMarks) -> str:
        """Wait for the thread's next turn, and return its id."""
        await marks.wait_for(lambda: bool(marks.begun))
        if not marks.begun and marks.closed:
            raise ThreadClosed(self._record.result(""))
        if not marks.begun:
            raise ConnectionClosed("the connection to codex app-server ended before the turn began")
        return marks.begun[0]

    async def _next_notification(self) -> ServerNotification | None:
        """Return the next notification; None if the turn is left before one arrives."""
        assert self._stream is not None, "a turn with an id was entered"
        after = self._silent_after or WARN_AFTER_SECONDS
        while True:
            with anyio.move_on_after(after / CHECKS_PER_SILENCE):
                try:
                    return await anext(self._stream)
                except StopAsyncIteration:
                    if self._left:
                        return None
                    message = "the connection to codex app-server ended in the middle of the turn"
                    raise ConnectionClosed(message) from None
            last_event = max(self._begun_at, self._services.last_event.get(self.thread_id, 0.0))
            seconds = monotonic() - last_event
            if seconds >= after and last_event != self._silent_since:  # report a silence once
                self._silent_since = last_event
                silence = TurnSilent(seconds, self._client.open_requests, self.so_far)
                logger.warning("%s", silence)
                if self._silent_after is not None:
                    raise silence
