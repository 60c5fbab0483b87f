"""Files that somebody else may have made, and files that are the user's alone.

What is read is refused if it is a pipe, a device or too much. A transcript, a log or a journal is
appended to where nobody else can choose what is written to. Loaded before Codex is spawned, so it
imports next to nothing.
"""

from __future__ import annotations

import errno
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


_MODE = 0o600
"""Permissions of a new file: who asked what of whom is the user's alone."""

_FLAGS = os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""Without O_NONBLOCK a pipe that nobody reads would hold up the whole program."""

_MAX_LINKS = 8
"""Symbolic links, one behind the other."""


def open_private(
    path: str | os.PathLike[str], *, tighten: bool = False, readable: bool = False
) -> int:
    """A descriptor that appends to ``path``; a new file is for its owner alone.

    Where others may write, too (``/tmp``), nothing of theirs is opened or followed: a link there
    would let them choose what is written to. ``tighten`` takes from an existing file of ours the
    permissions that a new one would not have; ``readable`` is for `append_line`. Raises OSError, or
    ValueError for a NUL.
    """
    flags = _FLAGS | (os.O_RDWR if readable else os.O_WRONLY)
    name = os.fspath(path)
    for _ in range(_MAX_LINKS):
        folder = os.path.dirname(name) or os.curdir  # noqa: PTH120 - no pathlib here
        if not os.stat(folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH):  # noqa: PTH116
            return _tightened(os.open(name, flags, _MODE), tighten)
        try:
            file = os.open(name, flags | os.O_NOFOLLOW, _MODE)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):  # EMLINK: FreeBSD's
                raise
            if not _is_trusted(os.lstat(name)):
                raise _of_others(name) from error
            name = os.path.join(folder, os.readlink(name))  # noqa: PTH115, PTH118
            continue
        found = os.fstat(file)
        if not _is_trusted(found) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
            os.close(file)
            raise _of_others(name)
        return _tightened(file, tighten)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def append_line(file: int, line: bytes) -> None:
    """Append a line to ``file``, open to be read as well, behind one that a crash cut off. Raises
    OSError."""
    size = os.fstat(file).st_size
    torn = size and os.pread(file, 1, size - 1) != b"\n"
    rest = b"\n" + line if torn else line
    while rest:
        rest = rest[os.write(file, rest) :]


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _of_others(name: str) -> OSError:
    why = "others may write in its folder, and what stands there under this name is not yours"
    return PermissionError(errno.EPERM, why, name)


def _tightened(file: int, tighten: bool) -> int:
    if tighten:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o177:
            os.fchmod(file, _MODE)
    return file
