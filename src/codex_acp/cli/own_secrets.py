"""Variables that are this command's alone: taken out of its environment, before it starts anything.

What it starts inherits the environment; and whoever may read ``/proc/PID/environ`` reads the memory
that the process was started with, in which a variable stays that was only unset.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

from codex_acp.adapter.network.tokens import TOKEN_VARIABLE

_taken: Final[list[str]] = []
"""The token of clients, until a command asks for it."""


def take_variables(*names: str) -> list[str]:
    """Remove these from the environment and from the memory that they came in; return the values.

    Codex would inherit them, and the model's commands can read what Codex has in its environment.
    """
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
