"""Whether a process is still there."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def lives(pid: int) -> bool:
    """Whether it runs; one that has ended, and that nobody has waited for, does not."""
    with suppress(OSError):
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not Path("/proc").exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def app_servers(home: str) -> list[int]:
    """The ids of the Codex app-servers that run with this ``CODEX_HOME``."""
    wanted = f"CODEX_HOME={home}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"\0app-server\0" in command and wanted in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
