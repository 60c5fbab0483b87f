"""Prepare the process of a command: its standard streams, and secrets in its environment.

Loaded before Codex is spawned, so this module imports little.
"""

from __future__ import annotations

import os
import sys

COMPLAINT_MILLISECONDS = 200
"""Time for a full stderr to become writable."""


def complain(message: str) -> None:
    """Write one line to stderr, or drop it if stderr stays full: the process must not block."""
    from select import POLLOUT, poll

    poller = poll()
    try:
        if os.isatty(stderr()):
            from codex_acp.cli.terminal import error_text

            line = error_text(message)
        else:  # saves the time to load `terminal`
            from codex_acp._glyphs import plain_text

            line = plain_text(message).replace("\n", " ") + "\n"
        poller.register(stderr(), POLLOUT)
        if poller.poll(COMPLAINT_MILLISECONDS):
            os.write(stderr(), line.encode(errors="backslashreplace"))
    except (OSError, ValueError):
        return


def stderr() -> int:
    """Return the descriptor of stderr for `os.write`, because a write that blocks in ``sys.stderr``
    keeps its lock. Return -1 if the process was started without stderr: 2 may be another file."""
    return 2 if sys.stderr is not None else -1


# Standard streams that this process was started without, for example by ``>&-``. Python sets them
# to None, and the next file or socket that is opened gets the descriptor 0, 1 or 2.

_MODES = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)
"""Modes of ``/dev/null`` in place of stdin, stdout (where a write has to fail) and stderr."""


def open_missing_streams() -> None:
    """Open ``/dev/null`` for each standard stream that is missing."""
    for descriptor, mode in enumerate(_MODES):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, mode)
            os.set_inheritable(opened, True)
            assert opened == descriptor, "open takes the lowest free descriptor"
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


# Variables that only this command may read. Child processes inherit the environment, and
# ``/proc/PID/environ`` shows the environment of the start, with variables that were unset since.

TOKEN_VARIABLE = "CODEX_ACP_TOKEN"
"""The environment variable with the one token that all clients send."""
_hidden_token: list[str] = []
"""The token, until a command takes it."""


def take_variables(*names: str) -> list[str]:
    """Remove variables from the environment and from ``/proc/PID/environ``; return their values.
    Codex would inherit the variables, and the model's commands can read Codex's environment."""
    import ctypes

    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    values = []
    for name in names:
        if name in os.environ:
            if address := getenv(os.fsencode(name)):
                ctypes.memset(address, 0, len(ctypes.string_at(address)))
            values.append(os.environ.pop(name))
    return values


def hide_token() -> None:
    """Remove the token of clients from the environment, and keep the token for `take_token`."""
    _hidden_token[:] = take_variables(TOKEN_VARIABLE)


def take_token() -> str | None:
    """Return the clients' token from the environment; None if there was none, or it was taken."""
    if TOKEN_VARIABLE in os.environ:
        hide_token()
    return _hidden_token.pop() if _hidden_token else None
