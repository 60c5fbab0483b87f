"""The standard error of the command, which nobody may have, or read.

Loaded before Codex is spawned, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

COMPLAINT_MILLISECONDS = 200
"""How long somebody may take to make room for the last words of this process."""


def complain(message: str) -> None:
    """One line on stderr, if somebody reads it: the end of the process must not wait for that."""
    from select import POLLOUT, poll

    room = poll()
    try:
        room.register(stderr(), POLLOUT)
        if room.poll(COMPLAINT_MILLISECONDS):
            os.write(stderr(), f"{message}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        return


def stderr() -> int:
    """Not ``sys.stderr``: whoever is stuck in a write to that holds a lock of the interpreter.

    A descriptor of nothing if this process was started without one: 2 may be anything then.
    """
    return 2 if sys.stderr is not None else -1
