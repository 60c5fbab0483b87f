"""The prompts of one session: which begins a turn, which is steered into the running one, and how
each of them ends (contract 4.3 to 4.5).

Owns the running turn. Must not know what a notification shows, or what a prompt's content is.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from codex_acp._last_ones import LastOnes
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.prompts.host import NothingRuns, PromptAnswer, PromptHost, Speech, TurnWork
from codex_acp.adapter.prompts.queue import PromptQueue, QueuedPrompt
from codex_acp.adapter.prompts.run import PromptRun
from codex_acp.adapter.prompts.turn_calls import TurnCalls, codex_gone, start_refused
from codex_acp.adapter.prompts.turn_end import TurnEnd
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_REQUEST
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptFailure, PromptStop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex._generated.models import UserInput

logger = logging.getLogger(__name__)

CANCELLED: Final = PromptStop("cancelled")

MAX_ANSWERED: Final = 256
"""Turns that are known to be answered: what comes late comes within moments of the end, or when a
command ends that was left in the background."""


class Prompts:
    """``spawn`` starts a task that may outlive a request. Belongs to the event loop's thread."""

    def __init__(self, calls: TurnCalls, host: PromptHost, spawn: Spawn) -> None:
        self._calls = calls
        self._host = host
        self._spawn = spawn
        self._queue = PromptQueue()
        self._run: PromptRun | None = None
        self._end = TurnEnd(calls, host.say, spawn)
        self.heard = self._end.heard
        """Something of the thread came."""
        self._active: str | None = None
        self.stale: set[str] = set()
        """Turns whose prompt was given up: nothing of them is shown or asked any more."""
        self.answered_turns: LastOnes[str, None] = LastOnes(MAX_ANSWERED)
        """Turns that have ended with their prompts answered, oldest first."""

    @property
    def cancelling(self) -> bool:
        """Whether the running prompt was cancelled and has not ended."""
        return self._run is not None and self._run.cancelled

    @property
    def busy(self) -> bool:
        """Whether a prompt is not answered yet."""
        return not self._queue.empty

    @property
    def running(self) -> bool:
        """Whether a prompt's turn runs."""
        return self._run is not None

    @property
    def turn(self) -> object | None:
        """What runs: the same object from its beginning to its end, None for nothing."""
        return self._run or self._active

    @property
    def turn_ids(self) -> frozenset[str | None]:
        """The names of what runs, as far as they are known."""
        return frozenset([self._active, *(self._run.turn_ids if self._run is not None else ())])

    def answered(self, turn_id: str | None) -> bool:
        """Whether the turn's prompt is answered, so that nothing of the turn may be sent.

        Codex tells of an item that begins, or of a command that ends, as the turn ends, after it.
        """
        if turn_id not in self.answered_turns:
            return False
        return self._run is None or not self._run.is_turn(turn_id)

    # What the client asks for.

    async def run(
        self,
        prepare: Callable[[], Awaitable[TurnWork | Speech]],
        when_inserted: Callable[[str], None] | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> PromptAnswer:
        """Run one prompt to its end, behind those that came before it.

        Takes its place in the order before anything else. ``when_inserted`` is called once, with
        the message's id, when Codex has taken it. One that `begin` has begun has its place. Raises
        RpcError if too many wait, and what ``prepare`` and a `Speech` raise; NothingRuns if it
        ``joins`` a turn, and none takes it.
        """
        placed = None if early is None else early.taken()
        prompt = placed or self._queue.enter(when_inserted, joins=joins)
        try:
            with prompt.scope:
                work = await prepare()
            while not prompt.scope.cancel_called:
                answer = await self._attempt(prompt, work)
                if answer is not None:
                    return answer
            return PromptAnswer(CANCELLED)
        finally:
            self._queue.leave(prompt)
            if prompt.unread and self._run is None and not self._queue.has_unread:
                self._host.rests(CANCELLED)

    def begin(self, early: EarlyTurn, when_inserted: Callable[[str], None]) -> None:
        """Follow a turn that was asked for; `run` waits for its end. No prompt came before it."""
        prompt = self._queue.enter(when_inserted)
        prompt.message_id = early.message_id
        early.placed(prompt)
        run = self._begin(prompt, TurnWork(lambda _: early.start(), None))
        run.asked, run.asked_at = True, early.written

    def cancel(self) -> None:
        """End the running prompt, and take back those that wait."""
        self._queue.cancel_waiting()
        if self._run is not None:
            self._cancel_run(self._run)
        elif self._active is not None:  # a turn that Codex began by itself
            turn_id = self._active
            self._spawn(lambda: self._end.interrupt_again(turn_id))
            self._host.prompt_cancelled()

    def lost(self, error: TransportError | None) -> None:
        """Codex is gone: nothing runs any more."""
        self._active = None
        self.stale.clear()
        if self._run is not None:
            self._lose(self._run, codex_gone(error))

    async def settled(self) -> None:
        """Wait until no prompt is open; bounded after a `cancel`."""
        while not self._queue.empty:
            await self._queue.changed()

    async def _attempt(self, prompt: QueuedPrompt, work: TurnWork | Speech) -> PromptAnswer | None:
        """Place the prompt and wait for its end; None: its turn ended without it, try again."""
        prompt.scope = CancelScope()
        with prompt.scope:
            if isinstance(work, Speech):
                self._must_join(prompt)
                while not self._queue.is_next(prompt):
                    await self._queue.changed()
                prompt.speaks = True
                self._queue.wake()
                prompt.inserted()
                await work.run()
                return PromptAnswer(PromptStop("end_turn"))
            if prompt.run is None:
                await self._place(prompt, work)
        run = prompt.run
        if run is None:
            return PromptAnswer(CANCELLED)
        end = await self._wait(prompt, run)
        if prompt.run is not run:
            return None
        began_it = prompt.message_id == run.message_id
        return PromptAnswer(end, run.usage if began_it else None, run.untaken)

    async def _place(self, prompt: QueuedPrompt, work: TurnWork) -> None:
        """Make the prompt a part of a turn, when all before it are."""
        while prompt.run is None and not prompt.scope.cancel_called:
            run = self._run
            if self._queue.is_next(prompt):
                self._must_join(prompt)
                if run is None:
                    self._begin(prompt, work)
                    return
                if work.message is not None and self._may_steer(run):
                    if await self._steer(prompt, run, work.message):
                        return
                    continue
            await self._queue.changed()

    def _must_join(self, prompt: QueuedPrompt) -> None:
        """Raise NothingRuns if it is for a running turn, and there is none that could take it."""
        run = self._run
        takes = self._active is not None if run is None else run.steerable and not run.cancelled
        if prompt.joins and not prompt.unread and not takes:
            raise NothingRuns(INVALID_REQUEST, "no turn runs that could take the message")

    async def _wait(self, prompt: QueuedPrompt, run: PromptRun) -> PromptEnd:
        try:
            return await run.wait()
        except asyncio.CancelledError:
            # When the adapter itself ends there is no client any more: no interrupt then, or Codex
            # would end the shell of a command and leave us what it started as orphans.
            if not self._host.client_gone and self._queue.of_run(run) == [prompt]:
                # The client's `$/cancel_request`, and nobody else waits for this turn: the answer
                # follows its end, too.
                import anyio  # not before: a prompt begins without

                self._cancel_run(run)
                with anyio.CancelScope(shield=True):
                    await run.wait()
            raise

    # The turn.

    def _begin(self, prompt: QueuedPrompt, work: TurnWork) -> PromptRun:
        self._name(prompt)
        run = PromptRun(prompt.message_id, self._active, lambda end: self._over(run, end))
        self._run = prompt.run = run
        prompt.unread = False
        self._host.turn_begins()
        self._end.watch(run)
        message_id = prompt.message_id
        # A task of its own: if the client gives the prompt up, the turn must still become known.
        self._spawn(lambda: self._start(run, work, message_id, prompt.inserted))
        return run

    async def _start(
        self, run: PromptRun, work: TurnWork, message_id: str, inserted: Callable[[], None]
    ) -> None:
        try:
            active = self._active
            if active is not None and active in self.stale:  # Codex would add the message to that
                await self._end.interrupt_again(active)
            turn_id: str | None = None
            if not run.asked:
                if run.over:  # before anything has begun
                    run.finish(CANCELLED)
                    return
                run.asked, run.asked_at = True, self._calls.written
            with run.answer:
                turn_id = await work.start(message_id)
            if run.answer.cancelled_caught:
                return
            if not run.ended:  # else nobody would be told that what it begins is over
                inserted()
        except CodexAcpError as error:
            self._lose(run, start_refused(error))
        except Exception:
            logger.exception("a turn could not be begun")
            run.finish(PromptFailure(INTERNAL_ERROR, "the turn could not be begun", {}))
        else:
            given_up = run.ended and not run.is_turn(turn_id)
            if turn_id is None:
                run.takes_next_turn()
            else:
                run.turn_known(turn_id)
            if given_up and run.turn_id is not None:  # its beginning came too late
                self.stale.add(run.turn_id)
                await self._calls.interrupt(run.turn_id)
            elif run.turn_id is not None:
                self.stale.discard(run.turn_id)
            self._queue.wake()

    def _lose(self, run: PromptRun, failure: PromptFailure) -> None:
        """Codex would not, or cannot any more; a message that was steered into it may be read."""
        run.untaken = not run.asked or self._calls.untaken(run.asked_at)
        run.finish(failure)

    def _may_steer(self, run: PromptRun) -> bool:
        return run.steerable and not run.cancelled and run.turn_started.is_set()

    async def _steer(self, prompt: QueuedPrompt, run: PromptRun, message: list[UserInput]) -> bool:
        """Whether the prompt is a part of the running turn now."""
        assert run.active_id is not None, "a turn that has begun has an id"
        self._name(prompt)
        taken = await self._calls.steer(run.active_id, message, prompt.message_id)
        if prompt.run is not None:  # it has been read meanwhile
            return True
        if not taken:
            run.steerable = False  # a review or compaction; or the turn is just ending
            return False
        if run.ended and self._unread(prompt, run):
            return False
        self._joined(prompt, run)
        if run.ended and self._run is None:  # a Codex that does not say what it has read
            self._host.rests(await run.wait())
        return True

    def _joined(self, prompt: QueuedPrompt, run: PromptRun) -> None:
        """The prompt is a part of the turn."""
        prompt.run, prompt.unread = run, False
        prompt.inserted()
        self._queue.wake()

    def _unread(self, prompt: QueuedPrompt, run: PromptRun) -> bool:
        """Whether the turn has ended well without a message that was steered into it.

        A Codex that does not repeat our ids tells nothing about that.
        """
        return run.message_id in run.read and prompt.message_id not in run.read and run.ended_well

    def _over(self, run: PromptRun, end: PromptEnd) -> None:
        """The turn's end is known: before any of its prompts is answered."""
        self._run = None if self._run is run else self._run
        self._end.watch(None)
        if run.turn_id is not None:  # told by its answer, or else nobody needs that any more
            run.answer.cancel()
        for prompt in self._queue.of_run(run):
            if self._unread(prompt, run):
                prompt.run, prompt.unread = None, True
        self._host.turn_over(run, end, goes_on=self._queue.has_unread)
        self.answered_turns.update(dict.fromkeys(run.turn_ids))
        self._queue.wake()

    def _name(self, prompt: QueuedPrompt) -> None:
        prompt.message_id = prompt.message_id or uuid4().hex
        self._host.message_named(prompt.message_id)

    def _cancel_run(self, run: PromptRun) -> None:
        if run.cancelled or run.ended:
            return
        run.cancelled = True
        # In this order, so that the interrupt is written before the replies to what Codex has
        # asked: with these alone it would go on, and ask the model once more.
        self._spawn(lambda: self._interrupt(run))
        self._host.prompt_cancelled()

    async def _interrupt(self, run: PromptRun) -> None:
        over = False
        try:
            over = await self._end.interrupt(run)
        finally:  # also when the adapter ends: nothing of the turn may come behind the answer
            if not over:
                turns = (run.turn_id, run.active_id)
                self.stale |= {turn for turn in turns if turn is not None}

    # What Codex reports.

    @property
    def running_turn(self) -> str | None:
        """The turn of the prompt that runs."""
        return None if self._run is None else self._run.turn_id

    def turn_began(self, turn_id: str, root_id: str | None) -> None:
        """``turn/started``."""
        self._active = turn_id
        if turn_id in self.stale:
            self._spawn(lambda: self._end.interrupt_again(turn_id))
        else:
            self._host.works()  # before what it shows, also if the call is not answered yet
            if self._run is not None:
                self._run.turn_began(turn_id, root_id)
                self._queue.wake()
                self._end.turn_began(self._run)

    def turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        """``turn/completed``, however it could be read."""
        self._active = None
        if turn_id in self.stale:
            self.stale.discard(turn_id)
            self.answered_turns[turn_id] = None
        if self._run is not None:
            self._end.turn_ended(self._run, turn_id, end)
        else:
            self._host.rests(end)

    def message_read(self, message_id: str, turn_id: str) -> None:
        """Codex took a message of ours into a turn."""
        if self._run is not None:
            self._run.message_read(message_id, turn_id)
            prompt = self._queue.find(message_id)
            # Before anything that answers it, also where the answer to the call is yet to be seen.
            if prompt is not None and prompt.run in (None, self._run):
                self._joined(prompt, self._run)

    def command_began(self, item_id: str) -> None:
        """A command runs."""
        if self._run is not None:
            self._run.command_began(item_id)

    def command_ended(self, item_id: str) -> None:
        """It does not any more."""
        if self._run is not None:
            self._run.command_ended(item_id)

    def thread_stopped(self) -> None:
        """Codex says that the thread is idle, broken or closed."""
        self._end.thread_stopped()
