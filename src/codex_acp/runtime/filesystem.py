"""``fs/read_text_file`` and ``fs/write_text_file`` within `Roots`.

Owns what a file is read and written as, and how much of it is looked at. Must not know who asks,
nor where a file may lie. Blocks: see `FileThreads`. POSIX only.
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

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator


SIZE_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of text that are given or taken: more is no source file, and fills a model's context."""
LOOK_LIMIT: Final = 256 * 1024 * 1024
"""Bytes that are looked at for the lines that are wanted; a log may be that long."""
READ_SIZE: Final = 64 * 1024
VIRTUAL: Final = ("/proc", "/sys")
"""Their files are called regular, and have no size, no end, or an effect when they are read."""
_NEW_FILE_MODE: Final = 0o666
_PERMISSIONS: Final = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Rights of an agent to files; each is advertised only if it is allowed."""

    read: bool = True
    """``fs/read_text_file``."""
    write: bool = False
    """``fs/write_text_file``; directories that are missing are made."""
    roots: tuple[str | os.PathLike[str], ...] = ()
    """Where, besides the session's cwd and additional directories."""
    size_limit: int = SIZE_LIMIT
    """Bytes of one file's text, read or written."""


def read_text(
    roots: Roots,
    path: str,
    line: int | None,
    limit: int | None,
    size_limit: int,
    go_on: Callable[[], None] = lambda: None,
) -> str:
    """The file's text: ``limit`` lines from ``line`` on (1-based), with their ends as they are.

    ``go_on`` is called between two reads, and raises what ends them. Raises RpcError, to be
    answered with, whatever is wrong.
    """
    with _refusing(path), ExitStack() as stack:
        folder, name = roots.find(stack, path, make=False)
        # Not even opened if it is none: to open a device may do something.
        _must_be_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        # Not to wait for the writer of a FIFO; for a regular file it means nothing.
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | FOLLOW_NOTHING, dir_fd=folder)
        stack.callback(os.close, fd)
        found = os.fstat(fd)
        _must_be_regular(found, path)
        chunks = _chunks(fd, found.st_size, go_on)
        data = _lines(chunks, line, limit, size_limit, path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RpcError(INVALID_PARAMS, f"{path} is not text in UTF-8") from None


def write_text(
    roots: Roots, path: str, content: str, size_limit: int, go_on: Callable[[], None] = lambda: None
) -> None:
    """Replace the file as a whole, or make it. Raises RpcError, to be answered with.

    ``go_on`` is called before it takes effect, and raises what prevents that.
    """
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise RpcError(INVALID_PARAMS, "the content is not valid text") from None
    if len(data) > size_limit:
        raise RpcError(INVALID_PARAMS, f"{len(data)} bytes are above the limit of {size_limit}")
    with _refusing(path), ExitStack() as stack:
        folder, name = roots.find(stack, path, make=True)
        mode = _mode_of(folder, name, path)
        _replace(folder, name, data, mode, go_on)


@contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Turn an error of the system into the error to answer with, without what is elsewhere."""
    try:
        yield
    except FileNotFoundError:
        raise RpcError(RESOURCE_NOT_FOUND, f"{path} does not exist") from None
    except OSError as error:
        raise RpcError(INTERNAL_ERROR, f"{path}: {error.strerror}") from None
    except ValueError:  # a NUL in the path
        raise RpcError(INVALID_PARAMS, f"{path!r} is no path") from None


def _must_be_regular(found: os.stat_result, path: str) -> None:
    virtual: set[int] = set()
    for name in VIRTUAL if sys.platform == "linux" else ():
        with suppress(OSError):
            virtual.add(Path(name).stat().st_dev)
    if not stat.S_ISREG(found.st_mode) or found.st_dev in virtual:
        raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")


def _chunks(fd: int, size: int, go_on: Callable[[], None]) -> Iterator[bytes]:
    """Yield what was in the file when it was opened: one that grows as it is read has no end."""
    while size > 0 and (data := os.read(fd, min(READ_SIZE, size))):
        size -= len(data)
        yield data
        go_on()


def _lines(
    chunks: Iterator[bytes], line: int | None, limit: int | None, size_limit: int, path: str
) -> bytes:
    """``limit`` lines from ``line`` on; reads no further than they go."""
    skip, left = max((line or 1) - 1, 0), limit
    taken = bytearray()
    if left == 0:
        return b""
    looked = 0
    for chunk in chunks:
        at = 0
        looked += len(chunk)
        while skip and at < len(chunk):
            end = chunk.find(b"\n", at)
            if end < 0:
                at = len(chunk)
            else:
                skip, at = skip - 1, end + 1
        end = len(chunk)
        if left is not None and not skip:
            end = at
            while left and (found := chunk.find(b"\n", end)) >= 0:
                end, left = found + 1, left - 1
            if left:
                end = len(chunk)
        taken += chunk[at:end]
        if len(taken) > size_limit:
            message = f"{path} is above the limit of {size_limit} bytes; use line and limit"
            raise RpcError(INVALID_PARAMS, message)
        if left == 0:
            break
        if looked > LOOK_LIMIT:
            message = f"{path}: only its first {LOOK_LIMIT} bytes are looked at for lines"
            raise RpcError(INVALID_PARAMS, message)
    return bytes(taken)


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """Return who may do what with the file that is there; None if there is none.

    Without setuid and setgid: what an agent wrote must not run with anybody's rights.
    """
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_regular(found, path)
    if not os.access(name, os.W_OK, dir_fd=folder):  # replacing it would go around its permissions
        raise RpcError(INTERNAL_ERROR, f"{path}: it is read-only")
    return found.st_mode & _PERMISSIONS


def _replace(
    folder: int, name: str, data: bytes, mode: int | None, go_on: Callable[[], None]
) -> None:
    """Write beside it and rename: a reader sees the old or the new, and no link is followed."""
    beside = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | FOLLOW_NOTHING
    fd = os.open(beside, flags, _NEW_FILE_MODE, dir_fd=folder)
    try:
        try:
            if mode is not None:
                os.fchmod(fd, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
        finally:
            os.close(fd)
        go_on()
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


# Blocking calls in threads that nobody has to wait for: a disk may be slow, or gone.

T = TypeVar("T")
CALL_SECONDS: Final = 10.0
"""For one call, with the wait for its turn: a file of 10 MiB takes a hundredth of that."""
MAX_THREADS: Final = 4
"""At a time: an agent may ask for a thousand files at once, and each call may hang for ever."""


class FileThreads:
    """``seconds`` bound each call; a thread that is given up goes on unseen until it can end.

    ``drained`` is waited for before a call, in its turn: who does not take the answers that are
    there is given no further ones to be kept.
    """

    def __init__(
        self,
        seconds: float = CALL_SECONDS,
        count: int = MAX_THREADS,
        drained: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._seconds = seconds
        self._drained = drained
        self._slots = asyncio.Semaphore(count)

    async def run(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Run ``work`` in a thread and return its value. It is handed a function to call as often
        as it can, which raises when nobody waits any more. Raises RpcError if it takes too long.
        """
        loop = asyncio.get_running_loop()
        given_up = threading.Event()
        done: asyncio.Future[T] = loop.create_future()

        def go_on() -> None:
            if given_up.is_set():
                raise RpcError(INTERNAL_ERROR, "nobody waits for it any more")

        def settle(result: T | None, error: Exception | None) -> None:
            self._slots.release()
            if done.done():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # None only with an error
            else:
                done.set_exception(error)

        def call() -> None:
            result, failure = None, None
            try:
                result = work(go_on)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                failure = error
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                return  # the loop is closed: nobody is left to tell

        try:
            with anyio.fail_after(self._seconds):
                await self._slots.acquire()
                try:
                    if self._drained is not None:
                        await self._drained()
                except BaseException:
                    self._slots.release()  # the turn that no thread takes now
                    raise
                # A daemon: what hangs in it must not keep this program from ending.
                threading.Thread(target=call, name="acp file", daemon=True).start()
                return await done
        except TimeoutError:
            message = f"it took longer than {self._seconds:g} seconds and was given up"
            raise RpcError(INTERNAL_ERROR, message) from None
        finally:
            given_up.set()


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
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=folders[-1])
                    folders.append(os.open(name, _DIRECTORY, dir_fd=folders[-1]))
                    stack.callback(os.close, folders[-1])
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
