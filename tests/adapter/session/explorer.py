"""Try every order of events around a session's machine, breadth first: the shortest way to a fault
is found first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias, cast

from codex_acp import _record
from codex_acp.adapter.session import machine
from codex_acp.adapter.session.events import Lost, Steer
from codex_acp.adapter.session.machine import SessionMachine
from codex_acp.adapter.session.states import Prompt
from tests.adapter.session.world import (
    NOTHING,
    Budget,
    Move,
    World,
    after_a_loss,
    as_told,
    at_rest,
    left,
    left_alone,
    moves,
    react,
    seen,
)

machine.NO_DATA = NOTHING
_getters: Final[dict[type, Callable[[object], object]]] = {}


def _values(of: Any) -> object:
    """Return the fields of a record, as `_record._values` does, faster."""
    get = _getters.get(type(of))
    if get is None:
        names = _record.names_of(type(of))
        get = _getters[type(of)] = attrgetter(*names) if names else lambda _: ()
    return get(of)


vars(_record)["_values"] = _values

FIELDS: Final = (
    "turn", "prompts", "active", "active_outer", "closing", "late_starts", "codex_gone", "look_up",
    "doubts", "stopped", "timers", "calls", "runs", "plan", "questions", "shown_activity",
    "idle_reason", "idle_after_turn", "reports_reads",
)  # fmt: skip

_fields_of: Final = attrgetter(*FIELDS)
_told_alone: Final = attrgetter(
    "alive", "running", "inner", "ended", "ended_how", "open", "speaking", "cancelled", "belongs",
    "written", "named", "interrupts", "inserted", "read", "told", "asked", "reviews", "yes",
)  # fmt: skip
"""All of a world on which `left_alone` depends, but for the calls on the wire."""

State: TypeAlias = "tuple[int, World]"


class Explored(NamedTuple):
    """What an exploration has seen."""

    states: int
    steps: int
    depth: int
    seconds: float
    bound: float
    """The most seconds until all was answered behind a cancel, with nobody else doing anything."""
    wrong: str | None = None
    trace: tuple[str, ...] = ()
    """The moves that lead to what is wrong."""


def snapshot(of: SessionMachine) -> tuple[object, ...]:
    """Return all of a machine as one value."""
    return (*_fields_of(of), frozenset(of.stale), tuple(of.answered))


def restored(kept: tuple[object, ...], make: Callable[[], SessionMachine]) -> SessionMachine:
    """Return a machine with the state of a snapshot."""
    made = make()
    vars(made).update(zip(FIELDS, kept, strict=False))
    stale, answered = cast("tuple[frozenset[str], tuple[str, ...]]", kept[-2:])
    made.stale.update(stale)
    made.answered.update(dict.fromkeys(answered))
    return made


class _Seen:
    """All that an exploration has seen. A state is the number of a machine's, with a world."""

    def __init__(self, first: World, make: Callable[[], SessionMachine]) -> None:
        self._make = make
        self._numbers: dict[object, int] = {}
        self._machines: list[tuple[object, ...]] = []
        """Each state of a machine, by its number."""
        self.first: State = (self._number(make()), first)
        self.before: dict[State, tuple[State, str] | None] = {self.first: None}
        """Each state with the one before it, and the move that led from there."""
        self._alone: set[int] = set()
        """Hashes of all that `left_alone` depends on, where it was tried."""
        self.steps = 0
        self.bound = 0.0

    def _number(self, of: SessionMachine) -> int:
        kept = snapshot(of)
        number = self._numbers.setdefault(kept, len(self._machines))
        if number == len(self._machines):
            self._machines.append(kept)
        return number

    def machine(self, number: int) -> SessionMachine:
        return restored(self._machines[number], self._make)

    def step(self, key: State, still: SessionMachine, move: Move) -> State | None:
        """Make a move; return the state behind it, if it is new. Raises Wrong."""
        label, event, now = move
        number, self.steps = key[0], self.steps + 1
        if event is None:
            if "piece" in label:
                seen(now, still, label)
        else:
            tried = self.machine(number)
            now = left(react(now, tried.handle(event)), tried)
            if isinstance(event, Lost):
                after_a_loss(now)
            at_rest(now, tried)
            as_told(now, tried)
            now = forgotten(now, tried)
            number = self._number(tried)
        state, way = (number, now), (key, label)
        if self.before.setdefault(state, way) is not way:
            return None
        alone = hash((number, *_told_alone(now), _unanswered(now)))
        if alone not in self._alone:
            self._alone.add(alone)
            self.bound = max(self.bound, left_alone(now, self.machine(number)))
        return state

    def way(self, key: State) -> tuple[str, ...]:
        way = []
        while (step := self.before[key]) is not None:
            key, label = step
            way.append(label)
        return tuple(reversed(way))


def explore(
    budget: Budget,
    depth: int,
    *,
    most: int = 10_000_000,
    make: Callable[[], SessionMachine] = SessionMachine,
) -> Explored:
    """Try all orders of at most ``depth`` moves, and at most ``most`` states."""
    began, seen_so_far, level = perf_counter(), _Seen(World(budget), make), 0

    def result(wrong: str | None = None, trace: tuple[str, ...] = ()) -> Explored:
        states, steps = len(seen_so_far.before), seen_so_far.steps
        seconds = perf_counter() - began
        return Explored(states, steps, level, seconds, seen_so_far.bound, wrong, trace)

    front = [seen_so_far.first]
    while level < depth:
        level += 1
        found = []
        for key in front:
            still = seen_so_far.machine(key[0])
            for move in moves(key[1], still):
                try:
                    state = seen_so_far.step(key, still, move)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
                    way = (*seen_so_far.way(key), move[0])
                    return result(f"{type(error).__name__}: {error}", way)
                if state is not None:
                    found.append(state)
            if len(seen_so_far.before) >= most:
                return result()
        front = found
        if not front:
            break
    return result()


def forgotten(w: World, of: SessionMachine) -> World:
    """Forget what nothing depends on any more, so that orders which lead to one state are one."""
    wire = [getattr(each, "call", 0) for each in w.wire]
    live = {*wire, *(call for call, _ in w.replies)}
    plans = [w.late, None if w.reviews is None else w.reviews[0], *map(_call_of, of.prompts)]
    run, turn = of.run, of.turn
    held = [of.look_up, getattr(turn, "call", None), None if run is None else run.call]
    late = (each.call for each in of.late_starts)
    of.calls = max(call for call in (0, *live, *plans, *held, *late) if call is not None)
    of.runs = 0 if run is None else run.number
    return w._replace(
        abandoned=w.abandoned & live, steers=tuple(each for each in w.steers if each[0] in live),
        inserted=w.inserted & w.open, written=w.written & w.open, given_up=w.given_up & w.open,
        cancelled=w.cancelled & w.open, speaking=w.speaking & w.open,
        questions=max([0, *(number for number, _ in w.asked)]),
    )  # fmt: skip


def _call_of(prompt: Prompt) -> int | None:
    return getattr(prompt.place, "call", None)


def _unanswered(world: World) -> tuple[object, ...]:
    steers = tuple(each for each in world.wire if isinstance(each, Steer))
    return (steers, world.abandoned) if steers else ()


if __name__ == "__main__":
    found = explore(Budget(*map(int, sys.argv[2:])), int(sys.argv[1]))
    sys.stdout.write("\n    ".join([str(found._replace(trace=())), *found.trace]) + "\n")
