"""Read files that others may have made, and append to files that only the user may read.

Imports next to nothing, because this module is loaded before Codex is spawned.
"""

from __future__ import annotations

import errno
import os
import stat

from codex_acp.errors import MisuseError, refuse_unless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


MAX_LINKS = 40
"""Most symbolic links that are followed in one path, as on Linux."""

_PER_PROCESS = ("/proc", "/dev/fd")
"""Directories whose content differs between processes."""


def absolute(what: str, path: str | os.PathLike[str]) -> str:
    """Return the path ``what`` of a program made absolute; its links stay. Raises MisuseError for a
    value that is no path, is not UTF-8, or is relative to a directory that is gone."""
    refuse_unless(isinstance(path, str | os.PathLike), f"{what} is a path", path)
    try:
        found = os.path.abspath(os.fspath(path))  # noqa: PTH100 - Path.absolute keeps ``..``
        found.encode()
    except UnicodeEncodeError as error:
        msg = f"{what} is not UTF-8: no agent takes it: {error.object!r}"
        raise MisuseError(msg) from error
    except FileNotFoundError as error:
        raise MisuseError("the current directory is gone; go to one that there is") from error
    return found


class PerProcessError(OSError):
    """A path can lead to different files in different processes."""


def resolved(path: str) -> str:
    """Return an absolute path with its links followed, whether or not it exists.

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
    """Return `resolved` of a path, which may be relative; empty if that raises OSError."""
    try:
        folder = "" if os.path.isabs(path) else os.getcwd()  # noqa: PTH109, PTH117
        return resolved(os.path.join(folder, path))  # noqa: PTH118
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
    """Return the unread rest of a file; None for more than ``limit`` bytes. Raises OSError."""
    pieces: list[bytes] = []
    room = limit + 1
    while room > 0 and (piece := os.read(file, min(room, 1 << 20))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces) if room > 0 else None


_MODE = 0o600
"""Permissions of a new file."""

_FLAGS = os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
"""O_NONBLOCK: a pipe without a reader must not stop the whole program."""


def open_private(
    path: str | os.PathLike[str], *, tighten: bool = False, readable: bool = False
) -> int:
    """Return a descriptor that appends to ``path``; only the owner may read and write a new file.

    In a folder in which others may write (``/tmp``), files and links of others are refused: a link
    would let them choose the file. ``tighten`` gives this user's existing file the permissions of a
    new one. `append_line` needs ``readable``. Raises OSError, or ValueError for a NUL in the path.
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
            if error.errno not in (errno.ELOOP, errno.EMLINK):  # no link; EMLINK: FreeBSD's
                raise
            if not _is_trusted(os.lstat(name)):
                raise _not_yours(name) from error
            name = os.path.join(folder, os.readlink(name))  # noqa: PTH115, PTH118
            continue
        found = os.fstat(file)
        has_other_name = stat.S_ISREG(found.st_mode) and found.st_nlink > 1
        if not _is_trusted(found) or has_other_name:
            os.close(file)
            raise _not_yours(name)
        return _tightened(file, tighten)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def append_line(file: int, line: bytes) -> None:
    """Append a line; first end a line that a crash cut off. Raises OSError."""
    size = os.fstat(file).st_size
    is_cut_off = size and os.pread(file, 1, size - 1) != b"\n"
    rest = b"\n" + line if is_cut_off else line
    while rest:
        rest = rest[os.write(file, rest) :]


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to the disk, to survive a loss of power."""
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
        is_own_file = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if is_own_file and found.st_mode & (0o777 & ~_MODE):
            os.fchmod(file, _MODE)
    return file
