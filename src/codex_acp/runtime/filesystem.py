"""``fs/read_text_file`` and ``fs/write_text_file``, confined to the roots of a session.

Owns the confinement. A path is resolved, checked against the roots, and then walked from the root
down, directory by directory, with no symbolic link followed: one that is put in between is found.
Must not know who asks. POSIX only.
Source: https://agentclientprotocol.com/protocol/v1/file-system
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.errors import RpcError
from codex_acp.jsonrpc.message import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FileAccess", "read_text", "write_text"]

SIZE_LIMIT: Final = 10 * 1024 * 1024
"""Bytes of text that are given or taken: more is no source file, and fills a model's context."""

READ_SIZE: Final = 64 * 1024

_FOLLOW_NOTHING: Final = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | _FOLLOW_NOTHING
_NEW_FILE_MODE: Final = 0o666
_NEW_DIRECTORY_MODE: Final = 0o777


@dataclass(frozen=True, slots=True)
class FileAccess:
    """What an agent may do with files; each is advertised only if it is allowed."""

    read: bool = True
    """``fs/read_text_file``."""
    write: bool = False
    """``fs/write_text_file``; directories that are missing are made."""
    roots: tuple[str | os.PathLike[str], ...] = ()
    """Where, besides the session's cwd and additional directories."""
    size_limit: int = SIZE_LIMIT
    """Bytes of one file's text, read or written."""


def read_text(
    roots: Sequence[str], path: str, line: int | None, limit: int | None, size_limit: int
) -> str:
    """The file's text: ``limit`` lines from ``line`` on (1-based), with their ends as they are.

    Raises RpcError, to be answered with, whatever is wrong.
    """
    with _refusing(path), ExitStack() as stack:
        root, parts = _within(roots, path)
        folder = _walk(stack, root, parts[:-1], make=False)
        # Not to wait for the writer of a FIFO; for a regular file it means nothing.
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NONBLOCK | _FOLLOW_NOTHING, dir_fd=folder)
        stack.callback(os.close, fd)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")
        data = _lines(_chunks(fd), line, limit, size_limit, path)
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RpcError(INVALID_PARAMS, f"{path} is not text in UTF-8") from None


def write_text(roots: Sequence[str], path: str, content: str, size_limit: int) -> None:
    """Replace the file as a whole, or make it. Raises RpcError, to be answered with."""
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise RpcError(INVALID_PARAMS, "the content is not valid text") from None
    if len(data) > size_limit:
        raise RpcError(INVALID_PARAMS, f"{len(data)} bytes are above the limit of {size_limit}")
    with _refusing(path), ExitStack() as stack:
        root, parts = _within(roots, path)
        folder = _walk(stack, root, parts[:-1], make=True)
        mode = _mode_of(folder, parts[-1], path)
        _replace(folder, parts[-1], data, mode)


class _refusing:  # noqa: N801 - used like a function
    """Turns an error of the system into the error to answer with, without what is elsewhere."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise RpcError(RESOURCE_NOT_FOUND, f"{self._path} does not exist") from None
        if isinstance(error, OSError):
            raise RpcError(INTERNAL_ERROR, f"{self._path}: {error.strerror}") from None
        if isinstance(error, ValueError):  # a NUL in the path
            raise RpcError(INVALID_PARAMS, f"{self._path!r} is no path") from None


def _within(roots: Sequence[str], path: str) -> tuple[str, list[str]]:
    """The root that holds the path's real place, and the names from there to it."""
    if not Path(path).is_absolute():
        raise RpcError(INVALID_PARAMS, f"{path!r} is not an absolute path")
    real = os.path.realpath(path)
    for root in roots:
        real_root = os.path.realpath(root)
        if real != real_root and os.path.commonpath([real, real_root]) == real_root:
            return real_root, list(Path(real).relative_to(real_root).parts)
    raise RpcError(INVALID_PARAMS, f"{path} is outside the directories of this session")


def _walk(stack: ExitStack, root: str, names: Sequence[str], *, make: bool) -> int:
    """A descriptor of the directory, opened step by step; those missing are made if wanted."""
    folder = os.open(root, _DIRECTORY)
    stack.callback(os.close, folder)
    for name in names:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=folder)
        folder = os.open(name, _DIRECTORY, dir_fd=folder)
        stack.callback(os.close, folder)
    return folder


def _chunks(fd: int) -> Iterator[bytes]:
    while data := os.read(fd, READ_SIZE):
        yield data


def _lines(
    chunks: Iterator[bytes], line: int | None, limit: int | None, size_limit: int, path: str
) -> bytes:
    """``limit`` lines from ``line`` on; reads no further than they go."""
    skip, left = max((line or 1) - 1, 0), limit
    taken = bytearray()
    if left == 0:
        return b""
    for chunk in chunks:
        at = 0
        while skip and at < len(chunk):
            end = chunk.find(b"\n", at)
            if end < 0:
                at = len(chunk)
            else:
                skip, at = skip - 1, end + 1
        end = len(chunk)
        if left is not None and not skip:
            end, left = _end_of_lines(chunk, at, left)
        taken += chunk[at:end]
        if len(taken) > size_limit:
            message = f"{path} is above the limit of {size_limit} bytes; use line and limit"
            raise RpcError(INVALID_PARAMS, message)
        if left == 0:
            break
    return bytes(taken)


def _end_of_lines(chunk: bytes, at: int, lines: int) -> tuple[int, int]:
    """Where ``lines`` lines from ``at`` end in the chunk, and how many of them do not end there."""
    while lines:
        end = chunk.find(b"\n", at)
        if end < 0:
            return len(chunk), lines
        at, lines = end + 1, lines - 1
    return at, 0


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """The permissions of the file that is there; None if there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise RpcError(INVALID_PARAMS, f"{path} is not a regular file")
    if not os.access(name, os.W_OK, dir_fd=folder):  # replacing it would go around its permissions
        raise RpcError(INTERNAL_ERROR, f"{path}: it is read-only")
    return stat.S_IMODE(found.st_mode)


def _replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Write beside it and rename: a reader sees the old or the new, and no link is followed."""
    beside = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FOLLOW_NOTHING
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
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
