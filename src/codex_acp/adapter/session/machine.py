"""Handle what happens to a session, one event at a time: `SessionMachine.handle` returns effects.

Everything that decides about prompts and turns stands in this file (contract 3.5, 3.10, 4.2 to
4.5). There is no IO, clock, task or callback here, and no model is loaded, so every order of events
can be tried (`tests/adapter/session`). Effects are carried out in the order given, before the next
event is handled.
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
from codex_acp.jsonrpc.message import INTERNAL_ERROR
from codex_acp.mapping.events import PromptFailure, PromptStop

if TYPE_CHECKING:
    from collections.abc import Callable

    from codex_acp.adapter.session.states import Place, Turn
    from codex_acp.mapping.events import Activity, PromptEnd

CANCELLED: Final = PromptStop("cancelled")
NO_DATA: dict[str, object] = {}
DONE: Final = PromptStop("end_turn")
INTERRUPT_ATTEMPTS: Final = 3
"""Codex refuses an interrupt between the answer of ``turn/start`` and ``turn/started``."""

MAX_DOUBTS: Final = 3
"""Look-ups, one after the other, that find no running turn; then the prompt fails."""

MAX_ANSWERED: Final = 256
"""Turns remembered as answered: what comes late of one comes within moments of its end, or when a
command ends that was left in the background."""

OF_A_TURN: Final[tuple[ev.Timer, ...]] = (
    "cancel", "clean_up", "free", "answer", "silence", "stopped", "look_up",
)  # fmt: skip


class SessionMachine:
    """The prompts of one session, and the turn that runs.

    ``stale`` and ``answered`` are read outside to decide what of a turn is shown: the same two
    objects for as long as the session lives.
    """

    def __init__(self) -> None:
        self.turn: Turn = Idle()
        self.prompts: tuple[Prompt, ...] = ()
        """Prompts that are not answered, oldest first."""
        self.active: str | None = None
        """The turn of the thread that Codex began last and has not ended."""
        self.stale: set[str] = set()
        """Turns that were given up: nothing of them is shown or asked any more."""
        self.answered: LastOnes[str, None] = LastOnes(MAX_ANSWERED)
        """Turns that have ended with their prompts answered, oldest first."""
        self.closing: bool = False
        """Whether the client closes the session."""
        self.questions: tuple[Question, ...] = ()
        """Questions that the person has not answered, oldest first."""
        self.told: Activity = "idle"
        """Activity that the client was told last."""
        self.rest: PromptEnd | None = None
        """Why nothing runs, as soon as nothing does."""
        self.of_turn: bool = False
        """Whether that is a turn's end, and not of what came behind it."""
        self.plan: bool = False
        """Whether there was a plan to ask about when a turn ended last."""
        self.late_starts: tuple[LateStart, ...] = ()
        self.gone: PromptFailure | None = None
        """Why there is no Codex to begin a turn with."""
        self.look_up: int | None = None
        """The look-up that is on the wire."""
        self.doubts: int = 0
        self.stopped: bool = False
        """Whether Codex has said that nothing runs, since a turn began last."""
        self.timers: frozenset[ev.Timer] = frozenset()
        self.tells_reads: bool = False
        """Whether this Codex tells which messages it has read."""
        self.calls: int = 0
        """Calls made so far: each has the next number."""
        self.runs: int = 0
        """Turns run so far."""
        self._out: list[ev.Effect] = []

    # What others may know.

    @property
    def run(self) -> Run | None:
        """The turn that is asked for, or runs."""
        match self.turn:
            case Starting(run=run) | Running(run=run) | Cancelling(run=run) | CleaningUp(run=run):
                return run
            case Idle() | Freeing():
                return None
            case _:
                assert_never(self.turn)

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled and has not ended."""
        return isinstance(self.turn, Cancelling) or (
            isinstance(self.turn, Starting) and self.turn.cancelled
        )

    def is_answered(self, turn: str | None) -> bool:
        """Whether the turn's prompts are answered, so that nothing of the turn may be sent.

        Codex tells of an item that begins, or of a command that ends, as the turn ends, after it.
        """
        run = self.run
        return turn in self.answered and not (run is not None and turn in (run.turn, run.active))

    @property
    def activity(self) -> Activity:
        """Return the activity of the session: Codex asks from within its turn, and waits for the
        answer."""
        run, asked = (
            self.run,
            self.questions
            or any(isinstance(p.place, Reviews) and p.place.call is not None for p in self.prompts),
        )
        works = (
            any(question.turn is None for question in self.questions)
            or any(prompt.works for prompt in self.prompts)
            or (run is not None and any(turn not in self.stale for turn, _ in run.begun))
        )
        return "idle" if not works else "requires_action" if asked else "running"

    def may_ask(self, turn: str, *, below: bool = False) -> bool:
        """Whether the person may be asked something for a turn, or for a sub-agent's ``below``.

        Not behind a cancel, and not for a turn that is over or was given up; a sub-agent's is given
        up with the turn that it works for.
        """
        if self.cancelled or turn in self.stale or self.is_answered(turn):
            return False
        run = self.run
        return not (below and self.stale and (run is None or run.starter is None))

    def _has_ended(self, turn: str) -> bool:
        run = self.run
        return turn in self.answered or (run is not None and turn in dict(run.ended))

    def find(self, prompt: str) -> Prompt | None:
        """Return a prompt that is not answered."""
        return next((each for each in self.prompts if each.id == prompt), None)

    # Events.

    def handle(self, event: ev.Event) -> list[ev.Effect]:
        """Take in one event; return what is to be done, in order."""
        out = self._out = []
        if isinstance(event, ev.ClientEvent):
            self._of_client(event)
        elif isinstance(event, ev.CodexEvent):
            self._of_codex(event)
        elif isinstance(event, ev.ReplyEvent):
            self._reply(event)
        else:
            self.timers -= {event.timer}
            self._due(event.timer, asks_person=event.asks_person)
        while self._go_on():
            pass
        if self.turn == Idle(freed=True):
            self.turn = Idle()
        self._look()
        return out

    def _look(self) -> None:
        """Tell what the session does, if that is news; it follows from the state alone."""
        now = self.activity
        if now == self.told:
            return
        if self.told == "idle":
            self.rest, self.of_turn = None, False
            if now == "requires_action":  # only what runs does
                self._out.append(ev.ShowActivity("running"))
        self.told = now
        if now == "idle":
            self._out.append(ev.ShowActivity(now, self.rest or DONE, self.of_turn))
        else:
            self._out.append(ev.ShowActivity(now))

    def _of_client(self, event: ev.ClientEvent) -> None:
        match event:
            case ev.Prompted(prompt, joins):
                self.prompts += (Prompt(prompt, None, Waits(), joins),)
            case ev.Prepared(prompt, kind):
                self._change(prompt, kind=kind)
            case ev.AskedEarly(prompt, call):
                self.calls = max(self.calls, call)
                self.prompts += (Prompt(prompt, "message", InTurn()),)
                self._begin(prompt, call)
            case ev.AnsweredLocally(prompt, end):
                self._spoken(prompt, end)
            case ev.Asked(question, turn):
                self.questions += (Question(question, turn),)
            case ev.Settled(question):
                self.questions = tuple(each for each in self.questions if each.id != question)
            case ev.PlanAnswered() | ev.PlanTaken() | ev.PlanFailed():
                self._reviewed(event)
            case ev.Withdrawn(prompt):
                self._leave(prompt)
            case ev.GivenUp(prompt):
                self._given_up(prompt)
            case ev.Cancelled(closing):
                self.closing = self.closing or closing
                self._cancel()
            case ev.Reopened():
                self.closing = False
            case _:
                assert_never(event)

    def _of_codex(self, event: ev.CodexEvent) -> None:
        match event:
            case ev.TurnBegan(turn, root):
                self._turn_began(turn, root)
            case ev.MessageRead(message, turn):
                self._message_read(message, turn)
            case ev.CommandBegan(item):
                self._change_run(lambda run: replace(run, commands=run.commands | {item}))
            case ev.CommandEnded(item):
                self._command_ended(item)
            case ev.CompactionBegan(turn):
                if isinstance(self.turn, Starting) and self.turn.run.compacts:
                    self._known(turn)
            case ev.TurnEnded(turn, end, plan):
                self.plan = plan
                self._turn_ended(turn, end)
            case ev.ThreadStopped():
                if self.run is not None:
                    self.stopped = True
                    self._set("stopped")
            case ev.Lost(failure, unread):
                self._lost(failure, unread)
            case ev.Moved():
                self.gone = None
            case _:
                assert_never(event)

    def _reply(self, event: ev.ReplyEvent) -> None:
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

    def _given_up(self, prompt_id: str) -> None:
        """A prompt that alone waits for a turn cancels it, and is answered with its end."""
        prompt, run = self.find(prompt_id), self.run
        if prompt is None:
            return
        in_turn = [each for each in self.prompts if isinstance(each.place, InTurn)]
        if run is not None and in_turn == [prompt]:
            self._cancel_run(run)
        else:
            self._leave(prompt_id)

    def _spoken(self, prompt_id: str, end: PromptEnd) -> None:
        """A turn that has ended meanwhile says why nothing runs, unless the command failed."""
        if self.find(prompt_id) is not None:
            if end != DONE or self.rest is None:
                self.rest, self.of_turn = end, False
            self._answer(prompt_id, end)

    def _settle(self) -> None:
        """Have nothing asked of the person any more, for sub-agents either."""
        self.questions = ()
        self._out.append(ev.SettleQuestions())

    def _settle_of(self, *turns: str) -> None:
        """Have nothing asked of turns that are over."""
        for turn in dict.fromkeys(each.turn for each in self.questions if each.turn in turns):
            self.questions = tuple(each for each in self.questions if each.turn != turn)
            self._out.append(ev.SettleQuestions(turn))

    def _cancel(self) -> None:
        self.rest, self.of_turn = CANCELLED, False
        for prompt in self.prompts:
            if not isinstance(prompt.place, InTurn):
                self._answer(prompt.id, CANCELLED)
        run = self.run
        if run is not None:
            self._cancel_run(run)
        else:
            self._settle()  # a sub-agent may have outlived the prompt

    def _cancel_run(self, run: Run) -> None:
        """Interrupt first: with the replies to what it asked alone Codex would ask the model once
        more."""
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
        self._set("cancel")
        self._settle()

    # What Codex reports.

    def _turn_began(self, turn: str, root: str | None) -> None:
        if self._has_ended(turn):  # it comes behind its own end
            return
        root = None if root == turn else root
        if self.active in self.stale and self.active not in (turn, root):
            self._late_starts_begin()  # it has ended, though nobody said so
        self.active, self.stopped = turn, False
        self._clear("stopped")
        if any(late.begins for late in self.late_starts):
            self.stale |= {turn} if root is None else {turn, root}  # of a review it begins alone
        if turn in self.stale or root in self.stale:
            self.stale.add(turn)
            self._interrupt_stale(turn)
            return
        match self.turn:
            case Idle() | Freeing():
                self._follow(turn, root)
            case Starting(run=run) | Running(run=run) | Cancelling(run=run) | CleaningUp(run=run):
                self._set_run(replace(run, begun=(*run.begun, (turn, root))))
                if isinstance(self.turn, Starting):
                    self._set("answer")
                self._interrupt_unnamed()
                self._interrupt_run()
            case _:
                assert_never(self.turn)

    def _message_read(self, message: str, turn: str) -> None:
        run, self.tells_reads = self.run, True
        if run is None or run.starter != message:
            late = tuple(each for each in self.late_starts if each.message == message)
            if late:
                self._forget_late(late)
                self._make_stale(turn)
                return
        if run is None:
            return
        if not any(turn in pair for pair in run.begun):
            run = replace(run, begun=(*run.begun, (turn, None)))
        self._set_run(replace(run, read=run.read | {message}))
        if message == run.starter:
            self._known(turn)
        self._interrupt_run()
        prompt = self.find(message)
        if prompt is not None and not isinstance(prompt.place, Waits):
            self._join(prompt)

    def _command_ended(self, item: str) -> None:
        self._change_run(lambda run: replace(run, commands=run.commands - {item}))
        if isinstance(self.turn, CleaningUp) and self.turn.left is not None:
            self._cleaned(self.turn, self.turn.left)

    def _turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        self._settle_of(turn_id)
        run = self.run
        names = () if run is None else run.names
        if turn_id in self.stale:
            self._late_starts_begin()
        if turn_id in self.stale or not (isinstance(self.turn, Starting) or turn_id in names):
            self.stale.discard(turn_id)
            self.answered[turn_id] = None
        if self.active == turn_id or self.active in self.stale:
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
        if run.commands and end == CANCELLED:
            call, cancelled = self._call(), self.cancelled
            self._abandon_interrupt()
            self.turn = CleaningUp(run, end, call, cancelled=cancelled)
            self._out.append(ev.StopCommands(call, run.commands))
            self._set("clean_up")
        else:
            self._over(end)

    def _lost(self, failure: PromptFailure, unread: frozenset[int]) -> None:
        """End everything: what was written may have been read, unless its call is ``unread``."""
        if self.questions:
            self._settle()
        self.gone, self.active, self.late_starts, self.tells_reads = failure, None, (), False
        self.stale.clear()
        run = self.run
        steered = [each for each in self.prompts if isinstance(each.place, Steers)]
        if run is not None:
            self._over(failure, unread=run.call in unread)
        self.turn = Idle()
        for timer in OF_A_TURN:
            self._clear(timer)
        for prompt in steered:
            assert isinstance(prompt.place, Steers), "it was steered"
            skipped = prompt.place.unread or prompt.place.call in unread
            self._answer(prompt.id, failure, unread=skipped)

    # What Codex replies.

    def _started(self, call: int, turn: str | None) -> None:
        late = tuple(each for each in self.late_starts if each.call == call)
        if late:
            self._forget_late(late)
            if turn is not None and turn not in self.answered:
                self._make_stale(turn)
            return
        run = self.run
        if run is None or run.call != call:
            return
        self._set_run(replace(run, call=None, compacts=turn is None))
        starter = None if run.starter is None else self.find(run.starter)
        if starter is not None:
            self._join(starter)
        if turn is not None:
            self._known(turn)

    def _refused(self, call: int, failure: PromptFailure) -> None:
        self._forget_late(tuple(each for each in self.late_starts if each.call == call))
        run = self.run
        if isinstance(self.turn, Starting) and run is not None and run.call == call:
            self._set_run(replace(run, call=None))
            self._over(failure)

    def _steered(self, call: int, *, taken: bool) -> None:
        for prompt in self.prompts:
            place = prompt.place
            if isinstance(place, Steers) and place.call == call:
                self._clear("steer")
                if place.end is None:
                    self._place(prompt, InTurn() if taken else Waits())
                    if not taken:  # a review or compaction; or the turn is just ending
                        self._change_run(lambda run: replace(run, steerable=False))
                elif not taken or place.unread:
                    self._place(prompt, Waits())
                if taken and not place.unread:
                    self._join(prompt)
                    if place.end is not None:  # a Codex that does not say what it has read
                        self._answer(prompt.id, place.end)

    def _interrupted(self, call: int, *, taken: bool) -> None:
        match self.turn:
            case Cancelling(run=run, call=mine, tries=tries) if mine == call:
                self.turn = Cancelling(run, None, INTERRUPT_ATTEMPTS if taken else tries)
                if not taken and tries >= INTERRUPT_ATTEMPTS:
                    self._set("stopped")
                self._interrupt_run()
            case Freeing(call=mine) if mine == call:
                self._freed()
            case Idle() | Freeing() | Starting() | Running() | Cancelling() | CleaningUp():
                pass
            case _:
                assert_never(self.turn)

    def _looked_up(self, found: ev.LookedUp) -> None:
        run = self.run
        if found.call != self.look_up or run is None:
            return
        self.look_up = None
        self._clear("look_up")
        doubt = found.problem or "Codex says that nothing runs, and knows nothing of the turn's end"
        if found.turn is None:
            self._doubt(doubt)
        elif found.end is None:
            if run.turn is None and found.ours is not False:
                self._known(found.turn)
            elif run.turn is None:
                self._set("answer")
            if self.stopped:
                self._doubt(doubt)
            else:
                self.doubts = 0
        elif run.turn is not None or found.ours:
            turn = run.turn or found.turn
            self._out.append(ev.Warn(f"the end of turn {turn} was lost; Codex was asked for it"))
            self.plan = found.plan
            if run.turn is None and run.starter is not None:  # its message stands in Codex's list
                self._set_run(replace(run, read=run.read | {run.starter}))
            self._known(turn)
            if self.run is not None and self.run.turn == turn:
                self._turn_ended(turn, found.end)
        else:
            self._doubt(doubt)

    def _commands_stopped(self, call: int, items: frozenset[str]) -> None:
        if isinstance(self.turn, CleaningUp) and self.turn.call == call:
            self.turn = replace(self.turn, left=items)
            self._cleaned(self.turn, items)

    # Timers.

    def _due(self, timer: ev.Timer, *, asks_person: bool) -> None:
        match timer:
            case "cancel":
                self._give_up(CANCELLED)
                if self.closing:  # and what Codex has begun by itself meanwhile
                    self._give_up(CANCELLED)
            case "clean_up":
                self._out.append(ev.Warn("Codex did not say that a turn's commands ended"))
                self._give_up(CANCELLED)
            case "free":
                self._freed()
            case "answer":
                self._ask()
            case "silence" | "stopped":
                if self.run is not None:
                    self._set("silence")
                if self.stopped or not asks_person:  # a person may think for ever
                    self._ask()
            case "look_up":
                self._forget_look_up()
                self._doubt("Codex says nothing of the turn any more: no answer in time")
            case "steer":
                self._steer_unanswered()
            case _:
                assert_never(timer)

    def _steer_unanswered(self) -> None:
        """Go on as if the message was taken: the turn shows whether it was."""
        for prompt in self.prompts:
            if isinstance(prompt.place, Steers):
                self._out.append(ev.Abandon(prompt.place.call))
                self._steered(prompt.place.call, taken=True)

    def _ask(self) -> None:
        """Ask Codex what became of the turn: silence alone ends nothing."""
        run = self.run
        if run is not None and self.look_up is None:
            self.look_up = self._call()
            names = dict.fromkeys(name for name in (run.turn, run.active) if name is not None)
            self._out.append(ev.LookUp(self.look_up, tuple(names), run.starter))
            self._set("look_up")

    def _doubt(self, why: str) -> None:
        """Nothing speaks of a running turn: ask again, but not for ever."""
        self.doubts += 1
        if self.doubts < MAX_DOUBTS:
            self._set("stopped")
        else:
            self._give_up(PromptFailure(INTERNAL_ERROR, why, NO_DATA))

    def _give_up(self, end: PromptEnd) -> None:
        """End the turn's prompts without its end; nothing of the turn is shown or asked from now
        on, however late it begins (contract 3.10)."""
        if self.questions and isinstance(self.turn, Starting | Running | Cancelling):
            self._settle()
        match self.turn:
            case Starting(run=run):
                self._out.append(ev.Warn("Codex did not begin a turn in time"))
                over = {turn for turn, _ in run.ended}
                begun = {name for pair in run.begun for name in pair if name is not None} - over
                if self.active is not None:  # Codex adds the message to that
                    begun.add(self.active)
                self.stale |= begun
                if run.starter is not None and run.call is not None:
                    self.late_starts += (LateStart(run.call, run.starter, begins=not begun),)
                self._over(end)
            case Running(run=run) | Cancelling(run=run):
                self._out.append(ev.Warn(f"Codex did not end turn {run.turn} in time"))
                self.stale |= set(run.names)
                if isinstance(self.turn, Running) and run.active is not None:
                    self._interrupt_stale(run.active)
                self._over(end)
            case CleaningUp():
                self._over(self.turn.end)
            case Idle() | Freeing():
                pass
            case _:
                assert_never(self.turn)

    # What follows from the state, whatever led to it.

    def _go_on(self) -> bool:
        """Give the first prompt that waits its place; True where the next one may follow."""
        prompt = next((p for p in self.prompts if isinstance(p.place, Waits | Steers)), None)
        if prompt is None or prompt.kind is None or isinstance(prompt.place, Steers):
            return False
        steered = isinstance(prompt.place, Waits) and prompt.place.steered
        if prompt.joins and not steered and not self._takes_messages:
            self._leave(prompt.id)
            self._out.append(ev.RefuseToJoin(prompt.id))
            return True
        if prompt.kind == "local":
            self._place(prompt, Local())
            self._join(prompt)
            self._out.append(ev.AnswerLocally(prompt.id))
            return True
        if self.gone is not None:
            self._answer(prompt.id, self.gone, unread=True)
            return True
        return self._to_codex(prompt)

    @property
    def _takes_messages(self) -> bool:
        """Whether a turn runs, or is asked for, that may take one more message."""
        run = self.run
        return (
            run is not None
            and run.steerable
            and isinstance(self.turn, Starting | Running)
            and (not self.cancelled)
        )

    def _to_codex(self, prompt: Prompt) -> bool:
        match self.turn:
            case Idle(freed=False) if self._must_be_freed:
                call = None  # Codex would add the message to that turn
                if self.active is not None and self.active in self.stale:
                    call = self._call()
                    self._out.append(ev.Interrupt(call, self.active))
                self.turn = Freeing(call)
                self._set("free")
                return False
            case Idle():
                self._begin(prompt.id)
                return True
            case Running(run=run) if run.starter is None:  # Codex adds the message to it
                self._begin(prompt.id, joined=run)
                return True
            case Running(run=run) if run.started and run.steerable and prompt.kind == "message":
                assert run.active is not None, "a turn that has begun has a name"
                call = self._call()
                self._place(prompt, Steers(call, run.active))
                self._out.append(ev.Steer(call, prompt.id, run.active))
                self._set("steer")
                return False
            case Freeing() | Starting() | Running() | Cancelling() | CleaningUp():
                return False
            case _:
                assert_never(self.turn)

    @property
    def _must_be_freed(self) -> bool:
        return (self.active is not None and self.active in self.stale) or any(
            late.begins for late in self.late_starts
        )

    def _begin(self, prompt_id: str, call: int | None = None, joined: Run | None = None) -> None:
        """Ask for a turn; ``call``: it was asked for before. ``joined``: what runs already."""
        self.runs += 1
        self._forget_look_up()
        number = self._call() if call is None else call
        run = Run(self.runs, prompt_id, call=number)
        if joined is not None and joined.turn is not None:
            run = replace(run, begun=joined.begun, commands=joined.commands)
        elif self.active is not None:
            run = replace(run, begun=((self.active, None),))
        self.turn = Starting(run)
        self.doubts, self.stopped = 0, False
        self._change(prompt_id, place=InTurn())
        for prompt in self.prompts:  # the person has said something else
            if isinstance(prompt.place, Reviews) and prompt.place.call is not None:
                self._answer(prompt.id, DONE)
        self._out.append(ev.AskTurn())
        self._set("silence")
        if call is None:
            self._out.append(ev.Start(number, prompt_id))

    def _known(self, turn: str) -> None:
        """Codex has named the turn that was asked for; it may have begun, and ended, before."""
        if not isinstance(self.turn, Starting):
            return
        added = turn in self.stale or turn in self.answered
        run = replace(self.turn.run, turn=turn, added=added)
        if turn == self.active and turn not in dict(run.begun):  # it was thought to be stale
            run = replace(run, begun=(*run.begun, (turn, None)))
        if self.active not in run.names and not self._has_ended(turn):
            self.active = None  # a thread runs one turn at a time
        self.stale.discard(turn)
        self.late_starts = tuple(replace(late, begins=False) for late in self.late_starts)
        self._clear("answer")
        self.doubts = 0
        self.turn = Cancelling(run) if self.turn.cancelled else Running(run)
        self._interrupt_run()
        for ended, end in run.ended:
            if ended == turn and self.run is not None:
                self._run_ended(self.run, end)
                return

    def _over(self, end: PromptEnd, *, unread: bool = False) -> None:
        """The turn has its end: it is told, then its prompts are answered."""
        run = self.run
        assert run is not None, "there is a turn"
        cancelled = self.cancelled or (isinstance(self.turn, CleaningUp) and self.turn.cancelled)
        if cancelled:
            end = CANCELLED
        self._forget_turn(run)
        missed = self._take_out_unread(replace(run, added=run.added and not cancelled), end)
        in_turn = [each.id for each in self.prompts if isinstance(each.place, InTurn)]
        mine = [each for each in in_turn if each not in missed]
        steered = any(p.place == Waits(steered=True) for p in self.prompts)
        asks = mine[:1] if self.plan and end == DONE and not steered else []
        ended = (*run.names, *(turn for turn, _ in run.ended))
        self._settle_of(*ended)
        self._out.append(ev.EndTurn(run.turn, end))
        why = "Codex ended its turn without reading this message; it can be sent again"
        failure = PromptFailure(INTERNAL_ERROR, why, NO_DATA)
        self.rest, self.of_turn = failure if missed and not mine else end, True
        self.answered.update(dict.fromkeys(name for name in ended if name not in self.stale))
        if self.active in run.names and self.active not in self.stale:
            self.active = None
        over = mine[len(asks) :]
        self.prompts = tuple(each for each in self.prompts if each.id not in over + missed)
        self._look()
        self._out += [ev.Answer(prompt_id, failure) for prompt_id in missed]
        for prompt_id in over:
            began = prompt_id == run.starter
            self._out.append(ev.Answer(prompt_id, end, began, began and unread))
        for prompt_id in asks:
            call = self._call()
            self._change(prompt_id, place=Reviews(call))
            self._out.append(ev.AskPlan(call, prompt_id))
        active = self.active
        if active is not None and active not in self.stale and active not in self.answered:
            self._follow(active, None)  # Codex has begun it by itself meanwhile

    def _forget_turn(self, run: Run) -> None:
        """Wait for nothing of the turn any more."""
        self._abandon_interrupt()
        if run.call is not None and run.turn is not None:
            self._out.append(ev.Abandon(run.call))
        if isinstance(self.turn, CleaningUp):
            self._out.append(ev.Abandon(self.turn.call))
        self._forget_look_up()
        self.turn, self.doubts, self.stopped = Idle(), 0, False
        for timer in OF_A_TURN:
            self._clear(timer)

    def _take_out_unread(self, run: Run, end: PromptEnd) -> list[str]:
        """Have the messages wait again that the turn has ended without reading.

        A Codex that does not repeat our ids tells nothing of what it has read. A message that it
        added to a turn which was given up, and then interrupted, waits again as well, but once:
        those to which it happens a second time are returned.
        """
        missed = []
        repeats = run.starter in run.read and end == DONE
        added = run.added and self.tells_reads and end in (DONE, CANCELLED)
        for prompt in self.prompts:
            unread = prompt.id not in run.read
            skipped = repeats and unread
            again = added and unread and prompt.kind == "message"
            match prompt.place:
                case InTurn() if skipped or (again and not prompt.returned):
                    self._change(prompt.id, place=Waits(steered=True), returned=True)
                case InTurn() if again:
                    missed.append(prompt.id)
                case Steers(call=call, turn=turn, end=None) if turn in run.names:
                    self._place(prompt, Steers(call, turn, end, skipped))
                case Waits() | Local() | Steers() | InTurn() | Reviews():
                    pass
                case _:
                    assert_never(prompt.place)
        return missed

    def _follow(self, turn: str, root: str | None) -> None:
        """Follow a turn that no prompt began."""
        self.runs += 1
        run = Run(self.runs, None, turn, begun=((turn, root),))
        self.turn = Running(run)
        self._set("silence")
        if self.closing:
            self._cancel_run(run)

    # The plan of a turn that has ended.

    def _reviewed(self, event: ev.PlanAnswered | ev.PlanTaken | ev.PlanFailed) -> None:
        if isinstance(event, ev.PlanAnswered):
            asked = Reviews(event.call)
            prompt = next((each for each in self.prompts if each.place == asked), None)
        else:
            prompt = self.find(event.prompt)
        if prompt is None:  # it was withdrawn meanwhile
            return
        match event:
            case ev.PlanAnswered(approved=approved):
                self._out.append(ev.EndReview(approved))
                self._place(prompt, Reviews(None))
                if approved:
                    self._out.append(ev.TakePlan(prompt.id))
                else:
                    self._answer(prompt.id, DONE)
            case ev.PlanTaken(name, message, kind):
                self._change(name, id=message, kind=kind, place=Waits(), inserted=False)
            case ev.PlanFailed(name, failure):
                self._answer(name, failure)
            case _:
                assert_never(event)

    # Interrupts.

    def _interrupt_run(self) -> None:
        """Interrupt a cancelled turn: at once, and where Codex refused that, when it begins."""
        turn = self.turn
        if not isinstance(turn, Cancelling) or turn.call is not None:
            return
        if turn.tries < INTERRUPT_ATTEMPTS and (turn.tries == 0 or turn.run.started):
            assert turn.run.active is not None, "a turn that is known has a name"
            call = self._call()
            self.turn = Cancelling(turn.run, call, turn.tries + 1)
            self._out.append(ev.Interrupt(call, turn.run.active))

    def _interrupt_unnamed(self) -> None:
        """Interrupt what may be the compaction that is cancelled: what else runs ends with it."""
        turn = self.turn
        if isinstance(turn, Starting) and turn.cancelled and turn.run.compacts and turn.run.begun:
            begun, root = turn.run.begun[-1]
            self._known(root or begun)

    def _abandon_interrupt(self) -> None:
        """Codex never answers the interrupt of a turn that has just ended."""
        if isinstance(self.turn, Cancelling) and self.turn.call is not None:
            self._out.append(ev.Abandon(self.turn.call))

    def _make_stale(self, turn: str) -> None:
        run = self.run
        if run is not None and turn in run.names:
            self._set_run(replace(run, added=True))
        self.stale.add(turn)
        self._interrupt_stale(turn)

    def _interrupt_stale(self, turn: str) -> None:
        call = self._call()
        if isinstance(self.turn, Freeing):
            self.turn = Freeing(call)
        self._out.append(ev.Interrupt(call, turn))

    def _freed(self) -> None:
        if isinstance(self.turn, Freeing):
            self.turn = Idle(freed=True)
        self._clear("free")

    def _cleaned(self, turn: CleaningUp, items: frozenset[str]) -> None:
        """The last output of a command comes before the prompt's answer."""
        if not items & turn.run.commands:
            self._over(turn.end)

    def _forget_look_up(self) -> None:
        if self.look_up is not None:
            self._out.append(ev.Abandon(self.look_up))
            self.look_up = None
            self._clear("look_up")

    def _late_starts_begin(self) -> None:
        """A given-up turn is over: the next one is of the messages that were not added to it."""
        self.late_starts = tuple(replace(late, begins=True) for late in self.late_starts)

    def _forget_late(self, late: tuple[LateStart, ...]) -> None:
        self.late_starts = tuple(each for each in self.late_starts if each not in late)

    # Values.

    def _answer(self, prompt_id: str, end: PromptEnd, *, unread: bool = False) -> None:
        self._leave(prompt_id, end)
        self._look()
        self._out.append(ev.Answer(prompt_id, end, unread=unread))

    def _leave(self, prompt_id: str, end: PromptEnd = CANCELLED) -> None:
        """Forget a prompt: it is answered, or nobody waits for it."""
        prompt = self.find(prompt_id)
        if prompt is None:
            return
        self.prompts = tuple(each for each in self.prompts if each.id != prompt_id)
        match prompt.place:
            case Steers(call=call):
                self._clear("steer")
                self._out.append(ev.Abandon(call))
            case Reviews(call=call) if call is not None:
                self._out += [ev.EndReview(None), ev.Abandon(call)]
            case Waits() | Reviews() | Local() | InTurn():
                pass
            case _:
                assert_never(prompt.place)
        if prompt.works and not isinstance(prompt.place, Local | InTurn):
            self.rest, self.of_turn = end, False

    def _join(self, prompt: Prompt) -> None:
        """The prompt has its place in the turn; the client is told once."""
        if isinstance(prompt.place, Steers) and prompt.place.end is None:
            self._clear("steer")
            self._place(prompt, InTurn())
        if not prompt.inserted:
            self._change(prompt.id, inserted=True, works=True)
            self._out.append(ev.Show(prompt.id))
            self._look()
            self._out.append(ev.Insert(prompt.id))

    def _place(self, prompt: Prompt, place: Place) -> None:
        self._change(prompt.id, place=place)

    def _change(self, prompt_id: str, **changes: object) -> None:
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

    def _call(self) -> int:
        self.calls += 1
        return self.calls

    def _set(self, timer: ev.Timer) -> None:
        self.timers |= {timer}
        self._out.append(ev.SetTimer(timer))

    def _clear(self, timer: ev.Timer) -> None:
        if timer in self.timers:
            self.timers -= {timer}
            self._out.append(ev.ClearTimer(timer))
