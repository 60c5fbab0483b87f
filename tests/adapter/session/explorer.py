"""Try every order of events around a session's machine, breadth first: the shortest way to a fault
is found first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Final, NamedTuple, cast

from codex_acp.adapter.session import machine
from codex_acp.adapter.session.events import Lost
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

FIELDS: Final = (
    "turn", "prompts", "active", "closing", "late_starts", "gone", "look_up", "doubts", "stopped",
    "timers",
    "calls", "runs", "plan", "questions", "told", "rest", "of_turn",
    "tells_reads",
)  # fmt: skip


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
    fields = tuple(getattr(of, name) for name in FIELDS)
    return (*fields, frozenset(of.stale), tuple(of.answered))


def restored(kept: tuple[object, ...], make: Callable[[], SessionMachine]) -> SessionMachine:
    """Return a machine with the state of a snapshot."""
    made = make()
    for name, value in zip(FIELDS, kept, strict=False):
        setattr(made, name, value)
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
    first = (snapshot(make()), World(budget))
    before: dict[object, tuple[object, str] | None] = {first: None}
    front, level = [first], 0
    for level in range(1, depth + 1):
        found = []
        for key in front:
            kept, world = key
            for label, event, after in moves(world, restored(kept, make)):
                tried, now = restored(kept, make), after
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
                    state = (snapshot(tried), now)
                    if state in before:
                        continue
                    before[state] = (key, label)
                    found.append(state)
                    bound = max(bound, left_alone(now, tried))
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


def _way(before: dict[object, tuple[object, str] | None], key: object) -> tuple[str, ...]:
    way = []
    while (step := before[key]) is not None:
        key, label = step
        way.append(label)
    return tuple(reversed(way))


if __name__ == "__main__":
    found = explore(Budget(*map(int, sys.argv[2:])), int(sys.argv[1]))
    sys.stdout.write("\n    ".join([str(found._replace(trace=())), *found.trace]) + "\n")
