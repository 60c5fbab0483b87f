"""The real command as a process whose streams are in the test's own hands, and that is all gone.

Standard library only: what a broken client sends, and what is left behind, is seen here without
this library's own client in between.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.e2e.adapter_bench import COMMAND

MARKER = "CODEX_ACP_TEST_MARKER"
"""Variable in the environment of the adapter, and so of all that it starts."""

JOIN_SECONDS = 90.0


class SpawnedAdapter(ABC):
    """Started by `start_process`; `_read` is called with its stdout, in a thread."""

    def start_process(self, env: Mapping[str, str], *arguments: str) -> None:
        """When all is there that `_read` needs."""
        self.marker = uuid.uuid4().hex
        self._process = subprocess.Popen(
            [COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**env, MARKER: self.marker},
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin: IO[bytes] = self._process.stdin
        self._stderr: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._stderr.extend, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The adapter's process."""
        return self._process.pid

    @property
    def stderr(self) -> str:
        """What it has written to stderr so far."""
        return b"".join(self._stderr).decode(errors="replace")

    def marked(self) -> list[int]:
        """The living processes that the adapter started, or that they started, and itself."""
        return marked_processes(self.marker)

    def end_input(self) -> None:
        """Close the adapter's stdin."""
        with suppress(OSError):
            self._stdin.close()

    def kill(self) -> None:
        """Leave nothing behind, whatever happened."""
        self.end_input()
        self._process.kill()
        self._process.wait()
        for pid in self.marked():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe
            pipe.close()

    @abstractmethod
    def _read(self, stdout: IO[bytes]) -> None:
        """Take what the adapter writes, until it has ended."""


def marked_processes(marker: str) -> list[int]:
    """The living processes that have the marker in their environment."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
