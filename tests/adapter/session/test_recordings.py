"""Recorded sessions of the real Codex: each of its events is one that the world can make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from codex_acp._record import names_of
from codex_acp.adapter.session import events as ev
from codex_acp.adapter.session.machine import SessionMachine
from codex_acp.adapter.session.record import Step, play, read_record
from tests.adapter.session.explorer import restored, snapshot
from tests.adapter.session.real_sessions import RECORDINGS, record_sessions
from tests.adapter.session.world import Budget, World, left, moves, react

KEPT = sorted(RECORDINGS.glob("*.jsonl"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_recorded_session_is_decided_as_it_was(path: Path) -> None:
    played = play(read_record(path))
    assert (played.differences, played.missing) == ([], 0)
    assert played.sessions > 0


def test_what_the_command_records_of_the_real_codex_plays_without_a_difference(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record.jsonl"
    record_sessions(path)
    played = play(read_record(path))
    assert (played.differences, played.missing, played.sessions) == ([], 0, 14)


GENEROUS = Budget(*([9] * len(Budget._fields)))._replace(pieces=0, questions=0, mute=0)
"""Whatever may happen may happen often; pieces and questions are no events."""

NAMES = {"prompt": "p", "message": "p", "turn": "t", "root": "t"}
"""Fields that name a prompt or a turn, whose names differ in the world."""


class State(NamedTuple):
    """A world and a machine that fit what was recorded so far, and the names that they have."""

    world: World
    machine: tuple[object, ...]
    names: tuple[tuple[str, str], ...] = ()


def _named(state: State, recorded: ev.Event, made: ev.Event) -> State | None:
    """Return the state with the names of two events that are alike; None if they are not."""
    if type(recorded) is not type(made):
        return None
    names = dict(state.names)
    for field in names_of(type(made)):
        was, now = getattr(recorded, field), getattr(made, field)
        if field == "root" and was == getattr(recorded, "turn", None):
            was = None  # the same turn
        if field == "end":
            was, now = (getattr(each, "reason", None) for each in (was, now))
        if field in NAMES and was is not None and now is not None:
            if names.setdefault(was, now) != now or len({*names.values()}) < len(names):
                return None
        elif was != now and field not in LOOSE:
            return None
    return state._replace(names=tuple(names.items()))


LOOSE = frozenset({"closing", "item", "items", "failure", "unread", "asks_person", "ours", "plan"})
"""Fields that differ in how the world is made."""


def _silent(states: set[State]) -> set[State]:
    """Return the states with those that come of what Codex does and does not tell."""
    found, front = set(states), list(states)
    while front:
        state = front.pop()
        for label, event, after in moves(state.world, restored(state.machine, SessionMachine)):
            then = state._replace(world=after)
            if event is None and label.startswith("(") and then not in found:
                found.add(then)
                front.append(then)
    return found


def _next(states: set[State], recorded: ev.Event) -> set[State]:
    """Return the states behind an event, with those whose worlds can make it."""
    found = set()
    if isinstance(recorded, ev.GivenUp):  # one that was answered meanwhile is given up in vain
        names = (dict(state.names)[recorded.prompt] for state in states)
        if all(name not in state.world.open for name, state in zip(names, states, strict=True)):
            return states
    for state in _silent(states):
        for _, event, after in moves(state.world, restored(state.machine, SessionMachine)):
            fits = None if event is None else _named(state, recorded, event)
            if fits is not None and event is not None:
                machine = restored(state.machine, SessionMachine)
                world = left(react(after, machine.handle(event)), machine)
                found.add(fits._replace(world=world, machine=snapshot(machine)))
    return found


def _events(steps: Iterable[Step], session: int) -> Iterator[tuple[Step, ev.Event]]:
    """Yield what is a move: an item that ends was one of a command, and no answered prompt
    waits."""
    commands: set[str] = set()
    lost = False
    for step in steps:
        event = step.event
        if step.session != session or event is None or isinstance(event, ev.Withdrawn):
            continue
        if isinstance(event, ev.Lost) and lost:
            continue  # each call that was lost says so
        lost = isinstance(event, ev.Lost) or (lost and not isinstance(event, ev.Moved))
        if isinstance(event, ev.CommandBegan):
            commands.add(event.item)
        if not isinstance(event, ev.CommandEnded) or event.item in commands:
            yield step, event


SESSIONS = [
    (path, session)
    for path in KEPT
    for session in sorted({step.session for step in read_record(path)})
]


@pytest.mark.parametrize(
    ("path", "session"), SESSIONS, ids=[f"{path.stem}-{session}" for path, session in SESSIONS]
)
def test_each_event_of_the_real_codex_is_a_move_of_the_world(path: Path, session: int) -> None:
    states = {State(World(GENEROUS), snapshot(SessionMachine()))}
    seen: list[ev.Event] = []
    for step, event in _events(read_record(path), session):
        seen.append(event)
        early = isinstance(event, ev.Prepared) and isinstance(seen[0], ev.AskedEarly)
        if early and event.prompt == seen[0].prompt:  # type: ignore[union-attr] # as just seen
            continue  # its turn was asked for before
        then = _next(states, event)
        assert then, f"line {step.line}: no world makes {event} behind {seen[-6:-1]}"
        states = then
