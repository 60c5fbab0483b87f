"""The ladder that ends a child process and all it started, normally within half a second.

1. Its stdin is closed, and it is given a moment to end by itself.
2. What still lives gets SIGTERM, once, and a moment to clean up.
3. What still lives gets SIGKILL, until a look finds nothing.

Owns the order and the time limits. Must not know what the child does, nor how its exit is noticed.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from codex_acp.transport.process_tree import ProcessTree

TERMINATE_SECONDS: Final = 0.1
"""For a clean-up after SIGTERM; longer would be felt by a person who closes an editor."""

KILL_SECONDS: Final = 1.0
"""To find what was forked meanwhile, and for the kernel to end what SIGKILL hit: some milliseconds,
but on a machine that is too busy a process has to get its turn to die."""

LOOK_SECONDS: Final = 0.04
"""Between two looks at the process table: descendants are found before their parent dies.
A look costs about 10 ms on a machine with 500 processes."""

POLL_SECONDS: Final = 0.01
"""Between two looks at whether known processes have ended, which cost some 20 µs each."""

KILL_ROUNDS: Final = 5
"""Looks in `kill_now`: processes may fork meanwhile."""

KILL_ROUND_SECONDS: Final = 0.02
"""Between those looks; the kernel needs a moment to end a process."""


async def shut_down(
    tree: ProcessTree, exited: Future[None], close_stdin: Callable[[], None], exit_seconds: float
) -> None:
    """End a process, which has ``exit_seconds`` to do so by itself, and all that came of it.
    ``exited`` is done when the root has ended and the tree was refreshed at that moment."""
    tree.refresh()
    close_stdin()
    end = time.monotonic() + exit_seconds
    while not exited.done() and (left := end - time.monotonic()) > 0:
        await asyncio.wait({exited}, timeout=min(left, LOOK_SECONDS))
        if not exited.done():
            tree.refresh()
    if exited.done() and nothing_lives(tree):
        tree.collect()
    else:
        await terminate(tree, exited, TERMINATE_SECONDS)


async def terminate(tree: ProcessTree, exited: Future[None], seconds: float) -> None:
    """The second and third rung: for a process that has no stdin, or does not heed it."""
    try:
        tree.refresh()
        tree.signal(signal.SIGTERM)
        if await _all_ended(tree, exited, seconds):
            return
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            # Again and again: a process may fork between the look and the signal.
            tree.refresh()
            tree.signal(signal.SIGKILL)
            if await _all_ended(tree, exited, POLL_SECONDS):
                return
    finally:
        tree.collect()


def kill_now(tree: ProcessTree) -> None:
    """The third rung alone, without an event loop; takes up to 0.1 s."""
    for _ in range(KILL_ROUNDS):
        if nothing_lives(tree):
            break
        tree.signal(signal.SIGKILL)
        time.sleep(KILL_ROUND_SECONDS)
    tree.collect()


async def _all_ended(tree: ProcessTree, exited: Future[None], seconds: float) -> bool:
    """Whether all known processes end in time; those started meanwhile are looked for, too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(POLL_SECONDS)
        if exited.done() and not tree.living() and nothing_lives(tree):
            return True
    return False


def nothing_lives(tree: ProcessTree) -> bool:
    """Look twice: orphans are found only when their parents have ended, perhaps during the first
    look."""
    for _ in range(2):
        tree.refresh()
        if tree.unsure or tree.living():
            return False
    return True
