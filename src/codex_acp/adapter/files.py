"""Read files to show or send them: regular files only, up to limits of size and number.

A file that cannot be read is left out, or reported with the reason. Must not know why a file is
read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._files import read_regular
from codex_acp.codex.approvals.real_paths import look_at
from codex_acp.transport.shielding import in_worker_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codex_acp.codex.approvals.running_items import PathLook

TEXT_LIMIT: Final = 1024 * 1024
"""Bytes of one text."""

STEP_LIMIT: Final = 4 * TEXT_LIMIT
"""Bytes of all texts that one `look_at_files` returns; further files are shown as patches only."""

MAX_FILES: Final = 64
"""Files whose texts one `look_at_files` returns, or that one `read_files` reads."""


def look_at_files(wanted: Mapping[str, bool], roots: Mapping[str, str]) -> dict[str, PathLook]:
    """Return where each path leads, with the file's text if ``wanted`` maps the path to True. Waits
    for the disk. ``roots`` has the session's directories, as in `look_at`."""
    looks = look_at(wanted, roots)
    bytes_left, count = STEP_LIMIT, 0
    for path, with_text in wanted.items():
        look = looks[path]
        if not with_text or not look.exists:
            continue
        count += 1
        limit = min(bytes_left, TEXT_LIMIT) if count <= MAX_FILES else 0
        if look.size > limit:
            looks[path] = look._replace(unread="it is too large")
            continue
        try:
            content = read_regular(path, limit)
            looks[path] = look._replace(text=content.decode())
            bytes_left -= len(content)
        except UnicodeDecodeError:
            looks[path] = look._replace(unread="it is no UTF-8 text")
        except OSError:
            looks[path] = look._replace(unread="it cannot be read")
        except ValueError as error:
            looks[path] = look._replace(unread=str(error))
    return looks


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
