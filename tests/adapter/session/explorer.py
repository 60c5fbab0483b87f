"""Try every order of events around a session's machine, breadth first: the shortest way to a fault
is found first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from time import perf_counter
from typing import Any, Final, NamedTuple, cast

from codex_acp import _record
from codex_acp.adapter.session import machine
from codex_acp.adapter.session.events import Lost, Steer
from codex_acp.adapter.session.machine import SessionMachine
from tests.adapter.session.world import (
    NOTHING,
    Budget,
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
    "turn", "prompts", "active", "closing", "late_starts", "gone", "look_up", "doubts", "stopped",
    "timers",
    "calls", "runs", "plan", "questions", "told", "rest", "of_turn",
    "tells_reads",
)  # fmt: skip

_fields_of: Final = attrgetter(*FIELDS)
_told_alone: Final = attrgetter(
    "alive", "running", "inner", "ended", "ended_how", "open", "speaking", "cancelled", "belongs",
    "written", "named", "interrupts", "inserted", "read", "told", "asked", "reviews", "yes",
)  # fmt: skip
"""All of a world on which `left_alone` depends, but for the calls on the wire."""


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


def explore(
    budget: Budget,
    depth: int,
    *,
    most: int = 10_000_000,
    make: Callable[[], SessionMachine] = SessionMachine,
) -> Explored:
    """Try all orders of at most ``depth`` moves, and at most ``most`` states."""
    began, steps, bound = perf_counter(), 0, 0.0
    numbers: dict[object, int] = {}
    machines: list[tuple[object, ...]] = []
    """Each state of a machine, by its number."""

    def numbered(kept: tuple[object, ...]) -> int:
        number = numbers.setdefault(kept, len(machines))
        if number == len(machines):
            machines.append(kept)
        return number

    first = (numbered(snapshot(make())), World(budget))
    before: dict[object, tuple[object, str] | None] = {first: None}
    alone: set[int] = set()
    """Hashes of all that `left_alone` depends on, where it was tried."""
    front, level = [first], 0
    for level in range(1, depth + 1):
        found = []
        for key in front:
            number, world = key
            kept = machines[number]
            still = restored(kept, make)
            for label, event, after in moves(world, still):
                tried, now = still if event is None else restored(kept, make), after
                steps += 1
                try:
                    if event is None:
                        if "piece" in label:
                            seen(after, tried, label)
                    else:
                        now = left(react(after, tried.handle(event)), tried)
                        if isinstance(event, Lost):
                            after_a_loss(now)
                        at_rest(now, tried)
                        as_told(now, tried)
                    state = (number if event is None else numbered(snapshot(tried)), now)
                    if before.setdefault(state, way := (key, label)) is not way:
                        continue
                    found.append(state)
                    seen_alone = hash((state[0], *_told_alone(now), _unanswered(now)))
                    if seen_alone not in alone:
                        alone.add(seen_alone)
                        bound = max(bound, left_alone(now, restored(machines[state[0]], make)))
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
                    trace = (*_way(before, key), label)
                    seconds = perf_counter() - began
                    why = f"{type(error).__name__}: {error}"
                    return Explored(len(before), steps, level, seconds, bound, why, trace)
            if len(before) >= most:
                break
        front = found
        if not front or len(before) >= most:
            break
    return Explored(len(before), steps, level, perf_counter() - began, bound)


def _unanswered(world: World) -> tuple[object, ...]:
    steers = tuple(each for each in world.wire if isinstance(each, Steer))
    return (steers, world.abandoned) if steers else ()


def _way(before: dict[object, tuple[object, str] | None], key: object) -> tuple[str, ...]:
    way = []
    while (step := before[key]) is not None:
        key, label = step
        way.append(label)
    return tuple(reversed(way))


if __name__ == "__main__":
    found = explore(Budget(*map(int, sys.argv[2:])), int(sys.argv[1]))
    sys.stdout.write("\n    ".join([str(found._replace(trace=())), *found.trace]) + "\n")
