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
