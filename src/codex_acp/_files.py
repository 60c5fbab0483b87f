"""Read files that others may have made, and append to files that only the user may read.

`resolved` follows the links of a path, within bounds. `read_regular` refuses pipes, devices and
files that are too large. `open_private` appends to a transcript, log or journal, and refuses a file
or link that another user could have put there.
Imports next to nothing, because this module is loaded before Codex is spawned.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


MAX_LINKS = 40
"""Symbolic links in one path, as many as Linux follows."""

_PER_PROCESS = ("/proc", "/dev/fd")
"""Directories whose content differs between processes."""


class PerProcessError(OSError):
    """A path leads to different files in different processes."""


def resolved(path: str) -> str:
    """Return an absolute path with its links followed, whether or not anything is there.

    Raises PerProcessError; OSError for more than `MAX_LINKS`; ValueError for a NUL in the path.
    """
    done, links = "/", 0
    todo = path.split("/")[::-1]
    while todo:
        name = todo.pop()
        if name in ("", "."):
            continue
        if name == "..":
            done = os.path.dirname(done)  # noqa: PTH120 - no pathlib here, as all below
            continue
        step = os.path.join(done, name)  # noqa: PTH118
        if step in _PER_PROCESS:
            why = f"its path leads through {step}, which differs between processes"
            raise PerProcessError(errno.EPERM, why, step)
        try:
            target = os.readlink(step)  # noqa: PTH115
        except OSError:  # no link, or missing
            done = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, "its path has too many links")
        todo += target.split("/")[::-1]
        if target.startswith("/"):
            done = "/"
    return done


def resolved_or_empty(path: str) -> str:
    """Return where a path leads, as `resolved`; empty if that cannot be found out."""
    try:
        above = "" if os.path.isabs(path) else os.getcwd()  # noqa: PTH109, PTH117
        return resolved(os.path.join(above, path))  # noqa: PTH118
    except OSError:
        return ""


def read_regular(path: str | Path, limit: int) -> bytes:
    """Return the content of a file. Raises OSError, or ValueError if the file is not regular or has
    more than ``limit`` bytes."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        content = read_at_most(file, limit) if found.st_size <= limit else None
    finally:
        os.close(file)
    if content is None:
        raise ValueError(f"it is larger than {limit} bytes")
    return content


def read_at_most(file: int, limit: int) -> bytes | None:
    """Return what is left in an open file, None if that is more than ``limit`` bytes. Raises
    OSError."""
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0 and (piece := os.read(file, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces) if left > 0 else None


_MODE = 0o600
"""Permissions of a new file."""

_FLAGS = os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""O_NONBLOCK, so that a pipe that nobody reads does not stop the whole program."""


def open_private(
    path: str | os.PathLike[str], *, tighten: bool = False, readable: bool = False
) -> int:
    """Return a descriptor that appends to ``path``; only the owner may read and write a new file.

    In a folder in which others may write (``/tmp``), files and links of others are refused: a link
    would let them choose the file. ``tighten`` removes from a file of this user the permissions
    that a new one would not have. ``readable`` is for `append_line`. Raises OSError, or ValueError
    for a NUL in the path.
    """
    flags = _FLAGS | (os.O_RDWR if readable else os.O_WRONLY)
    name = os.fspath(path)
    for _ in range(MAX_LINKS):
        folder = os.path.dirname(name) or os.curdir  # noqa: PTH120 - no pathlib here
        if not os.stat(folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH):  # noqa: PTH116
            return _tightened(os.open(name, flags, _MODE), tighten)
        try:
            file = os.open(name, flags | os.O_NOFOLLOW, _MODE)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):  # EMLINK: FreeBSD's
                raise
            if not _is_trusted(os.lstat(name)):
                raise _not_yours(name) from error
            name = os.path.join(folder, os.readlink(name))  # noqa: PTH115, PTH118
            continue
        found = os.fstat(file)
        if not _is_trusted(found) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
            os.close(file)
            raise _not_yours(name)
        return _tightened(file, tighten)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def append_line(file: int, line: bytes) -> None:
    """Append a line to ``file``, which must be readable, too; end a line that a crash has cut off.
    Raises OSError."""
    size = os.fstat(file).st_size
    is_cut_off = size and os.pread(file, 1, size - 1) != b"\n"
    rest = b"\n" + line if is_cut_off else line
    while rest:
        rest = rest[os.write(file, rest) :]


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, so that they survive a loss of power."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _not_yours(name: str) -> OSError:
    why = "others may write in its folder, and what stands there under this name is not yours"
    return PermissionError(errno.EPERM, why, name)


def _tightened(file: int, tighten: bool) -> int:
    if tighten:
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o177:
            os.fchmod(file, _MODE)
    return file
