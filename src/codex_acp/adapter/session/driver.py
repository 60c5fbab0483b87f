"""Drive the machine of a session: make events of messages and timers, and carry out its effects.

An event that an effect causes at once (a call fails because the connection is closed) waits in a
queue until the other effects are carried out. Not thread-safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, assert_never
from uuid import uuid4

from codex_acp._json import text_at
from codex_acp._record import NamedTuple
from codex_acp.adapter.prompts.turn_calls import TurnCalls, codex_gone, start_refused
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.machine import DONE, SessionMachine
from codex_acp.adapter.session.states import Reviews
from codex_acp.adapter.tasks import CancelScope
from codex_acp.errors import CodexAcpError, InvalidPayload, RpcError, TransportError
from codex_acp.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, JsonValue
from codex_acp.mapping.events import PromptEnd, PromptFailure, PromptStop
from codex_acp.mapping.session import end_of_turn
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from codex_acp.adapter.prompts.early_turn import EarlyTurn
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex._generated.models import UserInput
    from codex_acp.mapping.events import Activity
    from codex_acp.wire.model import WireModel

    Tap: TypeAlias = Callable[[SessionMachine, ev.Event, list[ev.Effect]], None]
    OnMessageId: TypeAlias = Callable[[str], None]
    """Called with the id of a message."""
    OnReply: TypeAlias = Callable[[JsonValue | CodexAcpError], None]
    """Called with the result of a call, or its error."""

logger = logging.getLogger(__name__)

MAX_PROMPTS: Final = 32
"""Unanswered prompts that one session accepts: more than a person types while a turn runs."""

_TURN_NAMING_METHODS: Final = frozenset({"turn/start", "review/start"})
"""Methods whose answer names the turn that they begin."""

taps: Final[list[Tap]] = []
"""Called with each event of every session of this process, before its effects are carried out."""


class Timings(NamedTuple):
    """Seconds that each timer of a session runs."""

    cancel: float = 10.0
    """From a cancel to the answers of the prompts, even if the turn has not ended."""
    clean_up: float = 3.0
    """For Codex to end the commands of an interrupted turn: far below ``cancel``."""
    free: float = 2.0
    """For a stale turn to end before the next turn begins."""
    answer: float = 5.0
    """From ``turn/started`` to the reply that names the turn: usually both arrive together."""
    silence: float = 60.0
    """Without a notification of the thread, before Codex is asked; models think for a minute."""
    stopped: float = 2.0
    """From Codex's report of an idle thread to the end of the turn: usually both come together."""
    look_up: float = 10.0
    """For the answer about a turn: usually it takes milliseconds."""
    steer: float = 10.0
    """For the reply to ``turn/steer``, usually immediate."""


TIMINGS: Final = Timings()


class TurnWork(NamedTuple):
    """The call that begins a turn for a prompt."""

    method: str
    params: Callable[[str], WireModel | JsonValue]
    """Makes the params of the call; the argument is the message's id."""
    message: list[UserInput] | None
    """The content with which the prompt can steer a running turn; None: it needs its own turn."""


class LocalReply(NamedTuple):
    """The work of a prompt that the adapter answers itself, without a turn."""

    run: Callable[[], Awaitable[str]]
    show: Callable[[str], None]
    """Shows the text of ``run``, unless it is empty."""


class PromptUnread(RpcError):
    """Failure of a prompt that had no effect: the prompt may be run again."""


class NothingRuns(RpcError):
    """Failure of a message for a running turn, because no turn could take it."""


class PromptOutcome(NamedTuple):
    """The end of a prompt for `Session`: its stop reason or failure, and its token usage."""

    end: PromptEnd
    usage: dict[str, JsonValue] | None = None
    """Tokens of the turn that the prompt began; None for a prompt that steered a turn."""
    unread: bool = False
    """Whether the prompt failed because Codex ended before it read the prompt."""


class PromptResult(NamedTuple):
    """The end of a prompt for the client, if it did not fail: stop reason and token usage."""

    stop: PromptStop
    usage: dict[str, JsonValue] | None = None
    """Tokens of the turn that the prompt began."""


class PromptHost(Protocol):
    """The driver's session: `Session`, which has the docstrings."""

    @property
    def client_gone(self) -> bool: ...
    def note_message_id(self, message_id: str) -> None: ...
    def settle_questions(self, turn_id: str | None) -> None: ...
    def prepare_turn(self) -> None: ...
    @property
    def has_plan(self) -> bool: ...
    def show_plan_question(self) -> None: ...
    async def ask_about_plan(self) -> bool: ...
    def end_plan_question(self, approved: bool | None) -> None: ...
    def end_plan(self, begun: bool | None) -> None: ...
    async def plan_work(self) -> TurnWork: ...
    def show_plan_prompt(self, message_id: str) -> None: ...
    def show_activity(
        self, now: Activity, end: PromptEnd | None, usage: dict[str, JsonValue] | None
    ) -> None: ...
    def end_turn(self, effect: ev.EndTurn) -> dict[str, JsonValue] | None: ...
    def say(self, text: str) -> None: ...


class _PendingPrompt:
    """A prompt that is not answered yet."""

    def __init__(
        self, show: OnMessageId, on_accepted: OnMessageId | None = None, message_id: str = ""
    ) -> None:
        self.id = message_id or uuid4().hex
        """The id of the prompt and of its message to Codex."""
        self.work: TurnWork | LocalReply | None = None
        self.scope = CancelScope()
        """Around the preparation of the prompt, or the command that answers it."""
        self.show = show
        """Shows the message of the prompt to the client."""
        self.on_accepted = on_accepted
        self.takes_plan = False
        """Whether the prompt carries out a plan in a second turn: never run it again."""
        self.outcome: asyncio.Future[PromptOutcome | None] = _new_future()
        """End of the prompt; None: the machine lets `_wait_for_outcome` run the `LocalReply`."""

    def settle(self, outcome: PromptOutcome | Exception | None) -> None:
        """Set the outcome, unless the prompt has ended."""
        if self.outcome.done():
            if self.outcome.exception() is not None or self.outcome.result() is not None:
                return
            # The prompt ends before `_wait_for_outcome` has run its `LocalReply`.
            self.outcome = _new_future()
        if isinstance(outcome, Exception):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class SessionDriver:
    """Runs the prompts of one session; ``spawn`` starts a task that may outlive the request."""

    def __init__(
        self, calls: TurnCalls, host: PromptHost, spawn: Spawn, timings: Timings | None = None
    ) -> None:
        self._calls = calls
        self._host = host
        self._spawn = spawn
        self._timings = timings or TIMINGS
        self.machine: SessionMachine = SessionMachine()
        self._pending: dict[str, _PendingPrompt] = {}
        self._stop_waiting: dict[int, Callable[[], None]] = {}
        """Number of a call → the function that stops waiting for its reply."""
        self._written_before: dict[int, int | None] = {}
        """Number of a call that begins or steers a turn → bytes sent to Codex before it."""
        self._timers: dict[ev.Timer, asyncio.TimerHandle] = {}
        self._last_activity = 0.0
        """Time of the thread's last notification, by the monotonic clock."""
        self._events: deque[ev.Event] = deque()
        self._handling = False
        self._last_question = 0
        """Number of the last question to the person."""
        self._usage: dict[str, JsonValue] | None = None
        """Tokens of the turn that ended last."""
        self._idle = asyncio.Event()
        """Set for a moment when no prompt is open and no turn runs."""

    # State.

    @property
    def busy(self) -> bool:
        """Return whether a prompt is not answered yet."""
        return bool(self._pending)

    @property
    def running(self) -> bool:
        """Return whether a turn runs that a prompt began."""
        run = self.machine.run
        return run is not None and run.starter is not None

    @property
    def turn(self) -> object | None:
        """Return a value that identifies the running turn from beginning to end; None: no turn.
        A turn that Codex began by itself (`active`) and the review of a plan count as turns, too.
        """
        run = self.machine.run
        return run.number if run is not None else self.machine.active or self.reviewing

    @property
    def reviewing(self) -> str | None:
        """Return the id of the prompt whose plan waits for the person, or is to be carried out."""
        ids = (prompt.id for prompt in self.machine.prompts if isinstance(prompt.place, Reviews))
        return next(ids, None)

    @property
    def turn_ids(self) -> frozenset[str]:
        """Return the known ids of the running turn and of its inner turns."""
        run, active = self.machine.run, self.machine.active
        names = () if run is None else run.names
        return frozenset(names if active is None else (active, *names))

    def has_begun(self, early: EarlyTurn | None) -> bool:
        """Return whether `begin` put this prompt into the queue, and it is not answered yet."""
        return early is not None and early.message_id in self._pending

    # Requests of the client.

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

        The prompt joins the queue, unless `begin` has put it there; then ``prepare`` reads its
        content. When Codex has taken the message, the driver calls ``show`` and, once,
        ``on_accepted`` with the message's id. Raises RpcError if too many prompts wait, what
        ``prepare`` raises, and with ``joins`` NothingRuns if no running turn takes the prompt.
        """
        pending = None if early is None else self._pending.get(early.message_id)
        if pending is None:
            pending = self._enter(_PendingPrompt(show, on_accepted))
            self.handle(ev.Prompted(pending.id, joins))
        try:
            with pending.scope:
                pending.work = await prepare()
            if pending.work is not None:  # None: the scope was cancelled with the prompt's answer
                self.handle(ev.Prepared(pending.id, _kind(pending.work)))
            return await self._wait_for_outcome(pending)
        finally:
            del self._pending[pending.id]
            self.handle(ev.Withdrawn(pending.id))

    def begin(self, early: EarlyTurn, show: OnMessageId) -> None:
        """Queue a first prompt whose ``turn/start`` was sent early; `run` awaits its end."""
        pending = self._enter(_PendingPrompt(show, early.on_accepted, early.message_id))
        self._host.note_message_id(pending.id)
        call = self.machine.calls + 1
        self._written_before[call] = early.written
        self._stop_waiting[call] = early.abandon
        self.handle(ev.AskedEarly(pending.id, call))
        on_reply = partial(self._turn_start_replied, call, "turn/start")
        early.when_answered(partial(self._replied, call, on_reply))

    def note_lost(self, error: TransportError | None) -> None:
        """Note that the connection to Codex ended, and with it every turn."""
        unread = frozenset(
            call
            for call, written in self._written_before.items()
            if self._calls.surely_unread(written)
        )
        self.handle(ev.Lost(codex_gone(error), unread))
        self._stop_waiting.clear()
        self._written_before.clear()

    async def wait_idle(self) -> None:
        """Wait until no prompt is open and no turn runs. After a cancel, timers bound the wait."""
        while self._pending or self.machine.run is not None:
            await self._idle.wait()

    def _enter(self, pending: _PendingPrompt) -> _PendingPrompt:
        """Put a prompt at the end of the queue. Raises RpcError -32600 if too many wait."""
        if len(self._pending) >= MAX_PROMPTS:
            message = f"{MAX_PROMPTS} prompts of this session are not answered yet; wait for one"
            raise RpcError(INVALID_REQUEST, message)
        self._pending[pending.id] = pending
        return pending

    async def _wait_for_outcome(self, pending: _PendingPrompt) -> PromptOutcome:
        while True:
            outcome = pending.outcome
            try:
                result = await shielded(outcome)
            except asyncio.CancelledError:
                await self._give_up(pending)
                raise
            if result is not None:
                return result
            if pending.outcome is not outcome:  # `settle` has replaced it
                continue
            pending.outcome = _new_future()
            assert isinstance(pending.work, LocalReply), "only a LocalReply settles with None"
            pending.scope = CancelScope()
            end: PromptEnd = DONE
            try:
                with pending.scope as scope:
                    text = await pending.work.run()
                    if text and not scope.cancel_called:  # may come with Codex's reply
                        pending.work.show(text)
            except CodexAcpError as error:
                end = start_refused(error)
            self.handle(ev.AnsweredLocally(pending.id, end))

    async def _give_up(self, pending: _PendingPrompt) -> None:
        """Cancel one prompt (``$/cancel_request``); wait for its turn if no other prompt shares it.

        No effect when the adapter itself ends: an interrupt would then make Codex end the shell of
        a command, and leave the processes that the shell started as orphans.
        """
        if self._host.client_gone:
            return
        self.handle(ev.GivenUp(pending.id))
        if self.machine.find(pending.id) is not None:
            import anyio  # late: a prompt must begin without loading anyio

            with anyio.CancelScope(shield=True):
                await pending.outcome

    @contextmanager
    def asking(self, turn_id: str | None = None) -> Iterator[None]:
        """Count a question as open in a ``with`` block; no ``turn_id``: it comes before a turn."""
        self._last_question += 1
        question = self._last_question
        self.handle(ev.Asked(question, turn_id))
        try:
            yield
        finally:
            self.handle(ev.Settled(question))

    # Notifications of Codex.

    def note_activity(self) -> None:
        """Note that a notification of the thread arrived: the turn is not silent."""
        self._last_activity = monotonic()

    def turn_ended(self, turn_id: str, end: PromptEnd) -> None:
        """Note the end of a turn, by a ``turn/completed`` that may not have fitted the schema."""
        self.handle(ev.TurnEnded(turn_id, end, self._host.has_plan))

    # Events and effects.

    def handle(self, event: ev.Event) -> None:
        """Let the machine handle an event, after all events of the queue; carry out the effects."""
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
        if not self._pending and self.machine.run is None:
            self._idle.set()
            self._idle.clear()

    def _carry_out(self, effect: ev.Effect) -> None:
        if isinstance(effect, ev.CallEffect):
            self._carry_out_call(effect)
        elif isinstance(effect, ev.PromptEffect):
            self._update_prompt(effect)
        elif isinstance(effect, ev.ShownEffect):
            self._show_effect(effect)
        elif isinstance(effect, ev.SetTimer):
            self._set_timer(effect.timer)
        else:
            self._timers.pop(effect.timer).cancel()

    def _carry_out_call(self, effect: ev.CallEffect) -> None:
        match effect:
            case ev.Start(call, prompt):
                work = self._work_to_send(call, prompt)
                on_reply = partial(self._turn_start_replied, call, work.method)
                self._post(call, work.method, work.params(prompt), on_reply)
            case ev.Steer(call, prompt, turn):
                message = self._work_to_send(call, prompt).message
                assert message is not None, "only a message is steered"
                steer = self._calls.steer_params(turn, message, prompt)
                self._post(call, "turn/steer", steer, partial(self._report_reply, call, ev.Steered))
            case ev.Interrupt(call, turn):
                params = self._calls.interrupt_params(turn)
                report = partial(self._report_reply, call, ev.Interrupted)
                self._post(call, "turn/interrupt", params, report)
            case ev.LookUp(call, turns, message_id):
                self._spawn_call(call, lambda: self._look_up(call, turns, message_id))
            case ev.StopCommands(call, items):
                self._spawn_call(call, lambda: self._stop_commands(call, items))
            case ev.AskPlan(call):
                self._host.show_plan_question()
                self._spawn_call(call, lambda: self._ask_plan(call))
            case ev.TakePlan(call, prompt):
                self._spawn_call(call, lambda: self._prepare_plan(prompt))
            case ev.Abandon(call):
                self._written_before.pop(call, None)
                if call in self._stop_waiting:  # the reply has not come
                    self._stop_waiting.pop(call)()
            case _:
                assert_never(effect)

    def _update_prompt(self, effect: ev.PromptEffect) -> None:
        pending = self._pending.get(effect.prompt)
        if pending is None:  # the client no longer waits for this prompt
            return
        match effect:
            case ev.Show(message):
                pending.show(message)
            case ev.Insert(message):
                if pending.on_accepted is not None:
                    pending.on_accepted(message)
            case ev.AnswerLocally():
                pending.settle(None)
            case ev.Answer(_, end, began_turn, unread):
                usage = self._usage if began_turn else None
                pending.settle(PromptOutcome(end, usage, unread and not pending.takes_plan))
                pending.scope.cancel()
            case ev.RefuseToJoin():
                message = "no turn runs that could take the message"
                pending.settle(NothingRuns(INVALID_REQUEST, message))
            case _:
                assert_never(effect)

    def _show_effect(self, effect: ev.ShownEffect) -> None:
        match effect:
            case ev.AskTurn():
                self._host.prepare_turn()
            case ev.EndReview(approved):
                self._host.end_plan_question(approved)
            case ev.EndPlan(begun):
                self._host.end_plan(begun)
            case ev.ShowActivity(now, end, shows_usage):
                self._host.show_activity(now, end, self._usage if shows_usage else None)
            case ev.EndTurn():
                self._usage = None  # stays None if `end_turn` raises
                self._usage = self._host.end_turn(effect)
            case ev.SettleQuestions(turn):
                self._host.settle_questions(turn)
            case ev.Warn(text):
                logger.warning("%s", text)
            case _:
                assert_never(effect)

    # Calls of Codex.

    def _work_to_send(self, call: int, prompt: str) -> TurnWork:
        """Return the work of a prompt, whose message ``call`` sends now."""
        work = self._pending[prompt].work
        assert isinstance(work, TurnWork), "only a TurnWork begins or steers a turn"
        self._host.note_message_id(prompt)
        self._written_before[call] = self._calls.written
        return work

    def _turn_start_replied(self, call: int, method: str, reply: JsonValue | CodexAcpError) -> None:
        if not isinstance(reply, CodexAcpError):
            turn = text_at(reply, "turn", "id")
            if turn is not None or method not in _TURN_NAMING_METHODS:
                self.handle(ev.Started(call, turn))
                return
            reply = InvalidPayload(f"the result of {method}", ("turn.id: it is missing",))
        self.handle(ev.Refused(call, start_refused(reply)))

    def _report_reply(
        self, call: int, event: type[ev.Steered | ev.Interrupted], reply: JsonValue | CodexAcpError
    ) -> None:
        if isinstance(reply, CodexAcpError):
            logger.info("Codex refused a call of a turn: %s", reply)
        self.handle(event(call, taken=not isinstance(reply, CodexAcpError)))

    def _post(
        self, call: int, method: str, params: WireModel | JsonValue, on_reply: OnReply
    ) -> None:
        replied = partial(self._replied, call, on_reply)
        try:
            self._stop_waiting[call] = self._calls.codex.post(method, params, replied)
        except TransportError as error:
            self.note_lost(error)
        except CodexAcpError as error:  # the call cannot be sent: a text is not Unicode
            replied(error)

    def _replied(self, call: int, on_reply: OnReply, reply: JsonValue | CodexAcpError) -> None:
        """Pass the reply to ``on_reply``. If the connection ended, `note_lost` runs instead, after
        everything that was read is handled."""
        self._stop_waiting.pop(call, None)
        if isinstance(reply, TransportError):
            asyncio.get_running_loop().call_soon(self.note_lost, reply)
        else:
            self._written_before.pop(call, None)
            on_reply(reply)

    def _spawn_call(self, call: int, work: Callable[[], Awaitable[None]]) -> None:
        scope = CancelScope()
        self._stop_waiting[call] = scope.cancel

        async def run() -> None:
            with scope:
                await work()
            self._stop_waiting.pop(call, None)

        self._spawn(run)

    async def _look_up(self, call: int, turns: tuple[str, ...], message: str | None) -> None:
        try:
            turn, ours = await self._calls.look_up(turns, message)
        except TransportError:
            return  # `note_lost` ends the prompt
        except CodexAcpError as error:
            problem = f"Codex says nothing of the turn any more: {error}"
            event = ev.LookedUp(call, None, problem=problem)
        else:
            event = ev.LookedUp(call, None)
            if turn is not None:
                end = None if turn.status == "inProgress" else end_of_turn(turn, None)
                event = ev.LookedUp(call, turn.id, end, ours, self._host.has_plan)
        self.handle(event)

    async def _stop_commands(self, call: int, items: frozenset[str]) -> None:
        """End the commands that an interrupt left running; show the person those that still run."""
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
            approved = await self._host.ask_about_plan()
        finally:
            self.handle(ev.PlanAnswered(call, approved))

    async def _prepare_plan(self, prompt: str) -> None:
        try:
            work = await self._host.plan_work()
        except CodexAcpError as error:
            self.handle(ev.PlanFailed(prompt, start_refused(error)))
            return
        except BaseException:
            failure = PromptFailure(INTERNAL_ERROR, "the plan was not carried out", {})
            self.handle(ev.PlanFailed(prompt, failure))
            raise
        pending = self._pending.pop(prompt, None)
        if pending is not None:
            pending.id, pending.work, pending.takes_plan = uuid4().hex, work, True
            pending.show, pending.on_accepted = self._host.show_plan_prompt, None  # as a new prompt
            self._pending[pending.id] = pending
            self.handle(ev.PlanTaken(prompt, pending.id, _kind(work)))

    # Timers.

    def _set_timer(self, timer: ev.Timer, seconds: float | None = None) -> None:
        """Start or restart a timer; ``seconds``: the rest of ``silence`` after a notification."""
        old = self._timers.pop(timer, None)
        if old is not None:
            old.cancel()
        if timer == "silence" and seconds is None:
            self.note_activity()
        delay: float = getattr(self._timings, timer) if seconds is None else seconds
        self._timers[timer] = asyncio.get_running_loop().call_later(delay, self._timer_due, timer)

    def _timer_due(self, timer: ev.Timer) -> None:
        """Report that a timer ran out. A notification makes ``silence`` begin again."""
        if timer == "silence":
            left = self._last_activity + self._timings.silence - monotonic()
            if left > 0:
                self._set_timer(timer, left)
                return
        del self._timers[timer]
        self.handle(ev.Due(timer, self._calls.asks_person))


def _new_future() -> asyncio.Future[PromptOutcome | None]:
    return asyncio.get_running_loop().create_future()


def _kind(work: TurnWork | LocalReply) -> ev.Kind:
    if isinstance(work, LocalReply):
        return "local"
    return "turn" if work.message is None else "message"
