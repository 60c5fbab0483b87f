"""Serve ``fs/read_text_file`` and ``fs/write_text_file``, confined to the directories of `Roots`.

Owns reading and writing text, the limits, and finding a file without leaving the roots. Must not
know which session asks. `FileThreads` calls the functions in threads, because they block. POSIX
only.
Source: https://agentclientprotocol.com/protocol/v1/file-system
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import stat
import sys
import threading
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from codex_acp._files import MAX_LINKS, absolute, resolved
from codex_acp.errors import RpcError, must_be_count, several
from codex_acp.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

logger = logging.getLogger(__name__)

SIZE_LIMIT: Final = 10 * 1024 * 1024
"""Most bytes of text that are read or written: a source file has fewer."""
LOOK_LIMIT: Final = 256 * 1024 * 1024
"""Bytes of a file that are searched for the requested lines; a log may be that long."""
READ_SIZE: Final = 64 * 1024
"""Bytes of one read."""
VIRTUAL: Final = ("/proc", "/sys")
"""Directories whose files are refused: reading them may not end, or have an effect."""
_NEW_FILE_MODE: Final = 0o666
_NEW_DIRECTORY_MODE: Final = 0o777
_PERMISSIONS: Final = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO

_NO_LINK: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | _NO_LINK
MAX_DEPTH: Final = 100
"""Directories from a root to a file: each takes a file descriptor during the search."""
MAX_PATH: Final = 4096
"""Bytes of a path, as in Linux: a deeper file could not be removed by its path."""

CALL_SECONDS: Final = 10.0
"""Seconds for one call and its wait for a thread. A file of 10 MiB takes a hundredth of that."""
MAX_THREADS: Final = 4
"""Threads at a time: an agent may request many files at once, and each call may hang for ever."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Rights of an agent to files. Only allowed methods are advertised."""

    read: bool = True
    """Whether to allow ``fs/read_text_file``."""
    write: bool = False
    """Whether to allow ``fs/write_text_file``, which also makes missing directories."""
    roots: tuple[str | os.PathLike[str], ...] = ()
    """Directories for files, besides the session's cwd and additional directories."""
    size_limit: int = SIZE_LIMIT
    """Bytes of text that one request may read or write."""

    def __post_init__(self) -> None:
        roots = tuple(absolute("a root", root) for root in several("roots", self.roots))
        object.__setattr__(self, "roots", roots)
        must_be_count("size_limit", self.size_limit)


def read_text(
    roots: Roots,
    path: str,
    line: int | None,
    limit: int | None,
    size_limit: int,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Return ``limit`` lines of a file from ``line`` on (counted from 1), with their line ends.
    ``check`` is called after each read; an exception ends the reading. Raises RpcError."""
    with _os_errors_as_rpc(path), ExitStack() as stack:
        folder, name = roots.find(stack, path, make=False)
        # Check before the file is opened, because opening a device may have an effect.
        _must_be_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        # O_NONBLOCK: if the file has become a FIFO, do not wait for its writer.
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
        stack.callback(os.close, fd)
        status = os.fstat(fd)
        _must_be_regular(status, path)
        chunks = _read_chunks(fd, status.st_size, check)
        data = _select_lines(chunks, line, limit, size_limit, path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RpcError(INVALID_PARAMS, f"{path} is not text in UTF-8") from None


def write_text(
    roots: Roots, path: str, content: str, size_limit: int, check: Callable[[], None] = lambda: None
) -> None:
    """Replace the content of a file, or make the file. Raises RpcError. ``check`` is called before
    the file is replaced; an exception leaves the file as it was."""
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise RpcError(INVALID_PARAMS, "the content is not valid text") from None
    if len(data) > size_limit:
        raise RpcError(INVALID_PARAMS, f"{len(data)} bytes are above the limit of {size_limit}")
    with _os_errors_as_rpc(path), ExitStack() as stack:
        folder, name = roots.find(stack, path, make=True)
        _replace_file(folder, name, data, _mode_of(folder, name, path), check)


@contextmanager
def _os_errors_as_rpc(path: str) -> Iterator[None]:
    """Turn OSError into RpcError, without other paths in its message."""
    try:
        yield
    except FileNotFoundError:
        raise RpcError(RESOURCE_NOT_FOUND, f"{path} does not exist") from None
    except OSError as error:
        raise RpcError(INTERNAL_ERROR, f"{path}: {error.strerror}") from None
    except ValueError:  # a NUL in the path
        raise RpcError(INVALID_PARAMS, f"{path!r} is no path") from None


def _must_be_regular(status: os.stat_result, path: str) -> None:
    """Raise RpcError unless the file is regular and on no device of `VIRTUAL`."""
    virtual: set[int] = set()
    for name in VIRTUAL if sys.platform == "linux" else ():
        with suppress(OSError):
            virtual.add(Path(name).stat().st_dev)
    if not stat.S_ISREG(status.st_mode) or status.st_dev in virtual:
        raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")


def _read_chunks(fd: int, size: int, check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the first ``size`` bytes of a file, but no bytes that are appended meanwhile."""
    while size > 0 and (data := os.read(fd, min(READ_SIZE, size))):
        size -= len(data)
        yield data
        check()


def _select_lines(
    chunks: Iterator[bytes], line: int | None, limit: int | None, size_limit: int, path: str
) -> bytes:
    """Return ``limit`` lines from ``line`` on; read no chunk after these lines."""
    lines_to_skip, lines_left = max((line or 1) - 1, 0), limit
    result = bytearray()
    if lines_left == 0:
        return b""
    searched = 0
    for chunk in chunks:
        searched += len(chunk)
        start = 0
        while lines_to_skip and (line_end := chunk.find(b"\n", start)) >= 0:
            lines_to_skip, start = lines_to_skip - 1, line_end + 1
        end = len(chunk)
        if lines_to_skip:
            start = end
        elif lines_left is not None:
            end = start
            while lines_left and (line_end := chunk.find(b"\n", end)) >= 0:
                end, lines_left = line_end + 1, lines_left - 1
            if lines_left:
                end = len(chunk)
        result += chunk[start:end]
        if len(result) > size_limit:
            message = f"{path} is above the limit of {size_limit} bytes; use line and limit"
            raise RpcError(INVALID_PARAMS, message)
        if lines_left == 0:
            break
        if searched > LOOK_LIMIT:
            message = f"{path}: only its first {LOOK_LIMIT} bytes are looked at for lines"
            raise RpcError(INVALID_PARAMS, message)
    return bytes(result)


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """Return the permissions of a file, without setuid and setgid: a program that an agent writes
    must not run with another user's rights. None if the file does not exist."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_regular(status, path)
    if not os.access(name, os.W_OK, dir_fd=folder):  # a rename would ignore the file's mode
        raise RpcError(INTERNAL_ERROR, f"{path}: it is read-only")
    return status.st_mode & _PERMISSIONS


def _replace_file(
    folder: int, name: str, data: bytes, mode: int | None, check: Callable[[], None]
) -> None:
    """Write and rename a temporary file, so that no reader sees half, and no link is followed."""
    temporary = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    fd = os.open(temporary, flags, _NEW_FILE_MODE, dir_fd=folder)
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)
        check()
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


# Blocking calls in threads that can be abandoned: a disk may be slow, or not answer at all.


class FileThreads:
    """Runs calls in at most ``count`` threads, each call for at most ``seconds``. Longer calls are
    abandoned: their threads run on. Each call first waits for ``drain``, so that an agent that does
    not read the answers gets no more answers."""

    def __init__(
        self,
        seconds: float = CALL_SECONDS,
        count: int = MAX_THREADS,
        drain: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._seconds = seconds
        self._drain = drain
        self._slots = asyncio.Semaphore(count)

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Run ``work`` in a thread and return its result. Raises RpcError after the time limit.
        ``work`` gets a function to call often, which raises if the thread was abandoned."""
        loop = asyncio.get_running_loop()
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise RpcError(INTERNAL_ERROR, "nobody waits for it any more")

        def call() -> T:
            try:
                return work(check)
            finally:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._slots.release)

        try:
            with anyio.fail_after(self._seconds):
                await self._slots.acquire()
                try:
                    if self._drain is not None:
                        await self._drain()
                except BaseException:
                    self._slots.release()  # no thread was started that would release it
                    raise
                return await in_worker_thread(call)
        except TimeoutError:
            message = f"it took longer than {self._seconds:g} seconds and was given up"
            raise RpcError(INTERNAL_ERROR, message) from None
        finally:
            abandoned.set()


@dataclass(frozen=True, slots=True)
class _Root:
    spellings: tuple[tuple[str, ...], ...]
    """The names from ``/`` to the root: of the given path, and of the path without links."""
    real: str
    """The path without links."""
    fd: int
    """The open directory."""


class Roots:
    """The directories that an agent may access, open until `close`, without missing directories."""

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
        """Close the roots: `find` finds nothing any more, but running searches go on."""
        with self._lock:
            roots, self._roots = self._roots, []
        for root in roots:
            os.close(root.fd)

    def __del__(self) -> None:
        self.close()

    def find(self, stack: ExitStack, path: str, *, make: bool) -> tuple[int, str]:
        """Return a descriptor of the file's directory, and the file's name there, which is no link.
        ``stack`` closes the descriptor. ``make`` makes missing directories. Raises OSError, and
        RpcError for a path outside the roots or of a directory."""
        _must_be_path(path)
        root, names = self._innermost_root(stack, path, path)
        folder_fds = [root.fd]
        links = 0  # also counts the ways out of a root
        while names:
            if len(folder_fds) + len(names) - 1 > MAX_DEPTH:  # before a directory is made
                message = f"{path} goes through more than {MAX_DEPTH} directories"
                raise RpcError(INVALID_PARAMS, message)
            name = names.popleft()
            if name == ".." and len(folder_fds) > 1:
                folder_fds.pop()
                continue
            new_start = ""
            if name == "..":  # out of the root, perhaps into another one
                new_start = os.path.dirname(root.real)  # noqa: PTH120 - a text operation
            else:
                target = _target(folder_fds[-1], name)
                if target is None and not names:
                    return folder_fds[-1], name
                if target is None:
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=folder_fds[-1])
                    folder_fds.append(os.open(name, _OPEN_DIRECTORY, dir_fd=folder_fds[-1]))
                    stack.callback(os.close, folder_fds[-1])
                    continue
                if target.startswith("/"):
                    new_start = target
                else:
                    names.extendleft(reversed(_names(target)))
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if new_start:
                root, names = self._innermost_root(stack, path, "/".join([new_start, *names]))
                folder_fds = [root.fd]
        raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")

    def _innermost_root(self, stack: ExitStack, path: str, target: str) -> tuple[_Root, deque[str]]:
        """Return the innermost root around ``target``, with a new descriptor, and the names of
        ``target`` below the root. ``path`` is for the error."""
        for follow_links in (False, True):
            try:
                names = _names(resolved(target) if follow_links else target)
            except OSError:  # a circle of links, or /proc/self, which is another for the agent
                break
            with self._lock:
                fitting = [
                    (len(spelling), root)
                    for root in self._roots
                    for spelling in root.spellings
                    if names[: len(spelling)] == spelling
                ]
                if fitting:
                    length, root = max(fitting, key=lambda fit: fit[0])
                    was_deleted = not os.fstat(root.fd).st_nlink  # then open its path anew
                    fd = _open_real(root.real) if was_deleted else os.dup(root.fd)
                    stack.callback(os.close, fd)
                    return _Root((), root.real, fd), deque(names[length:])
        raise RpcError(INVALID_PARAMS, f"{path} is outside the directories of this session")


def _must_be_path(path: str) -> None:
    size = len(path.encode("utf-8", "surrogatepass"))
    if size >= MAX_PATH:
        message = f"{path[:80]!r}… is no path: its {size} bytes are above the limit of {MAX_PATH}"
        raise RpcError(INVALID_PARAMS, message)
    if not path.startswith("/"):
        raise RpcError(INVALID_PARAMS, f"{path!r} is not an absolute path")


def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _target(folder: int, name: str) -> str | None:
    """Return the target of a link; None if the name is no link or does not exist."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _open_real(real: str) -> int:
    """Open a directory by a path in which no name may be a link."""
    fd = os.open("/", _OPEN_DIRECTORY)
    for name in _names(real):
        try:
            inner = os.open(name, _OPEN_DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
