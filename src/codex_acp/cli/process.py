"""The process of a command: its standard streams, and the secrets of its environment.

Loaded before Codex is spawned, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from typing import TextIO

COMPLAINT_MILLISECONDS = 200
"""How long somebody may take to make room for the last words of this process."""


def complain(message: str) -> None:
    """Write one line on stderr, if somebody reads it: the process must not wait at its end."""
    from select import POLLOUT, poll

    room = poll()
    try:
        if os.isatty(stderr()):
            from codex_acp.cli.terminal import error_text

            message = error_text(message).removesuffix("\n")
        room.register(stderr(), POLLOUT)
        if room.poll(COMPLAINT_MILLISECONDS):
            os.write(stderr(), f"{message}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        return


def stderr() -> int:
    """Return its descriptor: a stuck write to ``sys.stderr`` holds a lock. -1 if started without
    one: 2 may be anything."""
    return 2 if sys.stderr is not None else -1


# Standard streams that this process was started without, as by ``>&-``: Python has None in their
# place, and whatever is opened next gets their descriptor: then a socket would be what the protocol
# is written to.

_MODES = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)
"""Input is at its end, what is said on standard error goes nowhere, and of standard output whoever
writes there learns that it cannot be written."""


def put_in_place() -> None:
    """Open the standard streams that are missing."""
    for descriptor, mode in enumerate(_MODES):
        try:
            os.fstat(descriptor)
        except OSError:
            got = os.open(os.devnull, mode)
            os.set_inheritable(got, True)
            assert got == descriptor, "the lowest that is free"
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def cannot_be_written(stream: TextIO | None) -> bool:
    """Return whether it is the output that this process was started without."""
    if stream is None:
        return True
    import fcntl

    try:
        flags = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL)
    except (AttributeError, OSError, ValueError):  # no file at all, as in tests
        return False
    return flags & os.O_ACCMODE == os.O_RDONLY


# Variables that are this command's alone. What it starts inherits the environment; and whoever may
# read ``/proc/PID/environ`` reads the memory that the process was started with, in which a variable
# stays that was only unset.

_taken: list[str] = []
"""The token of clients, until a command asks for it."""


TOKEN_VARIABLE = "CODEX_ACP_TOKEN"
"""The environment variable with the one token of all clients."""


def take_variables(*names: str) -> list[str]:
    """Remove these from the environment and from the memory that they came in; return the values.

    Codex would inherit them, and the model's commands can read what Codex has in its environment.
    """
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    values = []
    for name in names:
        if name in os.environ:
            if place := getenv(os.fsencode(name)):
                ctypes.memset(place, 0, len(ctypes.string_at(place)))
            values.append(os.environ.pop(name))
    return values


def hide_token() -> None:
    """Take the token of clients out of the environment, and keep it for `take_token`."""
    _taken[:] = take_variables(TOKEN_VARIABLE)


def take_token() -> str | None:
    """Return the token of clients that the environment had, the first time; None without one."""
    if TOKEN_VARIABLE in os.environ:
        hide_token()
    return _taken.pop() if _taken else None
