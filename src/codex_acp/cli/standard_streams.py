"""Standard streams that this process was started without, as by ``>&-``.

Python has None in their place, and whatever is opened next gets their descriptor: then a socket
would be what the protocol is written to.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TextIO

_MODES: Final = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)
"""Input is at its end, what is said on standard error goes nowhere, and of standard output whoever
writes there learns that it cannot be written."""


def put_in_place() -> None:
    """Have all three."""
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
    """Whether it is the output that this process was started without."""
    if stream is None:
        return True
    import fcntl

    try:
        flags = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL)
    except (AttributeError, OSError, ValueError):  # no file at all, as in tests
        return False
    return flags & os.O_ACCMODE == os.O_RDONLY
