"""Make, lock and remove directories and files that only the user can read."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codex_acp.jsonrpc import JsonValue

MOST_READ: Final = 256 * 1024 * 1024
"""Most bytes of a file that is read; only an agent's messages make a file of a fleet large."""


def default_root() -> Path:
    """Return the directory for worktrees: not below /tmp, where Codex's sandbox allows writing.
    Raises MisuseError if this user has no home directory."""
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(cache) if cache else Path.home() / ".cache") / "codex-acp-sdk" / "fleet"
    except RuntimeError as error:
        raise MisuseError("this user has no home directory; set XDG_CACHE_HOME") from error


def make_private(folder: Path) -> Path:
    """Make a directory and its parents if they are missing; only the owner can open it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def write_private(path: Path, data: bytes) -> None:
    """Make a new file with ``data``, synced to the disk. Raises OSError, without a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def read_json(path: Path) -> JsonValue:
    """Read JSON from a file that may not be ours. Raises OSError, ValueError."""
    try:
        value: JsonValue = json.loads(read_regular(path, MOST_READ))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def remove_tree(folder: Path) -> None:
    """Remove a folder as far as possible; make its files writable where necessary."""

    def retry(function: Callable[[str], object], name: str, _error: object) -> None:
        """Make ``name`` and its directory writable, then remove ``name``."""
        with suppress(OSError):
            for path in (os.path.dirname(name), name):  # noqa: PTH120 - shutil passes a str
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    os.chmod(path, 0o700)  # noqa: PTH101
            if function is os.unlink or function is os.rmdir:
                function(name)
            else:
                shutil.rmtree(name, ignore_errors=True)

    try:
        shutil.rmtree(folder, onerror=retry)  # `onexc` is not in Python 3.11
    except RecursionError:  # the folder is nested deeper than Python's stack
        for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
            subprocess.run([*command, "--", str(folder)], check=False, capture_output=True)


class FileLock:
    """A lock on a file, which this process has until `release` or its end; no child inherits it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> bool:
        """Take the lock; return False if another process has it. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while self._fd is None:
            fd = os.open(self._path, flags, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_nlink:
                    self._fd = fd
                else:  # the last owner of the lock has removed the file
                    os.close(fd)
            except BaseException as error:
                os.close(fd)
                if isinstance(error, BlockingIOError):
                    return False
                raise
        return True

    def write_owner(self, owner: str) -> None:
        """Write who has the lock, for other processes to show."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, owner.encode(), 0)

    def read_owner(self) -> str:
        """Return the text of the last `write_owner`, even if the lock is free; empty if none."""
        with suppress(OSError, ValueError):
            return read_regular(self._path, 1000).decode(errors="replace").strip()
        return ""

    @contextmanager
    def released_on_error(self) -> Iterator[None]:
        """Release the lock if the block raises."""
        try:
            yield
        except BaseException:
            self.release()
            raise

    def release(self, *, remove: bool = False) -> None:
        """Release the lock; ``remove`` also removes its file."""
        if self._fd is not None:
            if remove:
                self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None
