"""Descendants are found, and nobody else is ever hit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import cast

import pytest

from codex_acp.transport import process_tree
from codex_acp.transport.process_table import (
    ProcessInfo,
    is_starting,
    parse_proc_stat,
    parse_ps,
    read_processes,
)
from codex_acp.transport.process_tree import ProcessTree, has_mark
from codex_acp.transport.shutdown import kill_now

PS = """\
    1     0     1 Ss   Sun Sep 14 08:00:01 2025
  420     1   420 S+   Sun Sep 14 08:10:00 2025
  421   420   420 Z    Sun Sep 14 08:10:01 2025
not a process
"""


def test_ps_output_is_read() -> None:
    found = parse_ps(PS)
    assert sorted(found) == [1, 420, 421]
    assert (found[421].parent, found[421].group, found[421].dead) == (420, 420, True)
    assert found[420].started == "Sun Sep 14 08:10:00 2025"
    assert not found[420].dead


def test_a_name_with_spaces_and_parentheses_does_not_confuse() -> None:
    rest = " ".join(str(number) for number in range(5, 30))
    info = parse_proc_stat(f"77 (a) R 1 2 (b)) S 4 5 6 {rest}".encode())
    assert (info.pid, info.parent, info.group, info.session) == (77, 4, 5, 6)
    assert not info.dead
    assert info.started == "20"


def test_this_process_is_among_those_that_are_seen() -> None:
    me = read_processes()[os.getpid()]
    assert me.parent == os.getppid()
    assert not me.dead


def table(*rows: tuple[int, int, int, int, str]) -> dict[int, ProcessInfo]:
    return {
        pid: ProcessInfo(pid, parent, group, session, started, dead=False)
        for pid, parent, group, session, started in rows
    }


class World:
    """A process table that the tests write, and the signals that were sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: dict[int, ProcessInfo] = {}
        self.sent: list[tuple[str, int]] = []
        monkeypatch.setattr(process_tree, "_open_roots", set[int]())  # no tree of here ends
        monkeypatch.setattr(process_tree, "read_processes", lambda: self.now)
        monkeypatch.setattr(process_tree, "read_process", self.find)
        monkeypatch.setattr(process_tree, "open_pidfd", lambda _pid: None)
        monkeypatch.setattr(os, "kill", lambda pid, _number: self.sent.append(("one", pid)))
        monkeypatch.setattr(os, "killpg", lambda pid, _number: self.sent.append(("group", pid)))

    def find(self, pid: int) -> ProcessInfo | None:
        return self.now.get(pid)


def pids(infos: Iterable[ProcessInfo]) -> list[int]:
    return sorted(info.pid for info in infos)


def test_descendants_stay_known_after_they_moved_and_their_parents_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, tree = World(monkeypatch), ProcessTree(100)
    world.now = table((100, 1, 100, 100, "a"), (101, 100, 100, 100, "b"), (102, 101, 102, 102, "c"))
    tree.refresh()
    world.now = table((1, 0, 1, 1, "-"), (102, 1, 102, 102, "c"), (103, 102, 103, 103, "d"))
    tree.refresh()
    assert pids(tree.living()) == [102, 103]


def test_an_orphan_in_the_session_of_the_root_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tree = World(monkeypatch), ProcessTree(100)
    world.now = table((105, 1, 105, 100, "x"), (106, 1, 100, 7, "y"), (107, 1, 7, 7, "z"))
    tree.refresh()
    assert pids(tree.living()) == [105, 106]


def test_a_reused_id_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tree = World(monkeypatch), ProcessTree(100)
    world.now = table((100, 1, 100, 100, "a"), (101, 100, 101, 101, "b"))
    tree.refresh()
    tree.root_collected()
    world.now = table((100, 1, 100, 100, "later"), (101, 1, 101, 101, "later"))
    assert tree.living() == []
    tree.signal(signal.SIGKILL)
    assert world.sent == []
    tree.refresh()
    assert tree.living() == []


def test_a_group_member_gets_a_polite_signal_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tree = World(monkeypatch), ProcessTree(100)
    world.now = table((100, 1, 100, 100, "a"), (101, 100, 101, 101, "b"))
    tree.refresh()
    tree.signal(signal.SIGTERM)
    assert world.sent == [("group", 100), ("one", 101)]


def test_this_process_is_never_part_of_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tree = World(monkeypatch), ProcessTree(100)
    world.now = table((100, 1, 100, 100, "a"), (os.getpid(), 100, 100, 100, "b"))
    tree.refresh()
    assert pids(tree.living()) == [100]


def test_a_real_process_is_killed_and_then_not_living() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    tree = ProcessTree(process.pid)
    tree.refresh()
    assert pids(tree.living()) == [process.pid]
    # It shares this process's group: only the signal to itself may hit.
    tree.root_collected()
    tree.signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert tree.living() == []
    assert process.stdin is not None
    process.stdin.close()


class Looks:
    """A tree whose looks find what they are told to; ``signals`` are those it was sent."""

    def __init__(self, *living: int, unsure: int = 0) -> None:
        self.may_miss_some = False
        self.signals: list[int] = []
        self.looks = 0
        self._living = living
        self._unsure = unsure

    def refresh(self) -> None:
        self.looks += 1
        self.may_miss_some = self.looks <= self._unsure

    def living(self) -> list[int]:
        at = self.looks - 1
        return [1] * (self._living[at] if at < len(self._living) else 0)

    def signal(self, number: int) -> None:
        self.signals.append(number)

    def reap(self) -> None: ...


@pytest.mark.parametrize(
    ("tree", "signals"),
    [
        (Looks(), 0),
        (Looks(0, 1), 1),  # its parent ended during the first look
        (Looks(unsure=1), 1),  # one was just being started, and not known yet
        (Looks(1, 0, 1), 2),
    ],
)
def test_one_look_that_finds_nothing_is_no_proof_that_nothing_lives(
    tree: Looks, signals: int
) -> None:
    kill_now(cast("ProcessTree", tree))

    assert tree.signals == [signal.SIGKILL] * signals


def test_a_process_with_an_empty_environment_is_not_one_that_is_just_being_started() -> None:
    with subprocess.Popen(["/bin/sleep", "60"], env={}) as process:
        try:
            while is_starting(process.pid):
                time.sleep(0.001)
            assert has_mark(process.pid, "m") is False
        finally:
            process.kill()
