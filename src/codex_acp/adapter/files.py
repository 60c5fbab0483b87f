"""Files that are shown or sent, read within bounds: regular ones, and only so much of them.

What cannot be read is left out, or told with the reason. Owns no meaning of a file.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.adapter.side_tasks import in_thread
from codex_acp.codex.approvals.real_paths import look_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codex_acp.codex.approvals.actions import PathLook

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts of one step: an edit of a hundred files shows the rest as patches."""

MAX_FILES: Final = 64
"""Files of one step, or images of one prompt."""


class _Unreadable(Exception):
    """A file has no text to show; the message says why."""


class _Known(NamedTuple):
    """A text that was read, and what the file looked like then."""

    signature: tuple[int, int, int, int]
    text: str


class FileTexts:
    """Looks at paths, and their texts, which are read again only when the file has changed."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def look(self, wanted: Mapping[str, bool], roots: Sequence[str] = ()) -> dict[str, PathLook]:
        """Return how the disk has each path, with its text where that is ``wanted``.

        Blocks as a disk may. ``roots`` are the session's directories, as in `look_at`.
        """
        looks = look_at(wanted, roots)
        left, count = STEP_LIMIT, 0
        for path, with_text in wanted.items():
            look = looks[path]
            if not with_text or not look.exists:
                continue
            count += 1
            try:
                text = self._text(path, min(left, TEXT_LIMIT) if count <= MAX_FILES else 0)
            except _Unreadable as reason:
                looks[path] = look._replace(unread=str(reason))
            else:
                looks[path] = look._replace(text=text)
                left -= len(text)
        return looks

    def forget(self) -> None:
        """Forget all texts that were read."""
        self._known = {}

    def _text(self, path: str, limit: int) -> str:
        file, found = _opened(path, limit)
        try:
            signature = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
            known = self._known.get(path)
            if known is None or known.signature != signature:
                known = self._known[path] = _Known(signature, _content(file, limit).decode())
            return known.text
        except UnicodeDecodeError as error:
            raise _Unreadable("it is no UTF-8 text") from error
        finally:
            os.close(file)


async def read_files(paths: Iterable[str], limit: int) -> dict[str, bytes]:
    """Read the files that are not larger than ``limit`` bytes, in a thread of its own."""
    wanted = list(paths)[:MAX_FILES]

    def read_all() -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in wanted:
            with suppress(_Unreadable):
                file, _ = _opened(path, limit)
                try:
                    found[path] = _content(file, limit)
                finally:
                    os.close(file)
        return found

    return await in_thread(read_all) if wanted else {}


def _opened(path: str, limit: int) -> tuple[int, os.stat_result]:
    """Open a regular file that is not too large, without waiting for the writer of a FIFO."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise _Unreadable("it cannot be read") from error
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
        return file, found
    os.close(file)
    raise _Unreadable("it is too large" if stat.S_ISREG(found.st_mode) else "it is no regular file")


def _content(file: int, limit: int) -> bytes:
    """Return all of an open file, if it can be read and has not grown above ``limit``."""
    pieces: list[bytes] = []
    left = limit + 1
    try:
        while left > 0 and (piece := os.read(file, left)):
            pieces.append(piece)
            left -= len(piece)
    except OSError as error:
        raise _Unreadable("it cannot be read") from error
    if left <= 0:
        raise _Unreadable("it is too large")
    return b"".join(pieces)
