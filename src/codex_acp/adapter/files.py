"""Files that are shown or sent, read within bounds: regular ones, and only so much of them.

What cannot be read is left out; whoever shows it has another way to. Owns no meaning of a file.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.adapter.in_thread import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts of one step: an edit of a hundred files shows the rest as patches."""

MAX_FILES: Final = 64
"""Files of one step, or images of one prompt."""


class _Known(NamedTuple):
    """A text that was read, and what the file looked like then."""

    signature: tuple[int, int, int]
    text: str | None


class FileTexts:
    """Texts by path, read again only when the file has changed."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        """The texts of those files that are UTF-8 and small enough; blocks as a disk may."""
        texts: dict[str, str] = {}
        left = STEP_LIMIT
        for path in list(paths)[:MAX_FILES]:
            text = self._text(path, min(left, TEXT_LIMIT))
            if text is not None:
                texts[path] = text
                left -= len(text)
        return texts

    def forget(self) -> None:
        """Keep nothing of what was read."""
        self._known = {}

    def _text(self, path: str, limit: int) -> str | None:
        opened = _opened(path, limit)
        if opened is None:
            return None
        file, found = opened
        try:
            signature = (found.st_ino, found.st_mtime_ns, found.st_size)
            known = self._known.get(path)
            if known is None or known.signature != signature:
                known = _Known(signature, _decoded(_content(file, limit)))
                self._known[path] = known
            return known.text
        finally:
            os.close(file)


async def read_files(paths: Iterable[str], limit: int) -> dict[str, bytes]:
    """The bytes of those files that are not larger than ``limit``; in a thread of its own."""
    wanted = list(paths)[:MAX_FILES]
    return await in_thread(lambda: _read_all(wanted, limit)) if wanted else {}


def _read_all(paths: list[str], limit: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in paths:
        opened = _opened(path, limit)
        if opened is None:
            continue
        try:
            content = _content(opened[0], limit)
        finally:
            os.close(opened[0])
        if content is not None:
            found[path] = content
    return found


def _opened(path: str, limit: int) -> tuple[int, os.stat_result] | None:
    """A regular file that is not too large, without waiting for the writer of a FIFO."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
        return file, found
    os.close(file)
    return None


def _content(file: int, limit: int) -> bytes | None:
    """All of an open file; None if it cannot be read, or has grown above ``limit``."""
    pieces: list[bytes] = []
    left = limit + 1
    try:
        while left > 0 and (piece := os.read(file, left)):
            pieces.append(piece)
            left -= len(piece)
    except OSError:
        return None
    return b"".join(pieces) if left > 0 else None


def _decoded(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None
