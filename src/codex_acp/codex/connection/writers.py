"""Which process has a thread of a Codex home open: Codex lets one write it, and locks a file.

What the system tells of locks is read, nothing is locked. Only Linux tells whose they are.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.transport.process_table import read_process

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCKS: Final = "thread-writer-locks"
"""The folder of a Codex home with a locked file for each thread that is open."""

MAX_LOCKS: Final = 256
"""Files that are looked at, however many there are."""

_SUFFIX: Final = ".lock"


class Writer(NamedTuple):
    """A process that has a thread open."""

    thread_id: str
    pid: int
    name: str
    started_by: tuple[int, str] | None
    """The process above it, and its name."""
    stopped: int | None
    """Which of them was stopped, as by Ctrl-Z, and answers nothing."""

    def __str__(self) -> str:
        above = "" if self.started_by is None else ", started by {1} {0}".format(*self.started_by)
        return f"{self.name} (process {self.pid}{above}{', stopped' * bool(self.stopped)})"


def writer_of(codex_home: str, thread_id: str) -> Writer | None:
    """Return which process has a thread open; None: none that can be seen."""
    return next(_writers(Path(codex_home), [f"{thread_id}{_SUFFIX}"]), None)


def writers(codex_home: Path) -> list[Writer]:
    """Return those of all threads of a home that are open, by thread. Raises OSError."""
    names = sorted(os.listdir(codex_home / LOCKS))  # noqa: PTH208 - names, not paths
    found = [name for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]
    return [*_writers(codex_home, found[:MAX_LOCKS])]


def _writers(codex_home: Path, names: list[str]) -> Iterator[Writer]:
    held = _held()
    for name in names:
        with suppress(OSError, ValueError):
            found = (codex_home / LOCKS / name).stat()
            for device, pid in held.get(found.st_ino, ()):
                if device == found.st_dev or _has_open(pid, found):
                    yield _writer(name.removesuffix(_SUFFIX), pid)
                    break


def _held() -> dict[int, list[tuple[int, int]]]:
    """The exclusive locks of whole files: inode → device and process (proc_locks(5))."""
    held: dict[int, list[tuple[int, int]]] = {}
    with suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            fields = line.split()
            if len(fields) < 6 or fields[1:2] != ["FLOCK"] or fields[3] != "WRITE":
                continue
            with suppress(ValueError):
                major, minor, inode = fields[5].split(":")
                device = os.makedev(int(major, 16), int(minor, 16))
                held.setdefault(int(inode), []).append((device, int(fields[4])))
    return held


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    """Whether a process has the file open: some file systems tell another device in their locks."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found = entry.stat()
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    return False


def _writer(thread_id: str, pid: int) -> Writer:
    process = read_process(pid)
    above = None if process is None else process.parent
    started_by = (above, _name(above)) if above is not None and above > 1 else None
    stopped = next((each for each in (pid, above) if each and _is_stopped(each)), None)
    return Writer(thread_id, pid, _name(pid), started_by, stopped)


def _name(pid: int) -> str:
    """The name of a process alone: its arguments may hold secrets."""
    with suppress(OSError):
        told = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
        return "".join(char for char in told.strip() if char.isprintable())
    return "a process"


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat.rpartition(b")")[2].split()[:1] == [b"T"]
    return False
