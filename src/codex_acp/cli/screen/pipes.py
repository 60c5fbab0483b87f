"""Tells the streams of the command apart, where a program stands between them and the person."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import struct
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp.cli.standard_streams import cannot_be_written

if TYPE_CHECKING:
    from typing import TextIO

SHOWN_SECONDS: Final = 0.1
"""For the reader of a pipe to show what it took, as ``tee`` does on the same terminal."""

LOOKS: Final = 200
"""How often, each a tenth of that later, it is seen whether the reader took all: for two seconds.
One that does not read shows nothing either."""


def opened(stream: TextIO | None) -> TextIO:
    """``stream``, or one that goes nowhere where this process was started without it."""
    if stream is None or cannot_be_written(stream):
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123
    return stream


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sits at it."""
    with suppress(AttributeError, ValueError):  # there is none, or it is closed
        return stream is not None and stream.isatty()
    return False


def is_file(stream: TextIO) -> bool:
    """Whether what is written goes to a file: no screen shows it beside the questions."""
    return stat.S_ISREG(_mode(stream))


def is_pipe(stream: TextIO) -> bool:
    """Whether another program gets what is written, and may show it when it likes."""
    return stat.S_ISFIFO(_mode(stream)) or stat.S_ISSOCK(_mode(stream))


async def until_read(stream: TextIO) -> None:
    """Wait until a pipe's reader has taken what was written, and had time to show it; bounded."""
    if not is_pipe(stream):
        return
    for _ in range(LOOKS):
        if not _unread(stream):
            break
        await asyncio.sleep(SHOWN_SECONDS / 10)
    await asyncio.sleep(SHOWN_SECONDS)


def _unread(stream: TextIO) -> int:
    with suppress(OSError, ValueError):
        answer = fcntl.ioctl(stream.fileno(), termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", answer)[0])
    return 0


def _mode(stream: TextIO) -> int:
    with suppress(AttributeError, OSError, ValueError):
        return os.fstat(stream.fileno()).st_mode
    return 0
