"""Reading a file that somebody else may have made: a pipe, a device or too much is refused."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def read_regular(path: str | Path, limit: int) -> bytes:
    """Return the whole file. Raises OSError, or ValueError that says what it is instead."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is no regular file")
        pieces: list[bytes] = []
        left = limit + 1
        while left > 0 and (piece := os.read(file, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    finally:
        os.close(file)
    if left <= 0:
        raise ValueError(f"it is larger than {limit} bytes")
    return b"".join(pieces)
