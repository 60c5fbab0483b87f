"""The lines of a transcript file, each an event or what is wrong with it; also as they come.

Owns the limits of what is read. A line that cannot be read never ends the others.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.errors import InvalidPayload, MisuseError
from codex_acp.jsonrpc.framing import LineFramer, TooLong
from codex_acp.transcript.codec import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

    from codex_acp.transcript.events import Entry

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a line that is read at all."""

VALUE_LIMIT: Final = 300_000
"""Values of a line that is read at all: an empty list is two bytes there, and 56 in the memory."""

_VALUES: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{,])')
"""A text, or what begins a value or comes before one."""

CHUNK: Final = 256 * 1024

LOOK_SECONDS: Final = 0.2
"""How often a file that is followed is looked at."""

STANDARD_INPUT: Final = "-"


class Line(NamedTuple):
    """One line: ``entry``, or the ``problem`` with it."""

    entry: Entry | None
    text: str
    """As it stands in the file; of a line that is too long its beginning."""
    problem: str = ""


def read_line(data: bytes | TooLong) -> Line:
    """One line without its end. Never raises."""
    if isinstance(data, TooLong):
        head = data.head.decode(errors="replace")
        return Line(None, head, f"it is longer than {data.limit} bytes")
    text = data.decode(errors="backslashreplace")
    if _has_too_many_values(text):
        return Line(None, text, f"it holds more than {VALUE_LIMIT} values")
    try:
        return Line(from_json(json.loads(text)), text)
    except InvalidPayload as error:
        return Line(None, text, "; ".join(error.problems[:3]))
    except (ValueError, RecursionError):
        return Line(None, text, "it is not JSON")


def _has_too_many_values(text: str) -> bool:
    """Return whether JSON would take much more memory as objects than as text."""
    if sum(map(text.count, "[{,")) <= VALUE_LIMIT:
        return False
    found = islice(_VALUES.finditer(text), 4 * VALUE_LIMIT)  # that many: hardly a value is a text
    counted = 0
    for number, one in enumerate(found, 1):
        counted += one.lastindex is not None
        if counted > VALUE_LIMIT or number == 4 * VALUE_LIMIT:
            return True
    return False


def read(name: str) -> Iterator[Line]:
    """All lines; an unfinished last one is one that cannot be read, if it cannot.

    Raises MisuseError if the file cannot be read.
    """
    framer = LineFramer(LINE_LIMIT)
    with _opened(name) as file:
        while data := _next(name, file):
            yield from map(read_line, framer.feed(data))
    last = framer.finish()
    if last is not None:
        line = read_line(last)
        yield line if line.entry is not None else line._replace(problem="it is not finished")


def follow(name: str) -> Iterator[Line | None]:
    """All lines, and those that are appended; None when all that is there was given.

    Does not end by itself, but for standard input and pipes. A file that was replaced or cut is
    read from its beginning.
    """
    framer = LineFramer(LINE_LIMIT)
    while True:
        with _opened(name) as file:
            read_bytes = 0
            while not _was_replaced(name, file, read_bytes):
                data = _next(name, file)
                read_bytes += len(data)
                yield from map(read_line, framer.feed(data))
                if not data:
                    yield None
                    if not _is_regular(file):
                        return
                    time.sleep(LOOK_SECONDS)
        framer = LineFramer(LINE_LIMIT)


@contextmanager
def _opened(name: str) -> Iterator[FileIO]:
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise _unreadable(name, ValueError("standard input is closed"))
        yield open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
        return
    try:
        file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - closed by whoever uses it
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    with file:
        yield file


def _next(name: str, file: FileIO) -> bytes:
    try:
        return file.read(CHUNK) or b""
    except OSError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError | ValueError) -> MisuseError:
    reason = getattr(error, "strerror", None) or str(error)
    return MisuseError(f"the transcript {name!r} cannot be read: {reason}")


def _is_regular(file: FileIO) -> bool:
    return Path(f"/dev/fd/{file.fileno()}").is_file()


def _was_replaced(name: str, file: FileIO, read_bytes: int) -> bool:
    """Whether the name stands for another file by now, or the file has lost what was read."""
    if name == STANDARD_INPUT or not _is_regular(file):
        return False
    here = os.fstat(file.fileno())
    try:
        there = Path(name).stat()
    except OSError:
        return False  # between two files: the next look finds the new one
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or there.st_size < read_bytes
