"""Drive the machine of a session: make events of what arrives, and carry out its effects.

The loop of the session. If carrying out an effect causes an event at once (a call fails because the
connection is closed), that event joins the end of the queue. Not safe for threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, assert_never
from uuid import uuid4

from codex_acp._json import text_at
from codex_acp.adapter.cancel_scope import CancelScope
from codex_acp.adapter.prompts.turn_calls import TurnCalls, codex_gone, start_refused
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.machine import DONE, SessionMachine
from codex_acp.adapter.session.states import Reviews
from codex_acp.errors import CodexAcpError, InvalidPayload, RpcError, TransportError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_REQUEST, JsonValue
from codex_acp.mapping.events import PromptEnd, PromptFailure, PromptStop
from codex_acp.mapping.session import end_of_turn
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from codex_acp._last_ones import LastOnes
    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.side_tasks import Spawn
    from codex_acp.codex._generated.models import UserInput
    from codex_acp.mapping.events import Activity
    from codex_acp.wire.model import WireModel

    Tap: TypeAlias = Callable[[SessionMachine, ev.Event, list[ev.Effect]], None]
    OnMessageId: TypeAlias = Callable[[str], None]
    """Called with the id of a message."""
    OnReply: TypeAlias = Callable[[JsonValue | CodexAcpError], None]

logger = logging.getLogger(__name__)

MAX_PROMPTS: Final = 32
"""Unanswered prompts of one session: more than a person types while a turn runs."""


taps: Final[list[Tap]] = []
"""Called with each event of every session of this process, before its effects: see `record`."""


class Timings(NamedTuple):
    """Seconds that each timer of a session runs."""

    cancel: float = 10.0
    """From a cancel to the end of the turn; then the prompt ends without it."""
    clean_up: float = 3.0
    """For ending the commands of an interrupted turn: well within the bound of a cancel."""
    free: float = 2.0
    """For the end of a turn that was given up, before the next one begins."""
    answer: float = 5.0
    """From ``turn/started`` to the answer of the call that began the turn: usually they come
    together."""
    silence: float = 60.0
    """Without a notification of the thread; then Codex is asked, because a model may think so
    long."""
    stopped: float = 2.0
    """After Codex said that the thread is idle, to the end of the turn: usually they come
    together."""
    look_up: float = 10.0
    """For asking Codex about a turn; a healthy one answers within milliseconds."""
    steer: float = 10.0
    """A steered message is answered at once; after this it may or may not have been taken."""


TIMINGS: Final = Timings()


class TurnWork(NamedTuple):
    """The call that begins a turn for a prompt."""

    method: str
    params: Callable[[str], WireModel]
    """Makes the params of the call for a message of this id."""
    message: list[UserInput] | None
    """The content with which the prompt can steer a running turn; None: it needs its own turn."""


class LocalReply(NamedTuple):
    """The work of a prompt that the adapter answers itself, without a turn."""

    run: Callable[[], Awaitable[None]]


class NotTaken(RpcError):
    """A prompt failed before it had any effect: it may be run once more."""


class NothingRuns(RpcError):
    """A message was only for a running turn, and no turn runs that could take it."""


class PromptOutcome(NamedTuple):
    """End of a prompt, failed or not."""

    end: PromptEnd
    usage: dict[str, JsonValue] | None = None
    """Tokens of the turn that the prompt began; None for a prompt that steered a turn."""
    unread: bool = False
    """Whether the prompt failed because Codex ended before it read any of it."""


class PromptResult(NamedTuple):
    """Stop reason and token usage of a prompt that did not fail, for its answer."""

    stop: PromptStop
    usage: dict[str, JsonValue] | None = None
    """Tokens of the turn that the prompt began."""


class PromptHost(Protocol):
    """The session of a driver, `Session`: shows, asks the person, and knows of plans."""

    @property
    def client_gone(self) -> bool: ...
    def message_named(self, message_id: str) -> None: ...
    def settle_questions(self, turn_id: str | None) -> None: ...
    def turn_begins(self) -> None: ...
    @property
    def has_plan(self) -> bool: ...
    def plan_asked(self) -> None: ...
    async def plan_approved(self) -> bool: ...
    def plan_reviewed(self, approved: bool | None) -> None: ...
    async def take_plan(self) -> TurnWork: ...
    def plan_shown(self, message_id: str) -> None: ...
    def show_activity(
        self, now: Activity, end: PromptEnd | None, usage: dict[str, JsonValue] | None
    ) -> None: ...
    def turn_over(self, turn: ev.EndTurn) -> dict[str, JsonValue] | None: ...
    def say(self, text: str) -> None: ...


class _Waiting:
    """A prompt that the client waits for."""

    def __init__(
        self, show: OnMessageId, on_accepted: OnMessageId | None = None, message_id: str = ""
    ) -> None:
        self.id = message_id or uuid4().hex
        """The id of the prompt's message, each time that it is sent to Codex."""
        self.work: TurnWork | LocalReply | None = None
        self.scope = CancelScope()
        """Around the preparation of the prompt, or the command that answers it."""
        self.show = show
        """Shows the message of the prompt to the client."""
        self.on_accepted = on_accepted
        self.takes_plan = False
        """Whether the prompt carries out a plan in a second turn, and must not be run again."""
        self.outcome: asyncio.Future[PromptOutcome | None]
        self.outcome = asyncio.get_running_loop().create_future()
        """How the prompt ended; None: `_result` runs its `LocalReply` now."""

    def settle(self, outcome: PromptOutcome | Exception | None) -> None:
        if self.outcome.done():
            if self.outcome.exception() is not None or self.outcome.result() is not None:
                return
            # It ends before it has taken its turn.
            self.outcome = asyncio.get_running_loop().create_future()
        if isinstance(outcome, Exception):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class SessionDriver:
    """Runs the prompts and the turn of one session.

    ``spawn`` starts a task that may outlive the request which asked for it.
    """

    def __init__(
        self, calls: TurnCalls, host: PromptHost, spawn: Spawn, timings: Timings | None = None
    ) -> None:
        self._calls = calls
        self._host = host
        self._spawn = spawn
        self._timings = timings or TIMINGS
        self.machine: SessionMachine = SessionMachine()
        self.stale: set[str] = self.machine.stale
        self.answered_turns: LastOnes[str, None] = self.machine.answered
        self.is_answered: Callable[[str | None], bool] = self.machine.is_answered
        self._waiting: dict[str, _Waiting] = {}
        self._abandon: dict[int, Callable[[], None]] = {}
        """By the number of a call: the function that stops waiting for its reply."""
        self._written: dict[int, int | None] = {}
        """By the number of a call that begins or steers a turn: bytes written to Codex before
        it."""
        self._timers: dict[ev.Timer, asyncio.TimerHandle] = {}
        self._last_activity = 0.0
        self._events: deque[ev.Event] = deque()
        self._handling = False
        self._questions = 0
        """Questions that were asked so far."""
        self._usage: dict[str, JsonValue] | None = None
        self._settled: list[asyncio.Future[None]] = []
        """Futures of `settled` calls: done once no prompt is open and no turn runs."""

    # State.

    @property
    def busy(self) -> bool:
        """Return whether a prompt is not answered yet."""
        return bool(self._waiting)

    @property
    def running(self) -> bool:
        """Return whether a turn runs that a prompt began."""
        run = self.machine.run
        return run is not None and run.starter is not None

    @property
    def turn(self) -> object | None:
        """Return a key of the turn that runs, equal from its beginning to its end; None: no
        turn."""
        run = self.machine.run
        return run.number if run is not None else self.machine.active or self.reviewing

    @property
    def reviewing(self) -> str | None:
        """Return the prompt whose plan waits for the person, or is about to be carried out."""
        reviewing = (p.id for p in self.machine.prompts if isinstance(p.place, Reviews))
        return next(reviewing, None)

    @property
    def turn_ids(self) -> frozenset[str | None]:
        """Return the ids that Codex uses for the running turn, as far as they are known."""
        run = self.machine.run
        return frozenset([self.machine.active, *(() if run is None else run.names)])

    @property
    def running_turn(self) -> str | None:
        """Return the id of the turn that a prompt runs in."""
        run = self.machine.run
        return None if run is None else run.turn

    def has_begun(self, early: EarlyTurn | None) -> bool:
        """Return whether `begin` started this prompt, and it is not answered yet."""
        return early is not None and early.message_id in self._waiting

    # What the client asks for.

    async def run(
        self,
        prepare: Callable[[], Awaitable[TurnWork | LocalReply]],
        show: OnMessageId,
        on_accepted: OnMessageId | None = None,
        *,
        joins: bool = False,
        early: EarlyTurn | None = None,
    ) -> PromptOutcome:
        """Run one prompt to its end, after the prompts that came before it.

        The prompt joins the queue first, unless `begin` has put it there; only then ``prepare`` is
        awaited. When Codex has taken the message, ``show`` shows it and ``on_accepted`` is called
        once with its id. Raises RpcError if too many prompts wait, what ``prepare`` raises, and
        NothingRuns if the prompt only ``joins`` a turn and no turn takes it.
        """
        waiting = None if early is None else self._waiting.get(early.message_id)
        if waiting is None:
            waiting = self._enter(_Waiting(show, on_accepted))
            self.handle(ev.Prompted(waiting.id, joins))
        try:
            with waiting.scope:
                waiting.work = await prepare()
            if waiting.work is not None:
                self.handle(ev.Prepared(waiting.id, _kind(waiting.work)))
            return await self._result(waiting)
        finally:
            del self._waiting[waiting.id]
            self.handle(ev.Withdrawn(waiting.id))

    def begin(self, early: EarlyTurn, show: OnMessageId) -> None:
        """Follow the turn of a session's first prompt, which was asked for early; `run` awaits
        it."""
        waiting = self._enter(_Waiting(show, early.on_accepted, early.message_id))
        self._host.message_named(waiting.id)
        call = self.machine.calls + 1
        self._written[call] = early.written
        self._abandon[call] = early.abandon
        self.handle(ev.AskedEarly(waiting.id, call))
        started = lambda reply: self._start_replied(call, "turn/start", reply)  # noqa: E731
        early.when_answered(self._of_call(call, started))

    def lost(self, error: TransportError | None) -> None:
        """Note that Codex is gone, so that no turn runs any more."""
        unread = frozenset(
            call for call, written in self._written.items() if self._calls.untaken(written)
        )
        self.handle(ev.Lost(codex_gone(error), unread))
        self._abandon.clear()
        self._written.clear()

    async def settled(self) -> None:
        """Wait until no prompt is open and no turn runs; bounded behind a cancel."""
        while self._waiting or self.machine.run is not None:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled.append(changed)
            await changed

    def _enter(self, waiting: _Waiting) -> _Waiting:
        """Put a prompt at the end of the queue. Raises RpcError -32600 if too many wait."""
        if len(self._waiting) >= MAX_PROMPTS:
            message = f"{MAX_PROMPTS} prompts of this session are not answered yet; wait for one"
            raise RpcError(INVALID_REQUEST, message)
        self._waiting[waiting.id] = waiting
        return waiting

    async def _result(self, waiting: _Waiting) -> PromptOutcome:
        while True:
            told = waiting.outcome
            try:
                result = await shielded(told)
            except asyncio.CancelledError:
                await self._give_up(waiting)
                raise
            if result is not None:
                return result
            if waiting.outcome is not told:
                continue
            waiting.outcome = asyncio.get_running_loop().create_future()
            assert isinstance(waiting.work, LocalReply), "it is answered without a turn"
            waiting.scope = CancelScope()
            end: PromptEnd = DONE
            try:
                with waiting.scope:
                    await waiting.work.run()
            except CodexAcpError as error:
                end = start_refused(error)
            self.handle(ev.AnsweredLocally(waiting.id, end))

    async def _give_up(self, waiting: _Waiting) -> None:
        """Cancel one prompt (``$/cancel_request``); wait for a turn that no other prompt shares.

        Does nothing when the adapter itself ends. An interrupt would then make Codex end the shell
        of a command, and leave the processes that the shell started as orphans.
        """
        if self._host.client_gone:
            return
        self.handle(ev.GivenUp(waiting.id))
        if self.machine.find(waiting.id) is not None:
            import anyio  # not before: a prompt begins without

            with anyio.CancelScope(shield=True):
                await waiting.outcome

    @contextmanager
    def asking(self, turn_id: str | None = None) -> Iterator[None]:
        """Count a question to the person as open, in a ``with`` block; None: before a turn."""
        self._questions += 1
        question = self._questions
        self.handle(ev.Asked(question, turn_id))
        try:
            yield
        finally:
            self.handle(ev.Settled(question))

    # What Codex reports.

    def note_activity(self) -> None:
        """Note that a notification of the thread arrived: the turn is not silent."""
        self._last_activity = monotonic()

    def turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        """Note the end of a turn (``turn/completed``), also if it did not fit the schema."""
        self.handle(ev.TurnEnded(turn_id, end, self._host.has_plan))

    # Events and effects.

    def handle(self, event: ev.Event) -> None:
        """Let the machine handle an event, after all events that were queued before."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                event = self._events.popleft()
                effects = self.machine.handle(event)
                for tap in taps:
                    tap(self.machine, event, effects)
                for effect in effects:
                    try:
                        self._carry_out(effect)
                    except Exception:
                        logger.exception("%s was not carried out", type(effect).__name__)
        finally:
            self._handling = False
        if self._settled and not self._waiting and self.machine.run is None:
            settled, self._settled = self._settled, []
            for each in settled:
                if not each.done():
                    each.set_result(None)

    def _carry_out(self, effect: ev.Effect) -> None:
        if isinstance(effect, ev.CallEffect):
            self._call(effect)
        elif isinstance(effect, ev.PromptEffect):
            self._tell_prompt(effect)
        elif isinstance(effect, ev.ShownEffect):
            self._show(effect)
        elif isinstance(effect, ev.SetTimer):
            self._set_timer(effect.timer)
        else:
            self._timers.pop(effect.timer).cancel()

    def _call(self, effect: ev.CallEffect) -> None:
        match effect:
            case ev.Start(call, prompt):
                self._start(call, prompt)
            case ev.Steer(call, prompt, turn):
                self._steer(call, prompt, turn)
            case ev.Interrupt(call, turn):
                taken = lambda reply: self.handle(ev.Interrupted(call, _is_taken(reply)))  # noqa: E731
                self._post(call, "turn/interrupt", self._calls.interrupt_params(turn), taken)
            case ev.LookUp(call, turns, message):
                self._spawn_call(call, lambda: self._look_up(call, turns, message))
            case ev.StopCommands(call, items):
                self._spawn_call(call, lambda: self._stop_commands(call, items))
            case ev.AskPlan(call):
                self._host.plan_asked()
                self._spawn_call(call, lambda: self._ask_plan(call))
            case ev.TakePlan(prompt):
                self._spawn(lambda: self._take_plan(prompt))
            case ev.Abandon(call):
                self._written.pop(call, None)
                self._abandon.pop(call, _nothing)()
            case _:
                assert_never(effect)

    def _tell_prompt(self, effect: ev.PromptEffect) -> None:
        waiting = self._waiting.get(effect.prompt)
        if waiting is None:  # nobody waits for it
            return
        match effect:
            case ev.Show(message):
                waiting.show(message)
            case ev.Insert(message):
                if waiting.on_accepted is not None:
                    waiting.on_accepted(message)
            case ev.AnswerLocally():
                waiting.settle(None)
            case ev.Answer(_, end, began_turn, unread):
                usage = self._usage if began_turn else None
                waiting.settle(PromptOutcome(end, usage, unread and not waiting.takes_plan))
                waiting.scope.cancel()
            case ev.RefuseToJoin():
                message = "no turn runs that could take the message"
                waiting.settle(NothingRuns(INVALID_REQUEST, message))
            case _:
                assert_never(effect)

    def _show(self, effect: ev.ShownEffect) -> None:
        match effect:
            case ev.AskTurn():
                self._host.turn_begins()
            case ev.EndReview(approved):
                self._host.plan_reviewed(approved)
            case ev.ShowActivity(now, end, usage):
                self._host.show_activity(now, end, self._usage if usage else None)
            case ev.EndTurn():
                self._usage = None
                self._usage = self._host.turn_over(effect)
            case ev.SettleQuestions(turn):
                self._host.settle_questions(turn)
            case ev.Warn(text):
                logger.warning("%s", text)
            case _:
                assert_never(effect)

    # Calls of Codex.

    def _start(self, call: int, prompt: str) -> None:
        waiting = self._waiting[prompt]
        assert isinstance(waiting.work, TurnWork), "it runs as a turn"
        work = waiting.work
        self._host.message_named(prompt)
        self._written[call] = self._calls.written
        reply = lambda got: self._start_replied(call, work.method, got)  # noqa: E731
        self._post(call, work.method, work.params(prompt), reply)

    def _start_replied(self, call: int, method: str, reply: JsonValue | CodexAcpError) -> None:
        self._written.pop(call, None)
        turn = None if isinstance(reply, CodexAcpError) else text_at(reply, "turn", "id")
        if turn is None and method in NAMES_TURN and not isinstance(reply, CodexAcpError):
            reply = InvalidPayload(f"the result of {method}", ("turn.id: it is missing",))
        if isinstance(reply, CodexAcpError):
            self.handle(ev.Refused(call, start_refused(reply)))
        else:
            self.handle(ev.Started(call, turn))

    def _steer(self, call: int, prompt: str, turn: str) -> None:
        waiting = self._waiting[prompt]
        assert isinstance(waiting.work, TurnWork), "it runs as a turn"
        assert waiting.work.message is not None, "it can be steered"
        self._host.message_named(prompt)
        self._written[call] = self._calls.written
        params = self._calls.steer_params(turn, waiting.work.message, prompt)

        def replied(reply: JsonValue | CodexAcpError) -> None:
            self._written.pop(call, None)
            self.handle(ev.Steered(call, _is_taken(reply)))

        self._post(call, "turn/steer", params, replied)

    def _post(
        self, call: int, method: str, params: WireModel | JsonValue, on_reply: OnReply
    ) -> None:
        try:
            self._abandon[call] = self._calls.codex.post(
                method, params, self._of_call(call, on_reply)
            )
        except TransportError as error:
            self.lost(error)

    def _of_call(self, call: int, on_reply: OnReply) -> OnReply:
        """Return the callback for the reply to a call.

        If the connection ended, `lost` runs once for all calls, after everything that was read.
        """

        def replied(reply: JsonValue | CodexAcpError) -> None:
            self._abandon.pop(call, None)
            if isinstance(reply, TransportError):
                asyncio.get_running_loop().call_soon(self.lost, reply)
            else:
                on_reply(reply)

        return replied

    def _spawn_call(self, call: int, work: Callable[[], Awaitable[None]]) -> None:
        scope = CancelScope()
        self._abandon[call] = scope.cancel

        async def run() -> None:
            with scope:
                await work()
            self._abandon.pop(call, None)

        self._spawn(run)

    async def _look_up(self, call: int, turns: tuple[str, ...], message: str | None) -> None:
        try:
            turn, ours = await self._calls.look_up(turns, message)
        except TransportError:
            return  # Codex is gone: that ends the prompt by itself
        except CodexAcpError as error:
            problem = f"Codex says nothing of the turn any more: {error}"
            self.handle(ev.LookedUp(call, None, problem=problem))
            return
        if turn is None:
            self.handle(ev.LookedUp(call, None))
        else:
            end = None if turn.status == "inProgress" else end_of_turn(turn, None)
            self.handle(ev.LookedUp(call, turn.id, end, ours, self._host.has_plan))

    async def _stop_commands(self, call: int, items: frozenset[str]) -> None:
        """End the commands that an interrupt left running; tell the person which ones could not
        be."""
        ended: list[str] = []
        try:
            ended, left = await self._calls.end_commands(items)
            for terminal in left:
                self._host.say(f"Still running in the background: {terminal.command}")
        except CodexAcpError as error:
            logger.warning("the commands of a turn could not be ended: %s", error)
            self._host.say("A command of this turn may still run in the background.")
        self.handle(ev.CommandsStopped(call, frozenset(ended)))

    async def _ask_plan(self, call: int) -> None:
        approved = False
        try:
            approved = await self._host.plan_approved()
        finally:
            self.handle(ev.PlanAnswered(call, approved))

    async def _take_plan(self, prompt: str) -> None:
        work, failure = None, PromptFailure(INTERNAL_ERROR, "the plan was not carried out", {})
        try:
            work = await self._host.take_plan()
        except CodexAcpError as error:
            failure = start_refused(error)
        finally:
            if work is None:
                self.handle(ev.PlanFailed(prompt, failure))
        if work is None:
            return
        waiting = self._waiting.pop(prompt, None)
        if waiting is not None:
            waiting.id, waiting.work, waiting.takes_plan = uuid4().hex, work, True
            waiting.show, waiting.on_accepted = self._host.plan_shown, None
            self._waiting[waiting.id] = waiting
            self.handle(ev.PlanTaken(prompt, waiting.id, _kind(work)))

    # Timers.

    def _set_timer(self, timer: ev.Timer, seconds: float | None = None) -> None:
        old = self._timers.pop(timer, None)
        if old is not None:
            old.cancel()
        if timer == "silence" and seconds is None:
            self.note_activity()
        delay: float = getattr(self._timings, timer) if seconds is None else seconds
        self._timers[timer] = asyncio.get_running_loop().call_later(delay, self._due, timer)

    def _due(self, timer: ev.Timer) -> None:
        if timer == "silence":
            left = self._last_activity + self._timings.silence - monotonic()
            if left > 0:
                self._set_timer(timer, left)
                return
        del self._timers[timer]
        self.handle(ev.Due(timer, self._calls.asks_person))


NAMES_TURN: Final = frozenset({"turn/start", "review/start"})
"""Methods whose answer names the turn that they begin."""


def _kind(work: TurnWork | LocalReply) -> ev.Kind:
    if isinstance(work, LocalReply):
        return "local"
    return "turn" if work.message is None else "message"


def _is_taken(reply: JsonValue | CodexAcpError) -> bool:
    if isinstance(reply, CodexAcpError):
        logger.info("Codex refused a call of a turn: %s", reply)
    return not isinstance(reply, CodexAcpError)


def _nothing() -> None:
    """Do nothing: the call was answered."""
