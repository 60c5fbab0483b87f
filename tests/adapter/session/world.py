"""The world around a session's machine: a client, a Codex and a clock, in any order.

A world is a value: what may still happen, what has happened, and what may never be (`Wrong`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, cast

from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.driver import TIMINGS
from codex_acp.adapter.session.machine import CANCELLED, DONE, SessionMachine
from codex_acp.adapter.session.states import Cancelling, InTurn, Running
from codex_acp.mapping.events import Activity, PromptFailure

BOUND_SECONDS: Final = 15.0
"""For a prompt to be answered behind a cancel, whatever Codex does."""

NOTHING: Final = cast("dict[str, object]", ())
"""No data, and a state with it can be kept in a set."""

FAILED: Final = PromptFailure(-32603, "it failed", NOTHING)
GONE: Final = PromptFailure(-32603, "Codex is gone", NOTHING)


class Wrong(AssertionError):
    """Something that must not be in any order of events."""


class Budget(NamedTuple):
    """How often each kind of thing may happen in one exploration."""

    prompts: int = 2
    cancels: int = 1
    give_ups: int = 0
    losses: int = 0
    questions: int = 0
    pieces: int = 1
    refusals: int = 0
    own_turns: int = 0
    inner_turns: int = 0
    reviews: int = 0
    locals: int = 0
    commands: int = 0
    silences: int = 0
    stops: int = 0
    mute: int = 0
    """1 for a Codex that does not tell which messages it has read."""
    early: int = 0
    """1 for a first prompt whose turn is asked for before there is a machine."""
    compactions: int = 0
    """Calls whose answers do not name the turn that they begin."""
    disorder: int = 0
    """1 for contents of prompts that are read in any order, not as they came."""
    deaf: int = 0
    """Interrupts of a turn that runs which Codex refuses, as one whose thread is being closed."""
    idles: int = 0
    """Times that Codex says that the thread is idle before it says that the turn has ended."""
    late_begins: int = 0
    """Turns of which it is said behind their ends that they begin."""
    plans: int = 0
    """Turns that propose a plan which the person is asked about."""
    closes: int = 0
    """Times that the client closes the session; it may give that up."""
    firsts: int = 0
    """Questions that are asked before a turn, while the content of a prompt is read."""
    joins: int = 0
    """Prompts that are for a running turn alone."""
    modes: int = 0
    """Changes of the session's mode."""


class World(NamedTuple):
    """One state of all that is around the machine."""

    left: Budget
    # Codex.
    alive: bool = True
    wire: tuple[ev.Effect, ...] = ()
    """Calls that Codex has not taken up."""
    running: str | None = None
    inner: str | None = None
    said: bool = False
    """Whether ``turn/started`` was said of what runs."""
    unread: tuple[str, ...] = ()
    """Messages that Codex has taken and not read into its turn."""
    steers: tuple[tuple[int, str], ...] = ()
    """Calls among these that have added a message to a turn."""
    replies: tuple[tuple[int, str], ...] = ()
    """Calls that were taken up, with the turn that their replies name."""
    interrupted: bool = False
    runs_command: bool = False
    compacts: bool = False
    """Whether what runs compacts the thread, and that was not said."""
    turns: int = 0
    ended: tuple[str, ...] = ()
    silent: bool = False
    """Whether Codex has not said something that it should."""
    dead: frozenset[str] = frozenset()
    """Turns of a Codex that is gone: nothing comes of them."""
    ended_how: tuple[tuple[str, bool], ...] = ()
    """Each turn that has ended, and whether by an interrupt."""
    # The client.
    sent: int = 0
    kinds: tuple[tuple[str, ev.Kind], ...] = ()
    unprepared: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    speaking: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    """Prompts that were open when the client cancelled, or that it gave up."""
    # What is true, whoever knows it.
    belongs: tuple[tuple[str, str], ...] = ()
    """Messages with the turn into which Codex took them."""
    written: frozenset[str] = frozenset()
    """Messages that a Codex which is gone may have read, though nobody knows."""
    named: frozenset[str] = frozenset()
    """Turns whose names the machine has been told."""
    interrupts: frozenset[str] = frozenset()
    """Turns that were to be interrupted."""
    inserted: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    """Turns all of whose prompts are answered."""
    abandoned: frozenset[int] = frozenset()
    told: Activity = "idle"
    asked: tuple[tuple[int, str | None], ...] = ()
    """Questions that are open, each with its turn; None: before one."""
    closing: bool = False
    """Whether the client closes the session, which takes no prompt meanwhile."""
    questions: int = 0
    outdated: str | None = None
    """The turn that ran when the mode was changed: it keeps its rights."""
    # The plan.
    reviews: tuple[int, str] | None = None
    """The question that is open, and the prompt that waits for it."""
    late: int | None = None
    """A question that was withdrawn, and whose answer may be on its way."""
    yes: bool = False
    """Whether the person has said so last, of what was asked, and not cancelled it."""
    leaving: str | None = None
    """The prompt whose plan was approved, while its message is prepared."""
    card: bool = False
    """Whether the tool call of a plan is open."""


Move: TypeAlias = tuple[str, "ev.Event | None", World]
"""A name, what the machine is told, and the world behind the move but before its effects."""


def _less(world: World, kind: str) -> Budget:
    return world.left._replace(**{kind: getattr(world.left, kind) - 1})


def moves(world: World, machine: SessionMachine) -> Iterator[Move]:
    """Give all that can happen next."""
    yield from _of_client(world)
    for timer in sorted(machine.timers):
        if timer != "silence":
            yield f"timer {timer}", ev.Due(timer), world
        elif world.left.silences:
            yield "timer silence", ev.Due(timer), world._replace(left=_less(world, "silences"))
    if not world.alive:
        yield "moved to another Codex", ev.Moved(), world._replace(alive=True)
        return
    if world.left.losses:
        yield from _losses(world)
    yield from _calls(world)
    yield from _turns(world)
    yield from _questions(world, machine)


def _of_client(w: World) -> Iterator[Move]:
    if w.left.early and w.left.prompts and not w.sent:
        yield "early p1", ev.AskedEarly("p1", 1), w._replace(
            left=_less(w, "early")._replace(prompts=w.left.prompts - 1), sent=1,
            open=w.open | {"p1"}, kinds=(("p1", "message"),), wire=(ev.Start(1, "p1"),),
        )  # fmt: skip
    yield from _prompts(w)
    for name in sorted(w.speaking & w.open):
        yield f"{name} is answered locally", ev.AnsweredLocally(name, DONE), w
    if w.left.cancels and (w.open or w.running):
        left = _less(w, "cancels")
        after = w._replace(left=left, cancelled=w.cancelled | w.open, yes=False)
        yield "cancel", ev.Cancelled(), after
    if w.left.modes:
        after = w._replace(left=_less(w, "modes"), outdated=w.running if w.said else None)
        yield "another mode", ev.RightsChanged(), after
    yield from _of_close(w)
    yield from _of_plan(w)
    if w.left.give_ups:
        for name in sorted(w.open - w.given_up):
            yield f"gives up {name}", ev.GivenUp(name), w._replace(
                left=_less(w, "give_ups"), given_up=w.given_up | {name},
                cancelled=w.cancelled | {name},
            )  # fmt: skip


def _prompts(w: World) -> Iterator[Move]:
    if w.left.prompts and not w.closing:
        name = f"p{w.sent + 1}"
        kinds: list[tuple[ev.Kind, Budget]] = [("message", _less(w, "prompts"))]
        if w.left.reviews:
            kinds.append(("turn", _less(w, "prompts")._replace(reviews=w.left.reviews - 1)))
        if w.left.locals:
            kinds.append(("local", _less(w, "prompts")._replace(locals=w.left.locals - 1)))
        for kind, left in kinds:
            after = w._replace(
                left=left, sent=w.sent + 1, open=w.open | {name}, kinds=(*w.kinds, (name, kind)),
                unprepared=w.unprepared | {name},
            )  # fmt: skip
            yield f"{kind} {name}", ev.Prompted(name), after
            if w.left.joins and kind == "message":
                joining = after._replace(left=left._replace(joins=w.left.joins - 1))
                yield f"joining {name}", ev.Prompted(name, joins=True), joining
    for name in sorted(w.unprepared & w.open):
        kind = dict(w.kinds)[name]
        yield (
            f"{name} is prepared",
            ev.Prepared(name, kind),
            w._replace(unprepared=w.unprepared - {name}),
        )
        if not w.left.disorder:
            break


def _of_close(w: World) -> Iterator[Move]:
    if w.left.closes and not w.closing:
        left = _less(w, "closes")
        after = w._replace(left=left, cancelled=w.cancelled | w.open, yes=False, closing=True)
        yield "close", ev.Cancelled(closing=True), after
    if w.closing:
        yield "gives up its close", ev.Reopened(), w._replace(closing=False)
    if w.left.firsts and w.unprepared & w.open and w.alive:
        number = w.questions + 1
        asked = (*w.asked, (number, None))
        after = w._replace(left=_less(w, "firsts"), questions=number, asked=asked)
        yield "asks first", ev.Asked(number), after


def _of_plan(w: World) -> Iterator[Move]:
    if w.reviews is not None:
        call, _ = w.reviews
        yield "yes to the plan", ev.PlanAnswered(call, approved=True), w._replace(yes=True)
        yield "no to the plan", ev.PlanAnswered(call, approved=False), w
    if w.late is not None:
        yield "late yes to the plan", ev.PlanAnswered(w.late, approved=True), w._replace(late=None)
    if w.leaving is not None:
        name, message, after = w.leaving, f"{w.leaving}'", w._replace(leaving=None)
        if name in w.open:
            taken = after._replace(
                open=w.open - {name} | {message}, kinds=(*w.kinds, (message, "message"))
            )
        else:
            taken = after
        yield f"the plan of {name} is prepared", ev.PlanTaken(name, message, "message"), taken
        if w.left.refusals:
            failed = after._replace(left=_less(w, "refusals"))
            yield f"the plan of {name} is refused", ev.PlanFailed(name, FAILED), failed


def _losses(w: World) -> Iterator[Move]:
    after = w._replace(
        left=_less(w, "losses"), alive=False, wire=(), running=None, inner=None, said=False,
        unread=(), replies=(), interrupted=False, runs_command=False,
        ended=(*w.ended, *([w.running] if w.running else [])),
        dead=frozenset([*w.ended, *([w.running] if w.running else [])]),
    )  # fmt: skip
    waiting = [each for each in w.wire if isinstance(each, ev.Start | ev.Steer)]
    reads = {
        each.prompt
        for each in waiting
        if isinstance(each, ev.Start) or each.turn in (w.running, w.inner)
    }
    written = w.written | reads
    yield "lost", ev.Lost(GONE), after._replace(written=written)
    if waiting:
        unread = frozenset(each.call for each in waiting)
        yield "lost, and it had read nothing more", ev.Lost(GONE, unread), after


def _questions(w: World, machine: SessionMachine) -> Iterator[Move]:
    """Codex asks, also late; and the person answers."""
    begun = w.running if w.said else None
    for turn in dict.fromkeys((begun, w.inner, *w.ended[-1:])) if w.left.questions else ():
        if turn is None or turn in w.dead:
            continue
        after = w._replace(left=_less(w, "questions"), questions=w.questions + 1)
        if machine.may_ask(turn):
            asked = after._replace(asked=(*w.asked, (after.questions, turn)))
            yield f"{turn} asks", ev.Asked(after.questions, turn), asked
        else:
            yield f"({turn} asks, and is declined)", None, after
    for each in w.asked:
        rest = w._replace(asked=tuple(other for other in w.asked if other != each))
        yield f"question {each[0]} is answered", ev.Settled(each[0]), rest


def _calls(w: World) -> Iterator[Move]:
    messages = [call for call in w.wire if isinstance(call, ev.Start | ev.Steer)]
    for index, call in enumerate(w.wire):
        # Of a Codex that reports no reads, only the order of its turns shows whose they are.
        if w.left.mute and call in messages[1:]:
            continue
        after = w._replace(wire=w.wire[:index] + w.wire[index + 1 :])
        match call:
            case ev.Start(number, prompt):
                yield from _taken_start(w, after, number, prompt)
            case ev.Steer(number, prompt, turn):
                yield from _taken_steer(w, after, number, prompt, turn)
            case ev.Interrupt(number, turn):
                yield from _interrupt(w, after, number, turn)
            case ev.LookUp(number, turns, message):
                yield _looked_up(w, after, number, turns, message)
            case ev.StopCommands(number, items):
                yield "commands stopped", ev.CommandsStopped(number, items), after
            case _:
                raise AssertionError(call)
    for index, (number, turn) in enumerate(w.replies):
        after = w._replace(replies=w.replies[:index] + w.replies[index + 1 :])
        if number in w.abandoned:
            continue
        unnamed = w.left.compactions and turn == w.running and not w.said
        if unnamed and _kind_of(w, turn) == "turn":
            left = _less(w, "compactions")
            after_it = after._replace(left=left, compacts=True)
            yield f"answers call {number}, of {turn}", ev.Started(number, None), after_it
        yield (
            f"answers call {number} with {turn}",
            _answer_to(w, number, turn),
            after._replace(named=w.named | {turn}),
        )


def _interrupt(w: World, after: World, number: int, turn: str) -> Iterator[Move]:
    """Codex never answers the interrupt of a turn that has ended."""
    refused = ev.Interrupted(number, taken=False)
    if turn in (w.running, w.inner) and w.said:
        taken = ev.Interrupted(number, taken=True)
        yield f"interrupt of {turn} taken", taken, after._replace(interrupted=True)
        if w.left.deaf:
            yield f"interrupt of {turn} refused", refused, after._replace(left=_less(w, "deaf"))
    elif turn == w.running:
        yield f"interrupt of {turn} refused", refused, after


def _kind_of(w: World, turn: str | None) -> ev.Kind | None:
    """Return how the prompt that began a turn was given to Codex."""
    starter = next((message for message, begun in w.belongs if begun == turn), None)
    return None if starter is None else dict(w.kinds)[starter]


def _answer_to(w: World, number: int, turn: str) -> ev.Event:
    steers = (call for call, _ in w.steers)
    return ev.Steered(number, taken=True) if number in steers else ev.Started(number, turn)


def _taken_start(w: World, after: World, number: int, prompt: str) -> Iterator[Move]:
    if w.running is None:
        turn = f"t{w.turns + 1}"
        told = dict(w.kinds)[prompt] == "message"  # of a review Codex says only what it does
        yield f"(takes {prompt} as {turn})", None, after._replace(
            turns=w.turns + 1, running=turn, said=False, unread=(prompt,) if told else (),
            read=w.read if told else w.read | {prompt}, interrupted=False,
            replies=(*w.replies, (number, turn)), belongs=(*w.belongs, (prompt, turn)),
            done=w.done if prompt in w.open else w.done | {turn},
        )  # fmt: skip
    elif dict(w.kinds)[prompt] == "message" and _kind_of(w, w.running) != "turn":
        # Codex adds it to what runs, but for a review
        yield f"(adds {prompt} to {w.running})", None, after._replace(
            unread=(*w.unread, prompt), replies=(*w.replies, (number, w.running)),
            belongs=(*w.belongs, (prompt, w.running)),
        )  # fmt: skip
    if w.left.refusals and number not in w.abandoned:
        left = _less(w, "refusals")
        yield f"{prompt} refused", ev.Refused(number, FAILED), after._replace(left=left)


def _taken_steer(w: World, after: World, number: int, prompt: str, turn: str) -> Iterator[Move]:
    open_call = number not in w.abandoned
    takes = turn in (w.running, w.inner) and _kind_of(w, w.running) != "turn"
    if takes:
        assert w.running is not None
        took = after._replace(unread=(*w.unread, prompt), belongs=(*w.belongs, (prompt, w.running)))
        if open_call:
            yield f"steer of {prompt} taken", ev.Steered(number, taken=True), took
            later = (number, w.running)
            yield (
                f"(steer of {prompt} taken, answered later)",
                None,
                took._replace(replies=(*w.replies, later), steers=(*w.steers, later)),
            )
        else:
            yield f"(steer of {prompt} taken, unanswered)", None, took
    if (not takes or w.left.refusals) and open_call:
        left = _less(w, "refusals") if takes else w.left
        yield (
            f"steer of {prompt} refused",
            ev.Steered(number, taken=False),
            after._replace(left=left),
        )


def _looked_up(
    w: World, after: World, number: int, turns: tuple[str, ...], message: str | None
) -> Move:
    turn = next((each for each in turns if each in {w.running, *w.ended}), None)
    if not turns and message is not None:
        turn = dict(w.belongs).get(message)
        if turn in w.ended and message not in w.read:
            turn = None
    end = None
    if turn is not None and turn != w.running:
        end = CANCELLED if dict(w.ended_how).get(turn, False) else DONE
    return f"look-up finds {turn}", ev.LookedUp(number, turn, end, ours=True), after


def _turns(w: World) -> Iterator[Move]:
    turn = w.running
    if turn is None:
        if w.left.own_turns:
            turn = f"t{w.turns + 1}"
            yield f"{turn} begins by itself", ev.TurnBegan(turn), w._replace(
                left=_less(w, "own_turns"), turns=w.turns + 1, running=turn, said=True, unread=(),
                interrupted=False,
            )  # fmt: skip
    elif not w.said:
        yield f"{turn} begins", ev.TurnBegan(turn), w._replace(said=True)
        if w.left.inner_turns and _kind_of(w, turn) == "turn":  # a review says that of its inside
            inner = f"i{w.turns}"
            left = _less(w, "inner_turns")
            after = w._replace(left=left, inner=inner, said=True)
            yield f"{inner} begins inside, alone", ev.TurnBegan(inner, turn), after
    else:
        yield from _in_turn(w, turn)
    if w.running is None and w.runs_command:
        after = w._replace(runs_command=False)
        yield "the command ends, behind its turn", ev.CommandEnded("c"), after
    if w.left.pieces and w.ended and w.ended[-1] not in w.dead:
        late = w.ended[-1]
        yield f"late piece of {late}", None, w._replace(left=_less(w, "pieces"))
    if w.left.late_begins and w.ended and w.ended[-1] not in w.dead:
        late = w.ended[-1]
        yield (
            f"{late} begins, behind its end",
            ev.TurnBegan(late),
            w._replace(left=_less(w, "late_begins")),
        )
    if w.left.stops and w.running is None:
        yield "the thread is idle", ev.ThreadStopped(), w._replace(left=_less(w, "stops"))


def _in_turn(w: World, turn: str) -> Iterator[Move]:
    if w.left.inner_turns and w.inner is None and not w.interrupted:
        inner = f"i{w.turns}"
        yield (
            f"{inner} begins inside",
            ev.TurnBegan(inner, turn),
            w._replace(left=_less(w, "inner_turns"), inner=inner),
        )
    starter = next((m for m, t in w.belongs if t == turn), None)
    if w.unread and not w.interrupted and not w.left.mute:
        message = w.unread[0]
        yield (
            f"{turn} reads {message}",
            ev.MessageRead(message, turn),
            w._replace(unread=w.unread[1:], read=w.read | {message}, named=w.named | {turn}),
        )
    if w.unread and not w.interrupted and w.left.mute:
        read = w.read | {w.unread[0]}
        yield f"({turn} reads {w.unread[0]})", None, w._replace(unread=w.unread[1:], read=read)
    begun = w.interrupted or not (starter in w.unread or w.compacts)
    if w.compacts:
        after = w._replace(compacts=False, named=w.named | {turn})
        yield f"{turn} compacts", ev.CompactionBegan(turn), after
    if w.left.idles and begun:
        yield f"idle, before {turn} ends", ev.ThreadStopped(), w._replace(left=_less(w, "idles"))
    if w.left.pieces and begun:
        yield f"piece of {turn}", None, w._replace(left=_less(w, "pieces"))
    if w.left.commands and begun and not w.interrupted and not w.runs_command:
        yield (
            "a command begins",
            ev.CommandBegan("c"),
            w._replace(left=_less(w, "commands"), runs_command=True),
        )
    yield from _ends(w, turn, begun=begun)


def _ends(w: World, turn: str, *, begun: bool) -> Iterator[Move]:
    over = w._replace(
        running=None, inner=None, said=False, unread=(), interrupted=False, compacts=False,
        ended=(*w.ended, turn), ended_how=(*w.ended_how, (turn, w.interrupted)),
    )  # fmt: skip
    if w.interrupted:
        has_plan = w.left.plans > 0
        yield f"{turn} is interrupted", ev.TurnEnded(turn, CANCELLED, has_plan), over
    elif begun:
        if w.runs_command:
            yield "the command ends", ev.CommandEnded("c"), w._replace(runs_command=False)
        yield f"{turn} ends", ev.TurnEnded(turn, DONE), over
        if w.left.plans:
            left = _less(w, "plans")
            with_plan = over._replace(left=left)
            yield f"{turn} ends with a plan", ev.TurnEnded(turn, DONE, plan=True), with_plan
        if w.left.stops:
            yield f"{turn} ends, and nobody says so", None, over._replace(silent=True)
        if w.left.refusals:
            yield (
                f"{turn} fails",
                ev.TurnEnded(turn, FAILED),
                over._replace(left=_less(w, "refusals")),
            )


def shown(machine: SessionMachine, turn: str) -> bool:
    """Whether something of a turn is shown, as `Session.may_show` says."""
    return turn not in machine.stale and not machine.is_answered(turn)


def _is_over(w: World, turn: str) -> bool:
    """Whether the prompts of a turn are answered, and Codex has added no other prompt to it."""
    belongs = dict(w.belongs)
    return turn in w.done and not any(belongs.get(prompt) == turn for prompt in w.open)


def seen(world: World, machine: SessionMachine, label: str) -> None:
    """Check a piece of a turn. Raises Wrong if it is shown and must not be."""
    turn = label.rsplit(maxsplit=1)[-1]
    if not _is_over(world, turn) or not shown(machine, turn):
        return
    run = machine.run
    if run is not None and run.starter is not None and turn in run.names:
        return  # Codex has added another prompt to it
    raise Wrong(f"something of {turn} is shown behind its answer")


def _may_be_given(w: World, prompt: str) -> None:
    if prompt in w.read:
        raise Wrong(f"{prompt} is given to Codex twice")
    if prompt not in w.open:
        raise Wrong(f"{prompt} is given to Codex, and nobody waits for it")
    if prompt in w.cancelled:
        raise Wrong(f"{prompt} is given to Codex, and it was cancelled")
    if prompt.endswith("'") and not w.yes:
        raise Wrong("a plan is carried out, and nobody wants that")


def react(w: World, effects: list[ev.Effect]) -> World:
    """Let effects happen. Raises Wrong for one that must not."""
    interrupts = {each.turn for each in effects if isinstance(each, ev.Interrupt)}
    w = w._replace(interrupts=w.interrupts | interrupts)
    for effect in effects:
        match effect:
            case ev.Start(prompt=prompt) | ev.Steer(prompt=prompt):
                _may_be_given(w, prompt)
                if prompt.endswith("'") and w.said and w.running not in w.interrupts:
                    raise Wrong(f"{prompt} is added to {w.running}, which is in plan mode")
                if isinstance(effect, ev.Start) and w.reviews is not None:
                    raise Wrong("a turn is asked for while a plan is asked about")
                if w.leaving in w.open - w.given_up - {prompt}:
                    raise Wrong(f"{prompt} overtakes the plan that is about to be carried out")
                if w.outdated is not None and w.outdated in {w.running} - w.interrupts:
                    raise Wrong(f"{prompt} is added to {w.running}, which has the rights of before")
                w = _written(w, effect)
            case ev.Interrupt() | ev.LookUp() | ev.StopCommands():
                w = _written(w, effect)
            case ev.Abandon(call):
                w = _abandoned(w, call)
            case ev.AskPlan() | ev.EndReview() | ev.EndPlan() | ev.TakePlan():
                w = _plan(w, effect)
            case (
                ev.Insert()
                | ev.AnswerLocally()
                | ev.Answer()
                | ev.RefuseToJoin()
                | ev.ShowActivity()
                | ev.SettleQuestions()
            ):
                w = _told(w, effect)
            case _:
                pass
    return w


def _written(w: World, call: ev.Effect) -> World:
    return w._replace(wire=(*w.wire, call)) if w.alive else w


def _abandoned(w: World, call: int) -> World:
    """Codex still reads what was written; a look-up alone changes nothing there."""
    rest = tuple(
        each
        for each in w.wire
        if not (isinstance(each, ev.LookUp | ev.StopCommands) and each.call == call)
    )
    return w._replace(abandoned=w.abandoned | {call}, wire=rest)


def _plan(w: World, effect: ev.AskPlan | ev.EndReview | ev.EndPlan | ev.TakePlan) -> World:
    match effect:
        case ev.AskPlan(call, prompt):
            if w.card:
                raise Wrong("two plans are asked about")
            if dict(w.ended_how)[dict(w.belongs)[prompt]]:
                raise Wrong("the plan of a turn that was interrupted is asked about")
            return w._replace(reviews=(call, prompt), yes=False, card=True)
        case ev.EndReview(approved):
            if w.reviews is None:
                raise Wrong("what became of a plan is told twice")
            if approved and not w.yes:
                raise Wrong("a plan is approved, and nobody has said so")
            late = w.reviews[0] if approved is None else None
            return w._replace(reviews=None, late=late, card=w.card and approved is True)
        case ev.EndPlan(begun):
            if not w.card:
                raise Wrong("the end of a plan is told twice")
            if begun and not w.yes:
                raise Wrong("a plan is told to be carried out, and nobody wants that")
            return w._replace(card=False)
        case ev.TakePlan(_, prompt):
            if not w.yes:
                raise Wrong("a plan is prepared, and nobody wants that")
            return w._replace(leaving=prompt)


def _told(
    w: World,
    effect: ev.Insert
    | ev.AnswerLocally
    | ev.Answer
    | ev.RefuseToJoin
    | ev.ShowActivity
    | ev.SettleQuestions,
) -> World:
    match effect:
        case ev.SettleQuestions(turn):
            kept = () if turn is None else tuple(each for each in w.asked if each[1] != turn)
            return w._replace(asked=kept)
        case ev.ShowActivity(now):
            if now == w.told:
                raise Wrong(f"{now} is told twice")
            if (w.told, now) == ("idle", "requires_action"):
                raise Wrong("what does not run requires an action")
            return w._replace(told=now)
        case ev.Insert(prompt):
            if prompt in w.inserted or prompt not in w.open:
                raise Wrong(f"{prompt} is told twice to have its place")
            return w._replace(inserted=w.inserted | {prompt})
        case ev.AnswerLocally(prompt):
            return w._replace(speaking=w.speaking | {prompt})
        case ev.RefuseToJoin(prompt):
            return w._replace(open=w.open - {prompt})
        case ev.Answer():
            return _answered(w, effect)


def left(w: World, machine: SessionMachine) -> World:
    """Forget the prompts that the client has given up. Raises Wrong if one waits, and for no turn's
    end."""
    for prompt in machine.prompts:
        if prompt.id in w.given_up and not isinstance(prompt.place, InTurn):
            raise Wrong(f"{prompt.id} was given up and is kept")
    gone = frozenset(name for name in w.given_up & w.open if machine.find(name) is None)
    return w._replace(open=w.open - gone)


def _answered(w: World, answer: ev.Answer) -> World:
    prompt = answer.prompt
    if prompt not in w.open:
        raise Wrong(f"{prompt} is answered twice")
    if w.reviews is not None and w.reviews[1] == prompt:
        raise Wrong(f"{prompt} is answered while its plan is asked about")
    turns = dict(w.belongs)
    turn = turns.get(prompt)
    unanswered = [
        each
        for each in w.wire
        if isinstance(each, ev.Steer) and each.prompt == prompt and each.call in w.abandoned
    ]
    sure = prompt not in w.speaking and not unanswered
    if any(asked == turn for _, asked in w.asked if asked is not None) and not any(
        turns.get(other) == turn for other in w.open - {prompt}
    ):
        raise Wrong(f"{prompt} is answered, and something of {turn} is asked")
    if answer.end == DONE and sure and turn not in w.ended:
        raise Wrong(f"{prompt} reads end_turn, and its turn {turn} has not ended")
    if answer.end == DONE and sure and prompt not in w.read and not w.left.mute:
        raise Wrong(f"{prompt} reads end_turn, and Codex has not read it")
    if answer.end == DONE and turn is not None and dict(w.ended_how).get(turn):
        raise Wrong(f"{prompt} reads end_turn, and its turn {turn} was interrupted")
    if (
        answer.end == CANCELLED
        and turn == w.running
        and turn in w.named - w.interrupts
        and (w.inner not in w.interrupts)
    ):
        raise Wrong(f"{prompt} reads cancelled, and nobody has interrupted {turn}")
    interrupted = dict(w.ended_how).get(turn or "") or turn in w.interrupts
    whose = sure and turn is not None and prompt not in w.cancelled
    if answer.end == CANCELLED and whose and not interrupted:
        raise Wrong(f"{prompt} reads cancelled, and nobody has cancelled it")
    if answer.unread and prompt in w.written:
        raise Wrong(f"{prompt} would be given to another Codex, and one may have read it")
    surely_unread = turn in dict(w.ended_how) and prompt not in w.read
    if answer.unread and turn is not None and not surely_unread:
        raise Wrong(f"{prompt} would be given to another Codex, and {turn} may have read it")
    w = w._replace(open=w.open - {prompt})
    if turn is not None and not any(turns.get(other) == turn for other in w.open):
        w = w._replace(done=w.done | {turn})
    return w


def as_told(w: World, machine: SessionMachine) -> None:
    """Raise Wrong if the client was told something else than what is."""
    first = any(turn is None for _, turn in w.asked)
    taken = (w.inserted | {name for name in w.open if name.endswith("'")}) & w.open
    if w.told == "idle" and first:
        raise Wrong("idle is told while a person is asked before a turn")
    if w.told == "idle" and taken:
        raise Wrong(f"idle is told while prompts run: {sorted(taken)}")
    if w.told != "idle" and not taken and machine.run is None and not first:
        raise Wrong(f"{w.told} is told while nothing runs")
    runs = w.running if w.said and machine.run is not None else None
    if w.told == "idle" and runs is not None and runs not in machine.stale:
        raise Wrong(f"idle is told while {runs} runs")
    asked = w.asked or w.reviews
    if (w.told == "running" and asked) or (w.told == "requires_action" and not asked):
        raise Wrong(f"{w.told} is told, and asked is {asked}")
    if any(turn for _, turn in w.asked) and (machine.cancelled or not w.alive):
        raise Wrong("something is asked behind a cancel, or of no Codex")
    plans = w.reviews or any(each.approved for each in machine.prompts)
    if w.card != bool(plans):
        raise Wrong(f"the tool call of a plan is {'' if w.card else 'not '}open")
    if w.closing and isinstance(machine.turn, Running):
        raise Wrong("a turn runs on in a session that is being closed")
    for _, turn in w.asked:
        if turn is not None and (
            _is_over(w, turn) or turn in machine.stale or machine.is_answered(turn)
        ):
            raise Wrong(f"{turn} is over, and something of it is asked")


def _waiting(w: World) -> frozenset[str]:
    """Return the prompts that could be given to Codex: none behind one whose content is read."""
    first = min(w.unprepared & w.open, default="q")
    return frozenset(name for name in w.open - w.speaking - _at_the_plan(w) if name < first)


def at_rest(w: World, machine: SessionMachine) -> None:
    """Raise Wrong if a prompt is open though Codex has said and done all that it was to."""
    busy = w.wire or w.running or [call for call, _ in w.replies if call not in w.abandoned]
    waits = _waiting(w)
    bounded = {
        "answer",
        "free",
        "clean_up",
    } & machine.timers  # it waits for something, and not for long
    prepares = w.leaving in w.open  # the message that carries a plan out is being prepared
    if w.alive and waits and not busy and not prepares and not w.silent and not bounded:
        raise Wrong(f"left open, and nothing is to come: {sorted(waits)}")
    turn = machine.turn
    if isinstance(turn, Running | Cancelling) and not (turn.run.starter or w.silent):
        assert turn.run.turn not in w.ended, f"{turn.run.turn} is followed, and has ended"


def _at_the_plan(w: World) -> frozenset[str | None]:
    """The prompts that wait for what becomes of a plan."""
    return frozenset([w.leaving, None if w.reviews is None else w.reviews[1]])


def after_a_loss(world: World) -> None:
    """Raise Wrong if a prompt that could be answered waits for a Codex that is gone."""
    waits = _waiting(world)
    if waits:
        raise Wrong(f"left open behind a loss: {sorted(waits)}")


def left_alone(world: World, machine: SessionMachine) -> float:
    """Cancel, let only the clock go on, and return the seconds until all is answered.

    Raises Wrong if it never is, or not within the bound, or if anything is left.
    """
    now = 0.0
    due = {timer: getattr(TIMINGS, timer) for timer in machine.timers}
    event: ev.Event = ev.Cancelled(closing=True)
    world = world._replace(cancelled=world.cancelled | world.open)
    while True:
        effects = machine.handle(event)
        world = react(world, effects)
        for effect in effects:
            if isinstance(effect, ev.SetTimer):
                due[effect.timer] = now + getattr(TIMINGS, effect.timer)
            elif isinstance(effect, ev.ClearTimer):
                del due[effect.timer]
        if machine.run is None and not machine.prompts:
            break
        if not due:
            raise Wrong(f"nothing would ever end {machine.turn}, {machine.prompts}")
        timer = min(due, key=lambda each: due[each])
        now = due.pop(timer)
        event = ev.Due(timer)
    if world.open or world.reviews or world.asked:
        raise Wrong(f"never answered, or withdrawn: {sorted(world.open)}")
    if now > BOUND_SECONDS:
        raise Wrong(f"answered only {now:g} s behind a cancel")
    return now
