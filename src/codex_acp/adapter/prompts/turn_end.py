"""How a running turn comes to its end, also when Codex does not report it (contract 4.3).

Owns the bounds: of a cancel, of a lost end, of the commands that an interrupt leaves behind. Never
guesses: a turn that Codex says nothing of is asked about, and ends by what Codex answers.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.errors import CodexAcpError, TransportError
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.session.stop_reasons import PromptEnd, PromptFailure, PromptStop, end_of_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.prompts.run import PromptRun
    from codex_acp.adapter.prompts.turn_calls import TurnCalls
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex._generated.models import Turn

logger = logging.getLogger(__name__)

CANCEL_SECONDS: Final = 10.0
"""How long after a cancel Codex may take to end the turn; then the prompt ends without it."""

CLEAN_UP_SECONDS: Final = 3.0
"""For ending the commands of an interrupted turn; well within the bound of a cancel."""

INTERRUPT_AGAIN_SECONDS: Final = 2.0
"""For one more interrupt of a turn that was given up, before the next one begins."""

INTERRUPT_ATTEMPTS: Final = 3
"""An interrupt is refused between the answer of ``turn/start`` and ``turn/started``."""

LOST_ANSWER_SECONDS: Final = 5.0
"""From ``turn/started`` to the answer of the call that began the turn: usually no time at all."""

LOOK_UP_SECONDS: Final = 10.0
"""For asking Codex about a turn; a healthy one answers within milliseconds."""

MAX_DOUBTS: Final = 3
"""Answers (or none) that speak of no running turn, one after the other; then the prompt fails."""

LOST_SECONDS: Final = 2.0
"""After Codex has said that the thread is idle: the end of the turn comes in the same moment."""

SILENCE_SECONDS: Final = 60.0
"""Without any event: a model may think as long, so this only leads to a question to Codex."""


class TurnEnd:
    """Watches one turn at a time. ``say`` tells the person something."""

    def __init__(self, calls: TurnCalls, say: Callable[[str], None], spawn: Spawn) -> None:
        self._calls = calls
        self._say = say
        self._spawn = spawn
        self._watch = TurnWatch(self._ask)
        self.heard = self._watch.heard
        """Something of the thread came."""
        self._run: PromptRun | None = None
        self._doubts = 0
        self._stopped = False
        self._asking = False

    def watch(self, run: PromptRun | None) -> None:
        """From now on it is this turn."""
        self._run = run
        self._doubts = 0
        self._stopped = False
        if run is None:
            self._watch.end()
        else:
            self._watch.begin()

    # What Codex reports.

    def turn_began(self, run: PromptRun) -> None:
        """A turn of the thread runs; perhaps the answer that would tell which one is lost."""
        self._stopped = False
        if run.turn_id is None:
            loop = asyncio.get_running_loop()
            loop.call_later(LOST_ANSWER_SECONDS, self._answer_is_lost, run)

    def turn_ended(self, run: PromptRun, turn_id: str, end: PromptEnd) -> None:
        """A turn of the thread ended; the commands of an interrupted one are ended first."""
        if run.turn_id == turn_id and run.commands and end == PromptStop("cancelled"):
            self._spawn(lambda: self._end_commands(run, turn_id, end))
        else:
            run.turn_ended(turn_id, end)

    def thread_stopped(self) -> None:
        """Codex says that nothing of the thread runs: the end of the turn has come or is lost."""
        self._stopped = True
        self._watch.expect_end()

    # A cancel.

    async def interrupt(self, run: PromptRun) -> bool:
        """Interrupt the turn as soon as that is possible; the prompt has ended in any case.

        False if it was given up: Codex has not said that the turn is over.
        """
        scope = CancelScope()
        ended = asyncio.ensure_future(run.wait())
        ended.add_done_callback(lambda _: scope.cancel())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    # Codex never answers an interrupt of a turn that has just ended.
                    with scope:
                        # Not in a task of its own: the first step of this one has to write it.
                        await self._try_to_interrupt(run)
                    await ended
            if not run.ended:
                logger.warning("Codex did not end turn %s after a cancel", run.turn_id)
            return run.ended
        finally:  # also when this is cancelled: the prompt waits for it
            ended.cancel()
            run.finish(PromptStop("cancelled"))

    async def interrupt_again(self, turn_id: str) -> None:
        """Try once more to end a turn that was given up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(INTERRUPT_AGAIN_SECONDS):
                await self._calls.interrupt(turn_id)

    async def _try_to_interrupt(self, run: PromptRun) -> None:
        for _ in range(INTERRUPT_ATTEMPTS):
            if run.active_id is not None and await self._calls.interrupt(run.active_id):
                return
            await run.turn_started.wait()
        self._watch.expect_end()

    # Commands that live on.

    async def _end_commands(self, run: PromptRun, turn_id: str, end: PromptEnd) -> None:
        """End what the interrupt has left running, and say what could not be ended."""
        try:
            async with asyncio.timeout(CLEAN_UP_SECONDS):
                running = dict(run.commands)
                ended, left = await self._calls.end_commands(running)
                for terminal in left:
                    self._say(f"Still running in the background: {terminal.command}")
                for item_id in ended:  # its last output comes before the answer
                    await running[item_id].wait()
        except TimeoutError:
            logger.warning("Codex did not say that the commands of %s have ended", turn_id)
        except CodexAcpError as error:
            logger.warning("the commands of turn %s could not be ended: %s", turn_id, error)
            self._say("A command of this turn may still run in the background.")
        finally:
            run.turn_ended(turn_id, end)

    # An end, or an answer, that is lost.

    def _answer_is_lost(self, run: PromptRun) -> None:
        if run.turn_id is None and not run.ended:
            logger.warning("Codex has begun a turn and not answered the call that asked for it")
            run.takes_next_turn()

    def _ask(self) -> None:
        run = self._run
        if run is None or self._asking or (self._calls.asks_person and not self._stopped):
            return
        self._asking = True
        self._spawn(lambda: self._look_after(run))

    async def _look_after(self, run: PromptRun) -> None:
        """Ask Codex what became of the turn."""
        try:
            await self._look_up(run)
        finally:
            self._asking = False

    async def _look_up(self, run: PromptRun) -> None:
        names = {name for name in (run.turn_id, run.active_id) if name is not None}
        turn: Turn | None = None
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                turn = await self._calls.look_up(names)
        except TransportError:
            return  # Codex is gone: that ends the prompt by itself
        except (CodexAcpError, TimeoutError) as error:
            reason = str(error) or f"no answer within {LOOK_UP_SECONDS:g} s"
            doubt = f"Codex says nothing of the turn any more: {reason}"
        else:
            doubt = "Codex says that nothing runs, and knows nothing of the turn's end"
        if run.ended or run is not self._run:
            return
        if turn is not None and turn.status == "inProgress":
            if run.turn_id is None:  # the answer is lost: a thread runs one turn at a time
                run.turn_known(turn.id)
            if not self._stopped:
                self._doubts = 0
                return
        elif turn is not None and run.turn_id is not None:
            logger.warning("the end of turn %s was lost; it is %s", run.turn_id, turn.status)
            self.turn_ended(run, run.turn_id, end_of_turn(turn, None))
            return
        self._doubt(run, doubt)

    def _doubt(self, run: PromptRun, why: str) -> None:
        """Nothing speaks of a running turn: ask again, but not for ever."""
        self._doubts += 1
        if self._doubts >= MAX_DOUBTS:
            run.finish(PromptFailure(INTERNAL_ERROR, why, {}))
        else:
            self._watch.expect_end()


class TurnWatch:
    """When it is time to ``ask`` about a turn of which nothing is heard; one turn at a time."""

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A turn begins."""
        self.heard()
        self._after(SILENCE_SECONDS)

    def end(self) -> None:
        """It has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """Something came."""
        self._heard = monotonic()

    def expect_end(self) -> None:
        """The turn should have ended by now: ask soon, whatever is heard meanwhile."""
        if self._timer is not None:
            self._after(LOST_SECONDS, soon=True)

    def _after(self, delay: float, *, soon: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._due, soon)

    def _due(self, soon: bool) -> None:
        left = self._heard + SILENCE_SECONDS - monotonic()
        if soon or left <= 0:
            self._after(SILENCE_SECONDS)
            self._ask()
        else:
            self._after(left)
