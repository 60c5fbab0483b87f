"""The directories of a session, and the way from them to a file: no way leads out.

Each root is opened once, when the session begins. A path is walked from there, directory by
directory, and the kernel never follows a symbolic link: one that is found is read, and its target
walked in the same manner, so that it leads to where it may or nowhere. What is renamed or replaced
meanwhile changes where the walk goes, never how far. Must not know what is done with a file.
POSIX only.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INVALID_PARAMS

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

FOLLOW_NOTHING: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | FOLLOW_NOTHING
_NEW_DIRECTORY_MODE: Final = 0o777

MAX_LINKS: Final = 40
"""Links followed for one path; as many as Linux follows."""

MAX_DEPTH: Final = 100
"""Names from a root to a file: each takes a descriptor while it is passed."""

MAX_PATH: Final = 4096
"""Bytes of a path: Linux takes no more, so that who cleans up could not reach what lies deeper."""


@dataclass(frozen=True, slots=True)
class _Root:
    spellings: tuple[tuple[str, ...], ...]
    """The names from ``/`` on: as it was given, and without links."""
    real: str
    fd: int


class Roots:
    """Open until `close`; a directory that is not there is left out."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._roots: list[_Root] = []
        for path in dict.fromkeys(paths):
            real = os.path.realpath(path)
            try:
                fd = _open_real(real)
            except OSError as error:
                logger.warning("%s cannot be read or written: %s", path, error.strerror)
                continue
            self._roots.append(_Root((_names(path), _names(real)), real, fd))

    def close(self) -> None:
        """Nothing is found any more; what is being walked goes on."""
        with self._lock:
            roots, self._roots = self._roots, []
        for root in roots:
            os.close(root.fd)

    def __del__(self) -> None:
        self.close()

    def find(self, stack: ExitStack, path: str, *, make: bool) -> tuple[int, str]:
        """The directory that holds the file, and the name in it, which is no link.

        The descriptor is the stack's. ``make``: directories that are missing are made. Raises
        RpcError for what is outside and for a directory, and OSError.
        """
        _must_be_short(path)
        if not path.startswith("/"):
            raise RpcError(INVALID_PARAMS, f"{path!r} is not an absolute path")
        root, names = self._start(stack, path, path)
        folders = [root.fd]
        links = 0
        while names:
            if len(folders) + len(names) - 1 > MAX_DEPTH:  # before any of them is made
                message = f"{path} goes through more than {MAX_DEPTH} directories"
                raise RpcError(INVALID_PARAMS, message)
            name = names.popleft()
            if name == ".." and len(folders) > 1:
                folders.pop()
                continue
            if name == "..":
                way = os.path.dirname(root.real)  # noqa: PTH120 - text, nothing is looked up
            else:
                target = _target(folders[-1], name)
                if target is None and not names:
                    return folders[-1], name
                if target is None:
                    folders.append(_descend(stack, folders, name, make=make))
                    continue
                if not target.startswith("/"):
                    way = ""
                    names.extendleft(reversed(_names(target)))
                else:
                    way = target
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if way:
                root, names = self._start(stack, path, "/".join([way, *names]))
                folders = [root.fd]
        raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")

    def _start(self, stack: ExitStack, path: str, way: str) -> tuple[_Root, deque[str]]:
        """The innermost root that the way leads into, as a descriptor of its own, and the rest."""
        for spelled in (way, None):
            names = _names(os.path.realpath(way) if spelled is None else way)
            with self._lock:
                fitting = [
                    (len(spelling), root)
                    for root in self._roots
                    for spelling in root.spellings
                    if names[: len(spelling)] == spelling
                ]
                if fitting:
                    length, root = max(fitting, key=lambda one: one[0])
                    fd = _again(root)
                    stack.callback(os.close, fd)
                    return _Root((), root.real, fd), deque(names[length:])
        raise RpcError(INVALID_PARAMS, f"{path} is outside the directories of this session")


def _must_be_short(path: str) -> None:
    size = len(path.encode("utf-8", "surrogatepass"))
    if size >= MAX_PATH:  # shown by its beginning only
        message = f"{path[:80]!r}… is no path: its {size} bytes are above the limit of {MAX_PATH}"
        raise RpcError(INVALID_PARAMS, message)


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _target(folder: int, name: str) -> str | None:
    """Where a link leads; None of what is no link, or not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _descend(stack: ExitStack, folders: list[int], name: str, *, make: bool) -> int:
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=folders[-1])
    fd = os.open(name, _DIRECTORY, dir_fd=folders[-1])
    stack.callback(os.close, fd)
    return fd


def _again(root: _Root) -> int:
    """The root's directory; if it was deleted, the one that is in its place now."""
    if os.fstat(root.fd).st_nlink:
        return os.dup(root.fd)
    return _open_real(root.real)


def _open_real(real: str) -> int:
    """A directory by a path in which nothing may be a link."""
    fd = os.open("/", _DIRECTORY)
    for name in _names(real):
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
