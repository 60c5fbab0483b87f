"""End a child process and all its descendants in three steps, normally within half a second.

1. Close the child's stdin, and wait a moment for its exit.
2. Send SIGTERM once to all processes that still live, and wait a moment for their clean-up.
3. Send SIGKILL to all processes that still live, until none is found.

Must not know what the child does, nor how its exit is noticed.
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
"""Seconds for a clean-up after SIGTERM: a person who closes an editor would notice more."""

KILL_SECONDS: Final = 1.0
"""Time limit of the third step in seconds. The step normally takes some milliseconds, but on an
overloaded machine the kernel needs longer to end a process."""

LOOK_SECONDS: Final = 0.04
"""Seconds between two reads of the process table, which find descendants before their parents end.
A read takes about 10 ms on a machine with 500 processes."""

POLL_SECONDS: Final = 0.01
"""Seconds between two checks whether known processes have ended; a check takes some 20 µs."""

KILL_ROUNDS: Final = 5
"""Rounds of `kill_now`: between two rounds, processes may fork."""

KILL_ROUND_SECONDS: Final = 0.02
"""Seconds between two rounds: the kernel needs a moment to end a process."""


async def shut_down(
    tree: ProcessTree, exited: Future[None], close_stdin: Callable[[], None], exit_seconds: float
) -> None:
    """End the tree in three steps. The root has ``exit_seconds`` to exit by itself. ``exited`` is
    done once the root has ended and the tree was refreshed."""
    tree.refresh()
    close_stdin()
    end = time.monotonic() + exit_seconds
    while not exited.done() and (left := end - time.monotonic()) > 0:
        await asyncio.wait({exited}, timeout=min(left, LOOK_SECONDS))
        if not exited.done():
            tree.refresh()
    if exited.done() and nothing_lives(tree):
        tree.reap()
    else:
        await terminate(tree, exited, TERMINATE_SECONDS)


async def terminate(tree: ProcessTree, exited: Future[None], seconds: float) -> None:
    """Take the second and third step. The clean-up after SIGTERM has ``seconds``."""
    try:
        tree.refresh()
        tree.signal(signal.SIGTERM)
        if await _all_ended(tree, exited, seconds):
            return
        end = time.monotonic() + KILL_SECONDS
        while time.monotonic() < end:
            # Repeatedly: a process may fork between `refresh` and the signal.
            tree.refresh()
            tree.signal(signal.SIGKILL)
            if await _all_ended(tree, exited, POLL_SECONDS):
                return
    finally:
        tree.reap()


def kill_now(tree: ProcessTree) -> None:
    """Take the third step alone, without an event loop, for up to 0.1 s."""
    for _ in range(KILL_ROUNDS):
        if nothing_lives(tree):
            break
        tree.signal(signal.SIGKILL)
        time.sleep(KILL_ROUND_SECONDS)
    tree.reap()


async def _all_ended(tree: ProcessTree, exited: Future[None], seconds: float) -> bool:
    """Wait until all processes have ended, also new ones; return False after ``seconds``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(POLL_SECONDS)
        # `living` is the cheap check, of known processes only.
        if exited.done() and not tree.living() and nothing_lives(tree):
            return True
    return False


def nothing_lives(tree: ProcessTree) -> bool:
    """Return whether no process of the tree lives. Reads the table twice: if a parent ends during
    the first read, only the second finds its orphans."""
    for _ in range(2):
        tree.refresh()
        if tree.may_miss_some or tree.living():
            return False
    return True
