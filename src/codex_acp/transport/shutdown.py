"""The ladder that ends a child process and all it started, within half a second.

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

    from codex_acp.transport.process_tree import ProcessTree

__all__ = ["shut_down"]

STDIN_SECONDS: Final = 0.2
"""For the child to exit by itself once its stdin is closed; Codex takes about 100 ms."""

TERMINATE_SECONDS: Final = 0.1
"""For a clean-up after SIGTERM; longer would be felt by a person who closes an editor."""

KILL_SECONDS: Final = 0.2
"""For the kernel to end what SIGKILL hit, and to find what was forked meanwhile."""

LOOK_SECONDS: Final = 0.04
"""Between two looks at the process table: descendants are found before their parent dies.
A look costs about 10 ms on a machine with 500 processes."""

POLL_SECONDS: Final = 0.01
"""Between two looks at whether known processes have ended, which cost some 20 µs each."""


async def shut_down(
    tree: ProcessTree, exited: Future[None], stdin_seconds: float = STDIN_SECONDS
) -> None:
    """End a process, whose stdin the caller has closed, and all that came of it.

    ``exited`` is done when the root has ended, and whoever set it has refreshed the tree at that
    moment. Returns as soon as nothing lives any more.
    """
    try:
        if await _ended_by_itself(tree, exited, stdin_seconds):
            return
        tree.signal(signal.SIGTERM)
        if await _all_ended(tree, exited, TERMINATE_SECONDS):
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


async def _ended_by_itself(tree: ProcessTree, exited: Future[None], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not exited.done() and time.monotonic() < end:
        left = end - time.monotonic()
        await asyncio.wait({exited}, timeout=min(left, LOOK_SECONDS))
        if not exited.done():
            tree.refresh()
    return exited.done() and _nothing_lives(tree)


async def _all_ended(tree: ProcessTree, exited: Future[None], seconds: float) -> bool:
    """Whether all known processes end in time; those started meanwhile are looked for, too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(POLL_SECONDS)
        if exited.done() and not tree.living() and _nothing_lives(tree):
            return True
    return False


def _nothing_lives(tree: ProcessTree) -> bool:
    """By a new look: orphans are found only now that their parents have ended."""
    tree.refresh()
    if tree.unsure:
        tree.refresh()
    return not tree.living()
