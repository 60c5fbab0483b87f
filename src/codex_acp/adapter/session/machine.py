"""Decide what a session does: `SessionMachine.handle` takes an event and returns effects.

All decisions about prompts and turns are in this file (contract 3.5, 3.10, 4.2 to 4.5). It has no
IO, clock, task or callback, and loads no model, so that tests can try every order of events
(`tests/adapter/session`). The driver carries the effects out, in the order given, before it passes
the next event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from codex_acp._last_ones import LastOnes
from codex_acp._record import replace
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.states import (
    Cancelling,
    CleaningUp,
    Freeing,
    Idle,
    InTurn,
    LateStart,
    Local,
    Prompt,
    Question,
    Reviews,
    Run,
    Running,
    Starting,
    Steers,
    Waits,
)
from codex_acp.jsonrpc import INTERNAL_ERROR
from codex_acp.mapping.events import PromptFailure, PromptStop

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session.states import Place, Turn
    from codex_acp.mapping.events import Activity, PromptEnd

CANCELLED: Final = PromptStop("cancelled")
NO_DATA: dict[str, object] = {}
DONE: Final = PromptStop("end_turn")
INTERRUPT_ATTEMPTS: Final = 3
"""Interrupts that one cancel may send: Codex refuses an interrupt before ``turn/started``."""

MAX_DOUBTS: Final = 3
"""The prompt fails after this many look-ups in a row that find no running turn."""

MAX_ANSWERED: Final = 256
"""Turns remembered as answered. Late notifications of a turn arrive within moments of its end, or
when a command ends that the turn left in the background."""

TURN_TIMERS: Final[tuple[ev.Timer, ...]] = (
    "cancel", "clean_up", "free", "answer", "silence", "stopped", "look_up",
)  # fmt: skip
"""Timers that stop when the turn ends: all but ``steer``."""


class SessionMachine:
    """The prompts of one session, and the turn that runs.

    The session reads ``stale`` to decide whether to show events of a turn. One machine serves an
    open session from beginning to end.
    """

    def __init__(self) -> None:
        self.turn: Turn = Idle()
        self.prompts: tuple[Prompt, ...] = ()
        """Prompts that are not answered, oldest first."""
        self.active: str | None = None
        """The turn that Codex began last in this thread; None once that turn has ended."""
        self.active_outer: str | None = None
        """The turn around `active`, if that is an inner turn."""
        self.stale: set[str] = set()
        """Turns that were given up: the session shows and asks nothing more of them."""
        self.answered: LastOnes[str, None] = LastOnes(MAX_ANSWERED)
        """Turns that ended and whose prompts were answered, oldest first."""
        self.closing: bool = False
        """Whether the client closes the session."""
        self.questions: tuple[Question, ...] = ()
        """Questions that the person has not answered, oldest first."""
        self.shown_activity: Activity = "idle"
        """Activity that the client was shown last."""
        self.idle_reason: PromptEnd | None = None
        """The end to show with the next ``idle``."""
        self.idle_after_turn: bool = False
        """Whether ``idle_reason`` is the end of a turn: then its token usage is shown, too."""
        self.plan: bool = False
        """Whether the turn that ended last left a plan to ask about."""
        self.late_starts: tuple[LateStart, ...] = ()
        """Calls that were given up, and may still begin a turn; ``begins``: the next turn."""
        self.codex_gone: PromptFailure | None = None
        """How Codex was lost; None while the session has a Codex."""
        self.look_up: int | None = None
        """Number of the look-up whose reply is awaited."""
        self.doubts: int = 0
        """Look-ups in a row that found no running turn."""
        self.stopped: bool = False
        """Whether Codex reported, after the last turn began, that no turn runs."""
        self.timers: frozenset[ev.Timer] = frozenset()
        self.reports_reads: bool = False
        """Whether this Codex reports which messages it reads."""
        self.calls: int = 0
        """Number of the last call."""
        self.runs: int = 0
        """Number of the last `Run`."""
        self._effects: list[ev.Effect] = []

    # State that other modules read.

    @property
    def run(self) -> Run | None:
        """The turn that is asked for, or runs."""
        match self.turn:
            case Starting(run=run) | Running(run=run) | Cancelling(run=run) | CleaningUp(run=run):
                return run
            case Idle() | Freeing():  # `Freeing`: a prompt waits for the end of a stale turn
                return None
            case _:
                assert_never(self.turn)

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled and has not ended."""
        return isinstance(self.turn, Cancelling) or (
            isinstance(self.turn, Starting) and self.turn.cancelled
        )

    @property
    def turn_has_prompts(self) -> bool:
        """Whether the end of the turn answers a prompt, or one is about to join the turn."""
        return any(isinstance(each.place, InTurn | Steers) for each in self.prompts)

    def is_answered(self, turn: str | None) -> bool:
        """Whether the turn's prompts are answered, so that nothing of the turn may be sent. Codex
        may report the start of an item or the end of a command after the turn's end."""
        if turn not in self.answered:  # nearly always; this runs for each piece of text
            return False
        run = self.run  # Codex may have added the message of its prompt to an answered turn
        return run is None or turn not in (run.turn, run.target)

    @property
    def activity(self) -> Activity:
        """Return the activity of the session; a turn that waits for the person's answer runs."""
        run = self.run
        works = (
            any(question.turn is None for question in self.questions)
            or any(prompt.works for prompt in self.prompts)
            or (run is not None and any(turn not in self.stale for turn, _outer in run.begun))
        )
        if not works:
            return "idle"
        plan_asked = any(isinstance(p.place, Reviews) and not p.approved for p in self.prompts)
        return "requires_action" if self.questions or plan_asked else "running"

    def may_ask(self, turn: str, *, below: bool = False) -> bool:
        """Whether the person may be asked something for a turn; ``below``: a sub-agent's turn.

        False after a cancel, and for a turn that is over or was given up. A sub-agent's turn is
        given up with the session's turn that it works for.
        """
        if self.cancelled or turn in self.stale or self.is_answered(turn):
            return False
        run = self.run
        given_up = bool(self.stale) and (run is None or run.starter is None)
        return not (below and given_up)

    def _has_ended(self, turn: str) -> bool:
        run = self.run
        ended = {} if run is None else dict(run.ended)
        cleans_up = isinstance(self.turn, CleaningUp) and turn in self.turn.run.names
        return turn in self.answered or turn in ended or cleans_up

    def find(self, prompt: str) -> Prompt | None:
        """Return the prompt with this id, None if it is answered."""
        return next((each for each in self.prompts if each.id == prompt), None)

    # Events.

    def handle(self, event: ev.Event) -> list[ev.Effect]:
        """Handle one event; return the effects to carry out, in order."""
        effects = self._effects = []
        if isinstance(event, ev.ClientEvent):
            self._client_event(event)
        elif isinstance(event, ev.CodexEvent):
            self._codex_event(event)
        elif isinstance(event, ev.ReplyEvent):
            self._reply_event(event)
        else:
            self.timers -= {event.timer}
            self._timer_due(event.timer, asks_person=event.asks_person)
        while self._place_next_prompt():
            pass
        if self.turn == Idle(freed=True):  # ``freed`` counts only while the next prompt is placed
            self.turn = Idle()
        self._show_activity()
        return effects

    def _show_activity(self) -> None:
        """Show the session's activity if it changed."""
        now = self.activity
        if now == self.shown_activity:
            return
        if self.shown_activity == "idle":
            self.idle_reason, self.idle_after_turn = None, False
            if now == "requires_action":  # "requires_action" follows "running" only
                self._effects.append(ev.ShowActivity("running"))
        self.shown_activity = now
        if now == "idle":
            self._effects.append(
                ev.ShowActivity(now, self.idle_reason or DONE, self.idle_after_turn)
            )
        else:
            self._effects.append(ev.ShowActivity(now))

    def _client_event(self, event: ev.ClientEvent) -> None:
        match event:
            case ev.Prompted(prompt, joins):
                self.prompts += (Prompt(prompt, None, Waits(), joins),)
            case ev.Prepared(prompt, kind):
                self._change_prompt(prompt, kind=kind)
            case ev.AskedEarly(prompt, call):
                self.calls = max(self.calls, call)
                self.prompts += (Prompt(prompt, "message", InTurn()),)
                self._begin(prompt, call)
            case ev.AnsweredLocally(prompt, end):
                self._answered_locally(prompt, end)
            case ev.Asked() | ev.Settled():
                self._question_event(event)
            case ev.PlanAnswered() | ev.PlanTaken() | ev.PlanFailed():
                self._plan_event(event)
            case ev.Withdrawn(prompt):  # the driver has answered it already
                self._forget_prompt(prompt)
            case ev.GivenUp(prompt):  # the client cancelled its request
                self._prompt_given_up(prompt)
            case ev.Cancelled(closing):
                self.closing = self.closing or closing
                self._cancel()
            case ev.RightsChanged():  # later messages must not join the turn with the old rights
                self._change_run(lambda run: replace(run, steerable=False))
            case ev.Reopened():
                self.closing = False
            case _:
                assert_never(event)

    def _codex_event(self, event: ev.CodexEvent) -> None:
        match event:
            case ev.TurnBegan(turn, outer):
                self._turn_began(turn, outer)
            case ev.MessageRead(message, turn):
                self._message_read(message, turn)
            case ev.CommandBegan(item):
                self._change_run(lambda run: replace(run, commands=run.commands | {item}))
            case ev.CommandEnded(item):
                self._command_ended(item)
            case ev.CompactionBegan(turn):
                if isinstance(self.turn, Starting) and self.turn.run.compacts:
                    self._name_turn(turn)
            case ev.TurnEnded(turn, end, plan):
                self.plan = plan
                self._turn_ended(turn, end)
            case ev.ThreadStopped():
                if self.run is not None:
                    self.stopped = True
                    self._set_timer("stopped")
            case ev.Lost(failure, unread):
                self._lost(failure, unread)
            case ev.Moved():
                self.codex_gone = None
            case _:
                assert_never(event)

    def _reply_event(self, event: ev.ReplyEvent) -> None:
        match event:
            case ev.Started(call, turn):
                self._started(call, turn)
            case ev.Refused(call, failure):
                self._refused(call, failure)
            case ev.Steered(call, taken):
                self._steered(call, taken=taken)
            case ev.Interrupted(call, taken):
                self._interrupted(call, taken=taken)
            case ev.LookedUp():
                self._looked_up(event)
            case ev.CommandsStopped(call, items):
                self._commands_stopped(call, items)
            case _:
                assert_never(event)

    # The client.

    def _prompt_given_up(self, prompt_id: str) -> None:
        """Cancel the turn if only this prompt waits for it; else forget the prompt. After the
        cancel, the end of the turn answers the prompt."""
        prompt, run = self.find(prompt_id), self.run
        if prompt is None:
            return
        in_turn = [each for each in self.prompts if isinstance(each.place, InTurn)]
        if run is not None and in_turn == [prompt]:
            self._cancel_run(run)
        else:
            self._forget_prompt(prompt_id)

    def _answered_locally(self, prompt_id: str, end: PromptEnd) -> None:
        """Answer a prompt that the adapter handled itself. If a turn ended meanwhile, its end stays
        the `idle_reason`, unless this prompt failed."""
        if self.find(prompt_id) is not None:
            if end != DONE or self.idle_reason is None:
                self.idle_reason, self.idle_after_turn = end, False
            self._answer(prompt_id, end)

    def _question_event(self, event: ev.Asked | ev.Settled) -> None:
        match event:
            case ev.Asked(question, turn):
                self.questions += (Question(question, turn),)
            case ev.Settled(question):
                self.questions = tuple(each for each in self.questions if each.id != question)
            case _:
                assert_never(event)

    def _settle_all(self) -> None:
        """Withdraw all questions to the person, also of sub-agents."""
        self.questions = ()
        self._effects.append(ev.SettleQuestions())

    def _settle_turns(self, *turns: str) -> None:
        """Withdraw the questions of turns that are over."""
        for turn in dict.fromkeys(each.turn for each in self.questions if each.turn in turns):
            self.questions = tuple(each for each in self.questions if each.turn != turn)
            self._effects.append(ev.SettleQuestions(turn))

    def _cancel(self) -> None:
        self.idle_reason, self.idle_after_turn = CANCELLED, False
        for prompt in self.prompts:
            if not isinstance(prompt.place, InTurn):
                self._answer(prompt.id, CANCELLED)
        run = self.run
        if run is not None:
            self._cancel_run(run)
        # Without a turn, a sub-agent may still ask; `_cancel_run` leaves questions in `CleaningUp`.
        if run is None or self.questions:
            self._settle_all()

    def _cancel_run(self, run: Run) -> None:
        """Interrupt the turn, then withdraw its questions: without the interrupt, Codex would
        continue the turn when its questions are settled."""
        match self.turn:
            case Starting(cancelled=False):
                self.turn = Starting(run, cancelled=True)
                self._interrupt_unnamed()
            case Running():
                self.turn = Cancelling(run)
                self._interrupt_run()
            case CleaningUp():
                self.turn = replace(self.turn, cancelled=True)
                return
            case Idle() | Freeing() | Starting() | Cancelling():
                return
            case _:
                assert_never(self.turn)
        self._set_timer("cancel")
        self._settle_all()

    # Notifications of Codex.

    def _turn_began(self, turn: str, outer: str | None) -> None:
        if self._has_ended(turn):  # ``turn/started`` came after ``turn/completed``
            return
        outer = None if outer == turn else outer
        if self.active in self.stale and self.active not in (turn, outer):
            # The stale turn has ended unreported: a call that was given up may begin this turn.
            self._expect_late_starts(after_stale=True)
        self.active, self.active_outer, self.stopped = turn, outer, False
        self._clear_timer("stopped")
        unasked = isinstance(self.turn, Idle | Freeing)
        if any(late.begins or unasked for late in self.late_starts):  # taken for a late start
            self.stale |= {turn, outer or turn}  # Codex reports only the inner turn of a review
        if turn in self.stale or outer in self.stale:
            self.stale.add(turn)
            self._interrupt_stale(turn)
            if isinstance(self.turn, Starting):  # it may turn out to be the turn that was asked for
                run = self.turn.run
                self._set_run(replace(run, begun=(*run.begun, (turn, outer))))
                self._set_timer("answer")
            return
        match self.turn:
            case Idle() | Freeing():
                self._follow_own_turn(turn, ((turn, outer),))
            case Starting(run=run) | Running(run=run) | Cancelling(run=run) | CleaningUp(run=run):
                self._set_run(replace(run, begun=(*run.begun, (turn, outer))))
                if isinstance(self.turn, Starting):
                    self._set_timer("answer")
                self._interrupt_unnamed()
                self._interrupt_run()
            case _:
                assert_never(self.turn)

    def _message_read(self, message: str, turn: str) -> None:
        """Note that a turn read a message: the turn's starter names it; a message that was given
        up makes it stale."""
        run, self.reports_reads = self.run, True
        if run is None or run.starter != message:
            late = tuple(each for each in self.late_starts if each.message == message)
            if late:
                self._forget_late_starts(late)
                self._make_stale(turn)
                return
        if run is None:
            return
        if not run.has_begun(turn):
            run = replace(run, begun=(*run.begun, (turn, None)))
        self._set_run(replace(run, read=run.read | {message}))
        if message == run.starter:
            self._name_turn(turn)
        self._interrupt_run()
        prompt = self.find(message)
        if prompt is not None and not isinstance(prompt.place, Waits):
            self._accept(prompt)

    def _command_ended(self, item: str) -> None:
        self._change_run(lambda run: replace(run, commands=run.commands - {item}))
        if isinstance(self.turn, CleaningUp) and self.turn.left is not None:
            self._end_when_clean(self.turn, self.turn.left)

    def _turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        self._settle_turns(turn_id)
        run = self.run
        names = () if run is None else run.names
        if turn_id in self.stale:
            self._forget_late_starts(
                tuple(each for each in self.late_starts if each.call is None and each.begins)[:1]
            )
            self._expect_late_starts(after_stale=True)
        may_be_ours = isinstance(self.turn, Starting) or turn_id in names
        if turn_id in self.stale or not may_be_ours:
            self.stale.discard(turn_id)
            self.answered[turn_id] = None
        outer = None if run is None else run.outer_of(self.active)
        if turn_id in (self.active, outer) or self.active in self.stale:
            self.active = None
        match self.turn:
            case Starting(run=run):
                self._set_run(replace(run, ended=(*run.ended, (turn_id, end))))
            case Running(run=run) | Cancelling(run=run) if run.turn == turn_id:
                self._run_ended(run, end)
            case Freeing():
                self.turn = Idle(freed=True)
            case Idle() | Running() | Cancelling() | CleaningUp():
                pass
            case _:
                assert_never(self.turn)

    def _run_ended(self, run: Run, end: PromptEnd) -> None:
        self._expect_late_starts(after_stale=False)
        if run.commands and end == CANCELLED:
            call, cancelled = self._next_call(), self.cancelled
            self._abandon_interrupt()
            self.turn = CleaningUp(run, end, call, cancelled=cancelled)
            self._effects.append(ev.StopCommands(call, run.commands))
            self._set_timer("clean_up")
        else:
            self._end_turn(end)

    def _lost(self, failure: PromptFailure, unread: frozenset[int]) -> None:
        """End the turn and the steered prompts; ``unread``: calls surely not read."""
        if self.questions:
            self._settle_all()
        self.codex_gone, self.reports_reads = failure, False
        self.active, self.late_starts = None, ()
        self.stale.clear()
        run = self.run
        steered = [each for each in self.prompts if isinstance(each.place, Steers)]
        if run is not None:
            self._end_turn(failure, unread=run.call in unread)
        self.turn = Idle()
        for timer in TURN_TIMERS:
            self._clear_timer(timer)
        for prompt in steered:
            assert isinstance(prompt.place, Steers), "only steered prompts are in the list"
            skipped = prompt.place.unread or prompt.place.call in unread
            self._answer(prompt.id, failure, unread=skipped)

    # Replies of Codex.

    def _started(self, call: int, turn: str | None) -> None:
        late = tuple(each for each in self.late_starts if each.call == call)
        if late:
            self._forget_late_starts(late)
            if turn is None:  # a compaction: its turn begins now
                self.late_starts += tuple(replace(each, call=None) for each in late)
            elif not self._has_ended(turn):
                self._make_stale(turn)
            return
        run = self.run
        if run is None or run.call != call:
            return
        compacts = turn is None  # only the reply to a compaction names no turn
        self._set_run(replace(run, call=None, compacts=compacts))
        starter = None if run.starter is None else self.find(run.starter)
        if starter is not None:
            self._accept(starter)
        if turn is not None:
            self._name_turn(turn)

    def _refused(self, call: int, failure: PromptFailure) -> None:
        self._forget_late_starts(tuple(each for each in self.late_starts if each.call == call))
        run = self.run
        if isinstance(self.turn, Starting) and run is not None and run.call == call:
            self._set_run(replace(run, call=None))
            self._end_turn(failure)

    def _steered(self, call: int, *, taken: bool) -> None:
        for prompt in self.prompts:
            place = prompt.place
            if isinstance(place, Steers) and place.call == call:
                self._clear_timer("steer")
                if not taken or place.unread:
                    self._set_place(prompt, Waits())
                    if place.end is None:  # a review or compaction, or the turn is about to end
                        self._change_run(lambda run: replace(run, steerable=False))
                else:
                    self._accept(prompt)
                    if place.end is not None:  # the turn ended, and Codex reports no reads
                        self._answer(prompt.id, place.end)

    def _interrupted(self, call: int, *, taken: bool) -> None:
        match self.turn:
            case Cancelling(run=run, call=awaited, tries=tries) if awaited == call:
                if taken:
                    tries = INTERRUPT_ATTEMPTS  # no further attempt is needed
                elif tries >= INTERRUPT_ATTEMPTS:
                    self._set_timer("stopped")  # look soon whether a turn runs at all
                self.turn = Cancelling(run, None, tries)
                self._interrupt_run()
            case Freeing(call=awaited) if awaited == call:
                self._free()
            case Idle() | Freeing() | Starting() | Running() | Cancelling() | CleaningUp():
                pass
            case _:
                assert_never(self.turn)

    def _looked_up(self, found: ev.LookedUp) -> None:
        run = self.run
        if found.call != self.look_up or run is None:
            return
        self.look_up = None
        self._clear_timer("look_up")
        doubt = found.problem or "Codex says that nothing runs, and knows nothing of the turn's end"
        if found.turn is None:  # no turn fits
            self._doubt(doubt)
        elif found.end is None:  # a turn runs; ``ours`` None: Codex does not show whose it is
            if run.turn is None and found.ours is not False:
                self._name_turn(found.turn)
            elif run.turn is None:
                self._set_timer("answer")
            if self.stopped:
                self._doubt(doubt)
            else:
                self.doubts = 0
        elif run.turn is not None or found.ours:  # the session's turn has ended
            turn = run.turn or found.turn
            self._effects.append(
                ev.Warn(f"the end of turn {turn} was lost; Codex was asked for it")
            )
            self.plan = found.plan
            if run.turn is None and run.starter is not None:  # Codex lists the prompt's message
                self._set_run(replace(run, read=run.read | {run.starter}))
            self._name_turn(turn)
            if self.run is not None and self.run.turn == turn:
                self._turn_ended(turn, found.end)
        else:  # another turn has ended
            self._doubt(doubt)

    def _commands_stopped(self, call: int, items: frozenset[str]) -> None:
        if isinstance(self.turn, CleaningUp) and self.turn.call == call:
            self.turn = replace(self.turn, left=items)
            self._end_when_clean(self.turn, items)

    # Timers.

    def _timer_due(self, timer: ev.Timer, *, asks_person: bool) -> None:
        match timer:
            case "cancel":
                self._give_up_turn(CANCELLED)
            case "clean_up":
                self._effects.append(ev.Warn("Codex did not say that a turn's commands ended"))
                self._give_up_turn(CANCELLED)
            case "free":
                self._free()
            case "answer":
                self._look_up_turn()
            case "silence" | "stopped":
                if self.run is not None:
                    self._set_timer("silence")
                if self.stopped or not asks_person:  # a person may take any time to answer
                    self._look_up_turn()
            case "look_up":
                self._forget_look_up()
                self._doubt("Codex says nothing of the turn any more: no answer in time")
            case "steer":
                self._steer_unanswered()
            case _:
                assert_never(timer)

    def _steer_unanswered(self) -> None:
        """Treat the message as taken: the end of the turn will show whether Codex took it."""
        for prompt in self.prompts:
            if isinstance(prompt.place, Steers):
                self._effects.append(ev.Abandon(prompt.place.call))
                self._steered(prompt.place.call, taken=True)

    def _look_up_turn(self) -> None:
        """Ask Codex for the state of the turn: silence alone does not end a turn."""
        run = self.run
        if run is not None and self.look_up is None:
            self.look_up = self._next_call()
            names = dict.fromkeys(name for name in (run.turn, run.target) if name is not None)
            self._effects.append(ev.LookUp(self.look_up, tuple(names), run.starter))
            self._set_timer("look_up")

    def _doubt(self, why: str) -> None:
        """Count a look-up that found no running turn; ask again, or give the turn up."""
        self.doubts += 1
        if self.doubts < MAX_DOUBTS:
            self._set_timer("stopped")  # the end of the timer asks again
        else:
            self._give_up_turn(PromptFailure(INTERNAL_ERROR, why, NO_DATA))

    def _give_up_turn(self, end: PromptEnd) -> None:
        """Answer the turn's prompts with ``end`` now. The turn becomes stale, also if it begins
        only later (contract 3.10)."""
        if self.questions and isinstance(self.turn, Starting | Running | Cancelling):
            self._settle_all()
        match self.turn:
            case Starting(run=run):
                self._effects.append(ev.Warn("Codex did not begin a turn in time"))
                begun = run.begun_and_not_ended
                if self.active is not None:  # Codex adds the message to the active turn
                    begun.add(self.active)
                self.stale |= begun
                if run.starter is not None and (run.call is not None or run.compacts):
                    starter = self.find(run.starter)
                    alone = starter is not None and starter.kind == "turn"
                    # If no turn has begun that could take the message, it begins one.
                    late = LateStart(run.call, None if alone else run.starter, begins=not begun)
                    self.late_starts += (late,)
                self._end_turn(end)
            case Running(run=run) | Cancelling(run=run):
                self._effects.append(ev.Warn(f"Codex did not end turn {run.turn} in time"))
                self.stale |= set(run.names)
                if isinstance(self.turn, Running) and run.target is not None:
                    self._interrupt_stale(run.target)
                self._end_turn(end)
            case CleaningUp():
                self._end_turn(self.turn.end)
            case Idle() | Freeing():
                return
            case _:
                assert_never(self.turn)
        if self.closing:  # `_end_turn` may now follow a turn of Codex's own: give that up, too
            self._give_up_turn(CANCELLED)

    # Progress after any event.

    def _place_next_prompt(self) -> bool:
        """Place the oldest prompt that waits; return whether the next one may be placed too."""
        prompt = next((p for p in self.prompts if isinstance(p.place, Waits | Steers)), None)
        if prompt is None or prompt.kind is None or isinstance(prompt.place, Steers):
            return False  # a steer without a reply blocks the prompts behind it
        was_steered = isinstance(prompt.place, Waits) and prompt.place.steered
        if prompt.joins and not was_steered and not self._takes_messages:
            self._forget_prompt(prompt.id)
            self._effects.append(ev.RefuseToJoin(prompt.id))
            return True
        if prompt.kind == "local":
            self._set_place(prompt, Local())
            self._accept(prompt)
            self._effects.append(ev.AnswerLocally(prompt.id))
            return True
        if self.codex_gone is not None:
            self._answer(prompt.id, self.codex_gone, unread=True)
            return True
        if any(isinstance(each.place, Reviews) and each.approved for each in self.prompts):
            return False  # the message that carries the plan out is first
        return self._send_to_codex(prompt)

    @property
    def _takes_messages(self) -> bool:
        """Whether a turn runs, or starts, that may take one more message."""
        run = self.run
        return (
            run is not None
            and run.steerable
            and isinstance(self.turn, Starting | Running)
            and not self.cancelled
        )

    def _send_to_codex(self, prompt: Prompt) -> bool:
        match self.turn:
            case Idle(freed=False) if self._stale_turn_blocks:
                call = None
                if self.active is not None and self.active in self.stale:
                    call = self._next_call()
                    self._effects.append(ev.Interrupt(call, self.active))
                self.turn = Freeing(call)
                self._set_timer("free")
                return False
            case Idle():
                self._begin(prompt.id)
                return True
            case Running() if prompt.approved:  # that turn is in plan mode
                return False
            case Running(run=run) if run.starter is None and run.steerable:
                # Codex adds the message to that turn.
                self._begin(prompt.id, joined=run)
                return True
            case Running(run=run) if run.started and run.steerable and prompt.kind == "message":
                assert run.target is not None, "a turn that has begun has a name"
                call = self._next_call()
                self._set_place(prompt, Steers(call, run.target))
                self._effects.append(ev.Steer(call, prompt.id, run.target))
                self._set_timer("steer")
                return False
            case Freeing() | Starting() | Running() | Cancelling() | CleaningUp():
                return False
            case _:
                assert_never(self.turn)

    @property
    def _stale_turn_blocks(self) -> bool:
        """Whether a stale turn runs, or may begin next, to which Codex would add a message."""
        runs = self.active is not None and self.active in self.stale
        return runs or any(late.begins for late in self.late_starts)

    def _begin(self, prompt_id: str, call: int | None = None, joined: Run | None = None) -> None:
        """Begin a turn. ``call``: the number of a ``turn/start`` that was already sent.
        ``joined``: a turn that Codex began without a prompt, and to which it adds this one."""
        self.runs += 1
        self._forget_look_up()
        number = self._next_call() if call is None else call
        run = Run(self.runs, prompt_id, call=number)
        if joined is not None and joined.turn is not None:
            run = replace(run, begun=joined.begun, commands=joined.commands)
        elif self.active is not None:  # a stale turn may still run: Codex may add the message to it
            run = replace(run, begun=((self.active, self.active_outer),))
        self.turn = Starting(run)
        self.doubts, self.stopped = 0, False
        for prompt in self.prompts:  # the next prompt withdraws an open question about a plan
            if isinstance(prompt.place, Reviews) and not prompt.approved:
                self._answer(prompt.id, DONE)
            elif prompt.id == prompt_id and prompt.approved:
                self._effects.append(ev.EndPlan(True))
        self._change_prompt(prompt_id, place=InTurn(), approved=False)
        self._effects.append(ev.AskTurn())
        self._set_timer("silence")
        if call is None:
            self._effects.append(ev.Start(number, prompt_id))

    def _name_turn(self, turn: str) -> None:
        """Note the id of the turn that was asked for, which may have begun, and ended, before."""
        if not isinstance(self.turn, Starting):
            return
        added_to_old = turn in self.stale or turn in self.answered
        run = replace(self.turn.run, turn=turn, added_to_old=added_to_old)
        began_last = not run.begun or turn in run.begun[-1]
        if self.active not in run.names and not self._has_ended(turn) and began_last:
            self.active = None  # an older turn, which has ended: a thread runs one at a time
        self.stale.difference_update(run.names)
        # The next turn is not expected to be a late start.
        self.late_starts = tuple(replace(late, begins=False) for late in self.late_starts)
        self._clear_timer("answer")
        self.doubts = 0
        self.turn = Cancelling(run) if self.turn.cancelled else Running(run)
        self._interrupt_run()
        for ended, end in run.ended:
            if ended == turn and self.run is not None:
                self._run_ended(self.run, end)
                return

    def _end_turn(self, end: PromptEnd, *, unread: bool = False) -> None:
        """End the turn that runs: show its end, then answer its prompts."""
        run = self.run
        assert run is not None, "a turn runs"
        cancelled = self.cancelled or (isinstance(self.turn, CleaningUp) and self.turn.cancelled)
        if cancelled:
            end = CANCELLED
        self._forget_turn(run)
        added_to_old = run.added_to_old and not cancelled
        missed = self._take_out_unread(run, end, added_to_old=added_to_old)
        in_turn = [each.id for each in self.prompts if isinstance(each.place, InTurn)]
        mine = [each for each in in_turn if each not in missed]
        steered = any(p.place == Waits(steered=True) for p in self.prompts)
        with_plan = mine[:1] if self.plan and end == DONE and not steered else []
        ended = (*run.names, *(turn for turn, _ in run.ended))
        self._settle_turns(*ended)
        self._effects.append(ev.EndTurn(run.turn, end))
        why = "Codex ended its turn without reading this message; it can be sent again"
        failure = PromptFailure(INTERNAL_ERROR, why, NO_DATA)
        self.idle_reason = failure if missed and not mine else end
        self.idle_after_turn = True
        self.answered.update(dict.fromkeys(name for name in ended if name not in self.stale))
        if self.active in run.names and self.active not in self.stale:
            self.active = None
        over = mine[len(with_plan) :]
        self.prompts = tuple(each for each in self.prompts if each.id not in over + missed)
        self._show_activity()
        self._effects += [ev.Answer(prompt_id, failure) for prompt_id in missed]
        for prompt_id in over:
            began = prompt_id == run.starter
            answer = ev.Answer(prompt_id, end, began_turn=began, unread=began and unread)
            self._effects.append(answer)
        for prompt_id in with_plan:
            call = self._next_call()
            self._change_prompt(prompt_id, place=Reviews(call))
            self._effects.append(ev.AskPlan(call, prompt_id))
        active = self.active
        if active is not None and active not in self.stale and active not in self.answered:
            # Codex has begun this turn without a prompt, perhaps inside another turn.
            outer = run.outer_of(active)
            turn = outer if outer in dict(run.begun) else active
            begun = tuple(pair for pair in run.begun if turn in pair)
            self._follow_own_turn(turn, begun or ((turn, None),), steerable=run.steerable)

    def _forget_turn(self, run: Run) -> None:
        """Stop waiting for replies and timers of the turn."""
        self._abandon_interrupt()
        if run.call is not None and run.turn is not None:
            self._effects.append(ev.Abandon(run.call))
        if isinstance(self.turn, CleaningUp):
            self._effects.append(ev.Abandon(self.turn.call))
        self._forget_look_up()
        self.turn, self.doubts, self.stopped = Idle(), 0, False
        for timer in TURN_TIMERS:
            self._clear_timer(timer)

    def _take_out_unread(self, run: Run, end: PromptEnd, *, added_to_old: bool) -> list[str]:
        """Put the messages that the turn did not read back into the queue.

        Codex reports what it read only if it repeats our message ids. A message that Codex added
        to a turn which was given up and interrupted is put back once. If this happens to a prompt
        a second time, the prompt is in the result.
        """
        missed = []
        repeats_ids = run.starter in run.read and end == DONE
        added = added_to_old and self.reports_reads and end in (DONE, CANCELLED)
        for prompt in self.prompts:
            unread = prompt.id not in run.read
            skipped = repeats_ids and unread
            again = added and unread and prompt.kind == "message"
            match prompt.place:
                case InTurn() if skipped or (again and not prompt.returned):
                    self._change_prompt(prompt.id, place=Waits(steered=True), returned=True)
                case InTurn() if again:
                    missed.append(prompt.id)
                case Steers(call=call, turn=turn, end=None) if turn in run.names:
                    self._set_place(prompt, Steers(call, turn, end=end, unread=skipped))
                case Waits() | Local() | Steers() | InTurn() | Reviews():
                    pass
                case _:
                    assert_never(prompt.place)
        return missed

    def _follow_own_turn(
        self, turn: str, begun: tuple[tuple[str, str | None], ...], *, steerable: bool = True
    ) -> None:
        """Follow a turn that Codex began without a prompt. ``begun``: the turn and inner turns."""
        self.runs += 1
        run = Run(self.runs, None, turn, begun=begun, steerable=steerable)
        self.turn = Running(run)
        self._set_timer("silence")
        if self.closing:
            self._cancel_run(run)

    # The plan of a turn that has ended.

    def _plan_event(self, event: ev.PlanAnswered | ev.PlanTaken | ev.PlanFailed) -> None:
        if isinstance(event, ev.PlanAnswered):
            asked = Reviews(event.call)
            prompt = next((each for each in self.prompts if each.place == asked), None)
        else:
            prompt = self.find(event.prompt)
        if prompt is None:  # the question was withdrawn
            return
        match event:
            case ev.PlanAnswered(approved=approved):
                self._effects.append(ev.EndReview(approved))
                if approved:
                    call = self._next_call()
                    self._change_prompt(prompt.id, place=Reviews(call), approved=True)
                    self._effects.append(ev.TakePlan(call, prompt.id))
                else:
                    self._set_place(prompt, Waits())  # without a question
                    self._answer(prompt.id, DONE)
            case ev.PlanTaken(name, message, kind):
                # The prompt continues as the message that carries the plan out, with that one's id.
                self._change_prompt(name, id=message, kind=kind, place=Waits(), inserted=False)
            case ev.PlanFailed(name, failure):
                self._answer(name, failure)
            case _:
                assert_never(event)

    # Interrupts.

    def _interrupt_run(self) -> None:
        """Interrupt a cancelled turn now; again when it begins, if Codex refused the interrupt
        because the turn had not begun."""
        turn = self.turn
        if not isinstance(turn, Cancelling) or turn.call is not None:
            return
        if turn.tries < INTERRUPT_ATTEMPTS and (turn.tries == 0 or turn.run.started):
            assert turn.run.target is not None, "a turn that is cancelled has a name"
            call = self._next_call()
            self.turn = Cancelling(turn.run, call, turn.tries + 1)
            self._effects.append(ev.Interrupt(call, turn.run.target))

    def _interrupt_unnamed(self) -> None:
        """Interrupt the turn that began last, which may be the cancelled compaction."""
        turn = self.turn
        if isinstance(turn, Starting) and turn.cancelled and turn.run.compacts and turn.run.begun:
            begun, outer = turn.run.begun[-1]
            self._name_turn(outer or begun)

    def _abandon_interrupt(self) -> None:
        """Stop waiting for the interrupt's reply: Codex never replies after the turn's end."""
        if isinstance(self.turn, Cancelling) and self.turn.call is not None:
            self._effects.append(ev.Abandon(self.turn.call))

    def _make_stale(self, turn: str) -> None:
        """Note that a call which was given up has begun this turn, and interrupt it."""
        run = self.run
        if run is not None and run.starter is None:
            outer = run.outer_of(run.turn)  # Codex may report only the inner turn of a review
            names = run.names if outer is None else (*run.names, outer)
            if turn in names:  # the turn was followed as Codex's own
                self.stale.update(names)
                self._interrupt_stale(run.target or turn)
                self._settle_turns(*names)
                self._end_turn(CANCELLED)
                return
        self.stale.add(turn)
        self._interrupt_stale(turn)
        self._settle_turns(turn)
        if run is not None and turn in run.names:
            self._set_run(replace(run, added_to_old=True))

    def _interrupt_stale(self, turn: str) -> None:
        call = self._next_call()
        if isinstance(self.turn, Freeing):
            self.turn = Freeing(call)
        self._effects.append(ev.Interrupt(call, turn))

    def _free(self) -> None:
        if isinstance(self.turn, Freeing):
            self.turn = Idle(freed=True)
        self._clear_timer("free")

    def _end_when_clean(self, turn: CleaningUp, items: frozenset[str]) -> None:
        """End the turn once its commands have ended: their output precedes the prompt's answer."""
        if not items & turn.run.commands:
            self._end_turn(turn.end)

    def _forget_look_up(self) -> None:
        if self.look_up is not None:
            self._effects.append(ev.Abandon(self.look_up))
            self.look_up = None
            self._clear_timer("look_up")

    def _expect_late_starts(self, *, after_stale: bool) -> None:
        """Expect, after a turn's end, that calls which were given up begin the next turn: reviews,
        and, after a stale turn that did not read them, messages."""
        self.late_starts = tuple(
            replace(late, begins=True) if after_stale or late.message is None else late
            for late in self.late_starts
        )

    def _forget_late_starts(self, late: tuple[LateStart, ...]) -> None:
        self.late_starts = tuple(each for each in self.late_starts if each not in late)

    # Small changes of the state.

    def _answer(self, prompt_id: str, end: PromptEnd, *, unread: bool = False) -> None:
        self._forget_prompt(prompt_id, end)
        self._show_activity()
        self._effects.append(ev.Answer(prompt_id, end, unread=unread))

    def _forget_prompt(self, prompt_id: str, end: PromptEnd = CANCELLED) -> None:
        """Remove a prompt that is answered or withdrawn."""
        prompt = self.find(prompt_id)
        if prompt is None:
            return
        self.prompts = tuple(each for each in self.prompts if each.id != prompt_id)
        match prompt.place:
            case Steers(call=call):
                self._clear_timer("steer")
                self._effects.append(ev.Abandon(call))
            case Reviews(call=call):
                self._effects += [] if prompt.approved else [ev.EndReview(None)]
                self._effects.append(ev.Abandon(call))
            case Waits() | Local() | InTurn():
                pass
            case _:
                assert_never(prompt.place)
        if prompt.approved:
            self._effects.append(ev.EndPlan(None if end == CANCELLED else False))
        # A prompt that was shown waits again, or its plan is being asked about or carried out.
        if prompt.works and not isinstance(prompt.place, Local | InTurn):
            self.idle_reason, self.idle_after_turn = end, False

    def _accept(self, prompt: Prompt) -> None:
        """Note that Codex, or the adapter, took the prompt; show the message to the client once."""
        if isinstance(prompt.place, Steers) and prompt.place.end is None:
            self._clear_timer("steer")
            self._set_place(prompt, InTurn())
        if not prompt.inserted:
            self._change_prompt(prompt.id, inserted=True, works=True)
            self._effects.append(ev.Show(prompt.id))  # the person's message
            self._show_activity()
            self._effects.append(ev.Insert(prompt.id))  # calls the prompt's ``on_accepted``

    def _set_place(self, prompt: Prompt, place: Place) -> None:
        self._change_prompt(prompt.id, place=place)

    def _change_prompt(self, prompt_id: str, **changes: object) -> None:
        self.prompts = tuple(
            replace(each, **changes) if each.id == prompt_id else each for each in self.prompts
        )

    def _set_run(self, run: Run) -> None:
        turn = self.turn
        if isinstance(turn, Starting | Running | Cancelling | CleaningUp):
            self.turn = replace(turn, run=run)

    def _change_run(self, change: Callable[[Run], Run]) -> None:
        run = self.run
        if run is not None:
            self._set_run(change(run))

    def _next_call(self) -> int:
        self.calls += 1
        return self.calls

    def _set_timer(self, timer: ev.Timer) -> None:
        self.timers |= {timer}
        self._effects.append(ev.SetTimer(timer))

    def _clear_timer(self, timer: ev.Timer) -> None:
        if timer in self.timers:
            self.timers -= {timer}
            self._effects.append(ev.ClearTimer(timer))
