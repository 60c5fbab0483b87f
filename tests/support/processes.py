"""Whether a process is still there, and ending one."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def lives(pid: int) -> bool:
    """Whether it runs; one that has ended, and that nobody has waited for, does not."""
    with suppress(OSError):
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not Path("/proc").exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def processes_of(word: str, setting: str) -> list[int]:
    """The ids of those with ``word`` in their command and ``setting`` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if word.encode() in command.split(b"\0"):
                settings = (entry / "environ").read_bytes().split(b"\0")
                found += [int(entry.name)] * (setting.encode() in settings)
    return found


def kill_without_a_last_read(pid: int) -> None:
    """Stopped first: the kernel lets a thread that waits in a read take what comes just before it
    dies of the signal, and what was read is never sent again.
    """
    os.kill(pid, signal.SIGSTOP)
    while any(
        task.read_text().rpartition(")")[2].split()[0] != "T"
        for task in Path(f"/proc/{pid}/task").glob("*/stat")
    ):
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
