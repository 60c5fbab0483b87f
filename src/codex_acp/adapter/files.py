"""Read files to show or send them: regular files only, up to limits of size and number.

A file that cannot be read is left out, or reported with the reason. Must not know why a file is
read.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_at_most, read_regular
from codex_acp._record import NamedTuple
from codex_acp.codex.approvals.real_paths import look_at
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codex_acp.codex.approvals.running_items import PathLook

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts that one `FileTexts.look` returns; further files are shown as patches only."""

MAX_FILES: Final = 64
"""Files whose texts one `FileTexts.look` returns, or that one `read_files` reads."""


class _Unreadable(Exception):
    """A file cannot be read; the message says why."""


class _Known(NamedTuple):
    """The text of a file, which is unchanged while it has this signature."""

    signature: tuple[int, int, int, int]
    """The file's inode, times of its last changes, and size."""
    text: str


class FileTexts:
    """Looks at paths and reads texts. Keeps the texts: only a changed file is read again."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def look(self, wanted: Mapping[str, bool], roots: Mapping[str, str]) -> dict[str, PathLook]:
        """Return where each path leads, with the file's text if ``wanted`` maps the path to True.
        Waits for the disk. ``roots`` has the session's directories, as in `look_at`."""
        looks = look_at(wanted, roots)
        bytes_left, count = STEP_LIMIT, 0
        for path, with_text in wanted.items():
            look = looks[path]
            if not with_text or not look.exists:
                continue
            count += 1
            try:
                text = self._text(path, min(bytes_left, TEXT_LIMIT) if count <= MAX_FILES else 0)
            except _Unreadable as reason:
                looks[path] = look._replace(unread=str(reason))
            else:
                looks[path] = look._replace(text=text)
                bytes_left -= len(text.encode())
        return looks

    def forget(self) -> None:
        self._known = {}

    def _text(self, path: str, limit: int) -> str:
        """Return the text of a regular file of at most ``limit`` bytes. Raises _Unreadable."""
        try:  # O_NONBLOCK: do not wait for the writer of a FIFO
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except (OSError, ValueError) as error:
            raise _Unreadable("it cannot be read") from error
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise _Unreadable("it is no regular file")
            if status.st_size > limit:
                raise _Unreadable("it is too large")
            signature = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            known = self._known.get(path)
            if known is None or known.signature != signature:
                content = read_at_most(file, status.st_size)
                if content is None:  # it has grown, or the kernel makes it up
                    raise _Unreadable("it changes while it is read")
                known = self._known[path] = _Known(signature, content.decode())
            return known.text
        except OSError as error:
            raise _Unreadable("it cannot be read") from error
        except UnicodeDecodeError as error:
            raise _Unreadable("it is no UTF-8 text") from error
        finally:
            os.close(file)


async def read_files(paths: Iterable[str], limit: int) -> dict[str, bytes]:
    """Return the content of each readable file of at most ``limit`` bytes, read in a thread."""
    wanted = list(paths)[:MAX_FILES]

    def read_all() -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for path in wanted:
            with suppress(OSError, ValueError):
                contents[path] = read_regular(path, limit)
        return contents

    return await in_worker_thread(read_all) if wanted else {}
