"""One turn of a thread: its notifications, its result, and the hold on it while it runs.

Owns when a turn is interrupted: when it is left before its end, and was not detached. Must not
know how its input is made.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
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
from codex_acp.codex.threads.watchdog import WARN_AFTER_SECONDS, SilenceWatch
from codex_acp.errors import CodexAcpError, ConnectionClosed, MisuseError
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.codex._generated.notifications import ServerNotification
    from codex_acp.codex.threads.thread_services import ThreadServices
    from codex_acp.codex.threads.tools import OutputType

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS: Final = 5.0
"""Seconds that leaving a turn waits for Codex to interrupt it: usually a few milliseconds."""


class Turn(Generic[T]):
    """A turn, from its start to its end. Made by `Thread.turn`; use it once, with ``async with``.

    Entering starts it. Iterating gives its typed notifications in Codex's order, and those that
    its thread gets without a turn; the last is the `TurnCompletedEvent`, however the turn ended.
    `result` takes what is left and gives the whole. Leaving before the end interrupts the turn
    and waits for that, at most five seconds; `detach` lets it run on.

    Entering raises as every call. Iterating raises ProcessExited or ConnectionClosed if the
    app-server is lost, ThreadClosed if Codex closes the thread, and TurnSilent, after which it can
    go on, if a time was set for that.
    """

    def __init__(
        self,
        services: ThreadServices,
        thread_id: str,
        begin: Callable[[], Awaitable[str | None]],
        output: OutputType[T] | None = None,
        silent_after: float | None = None,
    ) -> None:
        if silent_after is not None and not silent_after > 0:
            message = f"a turn cannot be silent after {silent_after!r} s; give a positive time"
            raise MisuseError(message)
        self._services = services
        self._client = services.client
        self._begin = begin
        self._output = output
        self._silent_after = silent_after
        self._record = TurnRecord(thread_id)
        self._id: str | None = None
        self._stream: NotificationStream | None = None
        self._marks: TurnMarks | None = None
        self._watch: SilenceWatch | None = None
        self._left = False
        self._closed = False
        self.thread_id = thread_id
        """The thread it belongs to."""

    def __repr__(self) -> str:
        return f"Turn({self._id!r}, thread_id={self.thread_id!r})"

    @property
    def id(self) -> str:
        """The turn's id. Raises MisuseError before it was entered."""
        if self._id is None:
            raise MisuseError("the turn has not begun; use it with `async with`")
        return self._id

    @property
    def so_far(self) -> RunResult[None]:
        """Return the turn's result up to the last notification that was taken."""
        return self._record.result(self.id)

    async def __aenter__(self) -> Self:
        """Start the turn. Cancelling this interrupts what may have been started."""
        if self._stream is not None or self._left:
            raise MisuseError("a Turn can be used only once; make a new one")
        self._stream = NotificationStream(self._client, self.thread_id)
        self._marks = TurnMarks(self._client, self.thread_id)
        self._services.hand_over.turns.add(self._marks)
        try:
            self._id = self._marks.turn_id = await self._started()
            after = self._silent_after or WARN_AFTER_SECONDS
            watchdogs = self._services.watchdogs
            self._watch = SilenceWatch(self._client, watchdogs, after, self.thread_id, self._id)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close, as `aclose` does."""
        await self.aclose()

    def __aiter__(self) -> Self:
        """The turn itself."""
        return self

    async def __anext__(self) -> ServerNotification:
        """The next notification; waits for it."""
        turn_id = self.id
        while self._record.ended is None and not self._left:
            if self._closed:
                raise ThreadClosed(self.so_far)
            event = await self._next()
            if event is None:
                break
            if turn_of(event) in (turn_id, None):
                self._record.add(event)
                unloads = isinstance(event, notifications.ThreadClosedEvent) or (
                    isinstance(event, notifications.ThreadStatusChangedEvent)
                    and event.params.status.type == "notLoaded"
                )
                self._closed = unloads and self._marks is not None and self._marks.closed
                return event
        raise StopAsyncIteration

    async def result(self) -> RunResult[T]:
        """Wait for the end, and give the whole; may be called again.

        That Codex tries again to reach its model, which may last, is logged as a warning.

        Raises TurnFailed and TurnInterrupted if the turn did not complete, ReachedElsewhere if its
        model went beyond its own sub-agents, OutputInvalid if its text is not the output type, and
        as iterating does. MisuseError if the turn was left.
        """
        async for event in self:
            if isinstance(event, notifications.ErrorEvent) and event.params.will_retry:
                # Without a network Codex tries for ever, and nobody else would say why it waits.
                logger.warning(
                    "Codex tries again in turn %s: %r", self.id, event.params.error.message
                )
        result = self.so_far
        if self._record.ended is None:
            raise MisuseError("the turn was left before its end; nobody hears what became of it")
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
        """Say something to the turn while it runs. Raises ErrorReply if it has ended."""
        await self._client.turn_steer(
            TurnSteerParams(
                thread_id=self.thread_id, expected_turn_id=self.id, input=user_input(more)
            )
        )

    async def interrupt(self) -> None:
        """End the turn now; the notifications up to its end still come.

        That it has just ended is no error. Raises as every call.
        """
        if self.id and self._marks is not None:
            await self._marks.interrupt()

    async def detach(self) -> None:
        """Let the turn run on, and hear no more of it: leaving will not interrupt it."""
        self._left = True
        await self._let_go()

    async def aclose(self) -> None:
        """Leave the turn: interrupt it unless it has ended or was detached. Again is fine."""
        if self._left:
            return
        self._left = True
        # First of all: what nobody takes any more must not hold up the reader.
        if self._stream is not None:
            await self._stream.aclose()
        try:
            if self._id is not None and self._record.ended is None and not self._client.closed:
                await self._interrupt_for_good()
        finally:
            await self._let_go()

    async def _interrupt_for_good(self) -> None:
        marks, turn_id = self._marks, self.id
        if marks is None:
            return
        with anyio.move_on_after(CLOSE_SECONDS, shield=True) as timeout:
            try:
                await self.interrupt()
                await marks.wait_for(lambda: turn_id in marks.ended)
            except CodexAcpError as error:
                logger.warning("turn %s could not be interrupted: %s", turn_id, error)
        if timeout.cancelled_caught:
            logger.warning("turn %s was not interrupted within %g s", turn_id, CLOSE_SECONDS)

    async def _let_go(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._stream is not None:
            await self._stream.aclose()
        if self._marks is not None:
            self._services.hand_over.turns.discard(self._marks)
            self._marks.close()

    async def _started(self) -> str:
        """Return the id of the turn that begins. Cancelled, it still interrupts what began."""
        task = asyncio.ensure_future(self._start())
        try:
            return await shielded(task)
        except asyncio.CancelledError:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await asyncio.wait([task])
                try:
                    self._id = await task
                except CodexAcpError as error:
                    logger.info("the turn that was given up had not begun: %s", error)
            if not task.done() and self._marks is not None:
                marks, self._marks = self._marks, None
                # The call that waits for Codex keeps it.
                asyncio.ensure_future(self._interrupt_late(task, marks))  # noqa: RUF006
            raise

    async def _interrupt_late(self, begins: Awaitable[str], marks: TurnMarks) -> None:
        """Interrupt a turn that begins when nobody waits for it any more."""
        try:
            marks.turn_id = await begins
            await marks.interrupt()
        except CodexAcpError as error:
            logger.info("a turn that was given up has not begun, or has ended: %s", error)
        finally:
            self._services.hand_over.turns.discard(marks)
            marks.close()

    async def _start(self) -> str:
        marks = self._marks
        turn_id = await self._begin()
        self._services.hand_over.note_turn(self.thread_id)
        if turn_id is not None or marks is None:
            return turn_id or ""
        await marks.wait_for(lambda: bool(marks.begun))
        if not marks.begun and marks.closed:
            raise ThreadClosed(self._record.result(""))
        if not marks.begun:
            raise ConnectionClosed("the connection to codex app-server ended before the turn began")
        return marks.begun[0]

    async def _next(self) -> ServerNotification | None:
        """Return the next notification of the thread; None if the turn was left meanwhile."""
        stream, watch = self._stream, self._watch
        if stream is None or watch is None:
            return None
        while True:
            with anyio.move_on_after(watch.look_every):
                try:
                    return await anext(stream)
                except StopAsyncIteration:
                    if self._left:
                        return None
                    message = "the connection to codex app-server ended in the middle of the turn"
                    raise ConnectionClosed(message) from None
            silent = watch.check()
            if silent is not None and self._silent_after is not None:
                raise TurnSilent(silent.seconds, silent.open_requests, self.so_far)
