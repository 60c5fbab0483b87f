"""``codex-acp-sdk run`` with a terminal as its stdin and stderr, and an agent of our own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.cli.command import COMMAND

RAW_AGENT = Path(__file__).resolve().parents[1] / "runtime" / "raw_agent.py"

TERMINAL_SECONDS = 60
"""For one step of a dialogue; each takes milliseconds once the command has started."""

MARK = "\u2503"
GUTTER = f"\x1b[7m{MARK}\x1b[0m "
"""What each row of a question begins with."""

TOO_SMALL = "rows."
"""The end of what is said then: the rest is broken between words."""

STYLES = re.compile(r"\x1b\[\d+m")
KEYS = re.compile(r"  ([a-z]+)\d+\) ")


def agent(*behaviours: str) -> list[str]:
    """The option that names an agent with these behaviours."""
    return ["--command", shlex.join([sys.executable, "-I", str(RAW_AGENT), *behaviours])]


class OnTerminal:
    """``screen`` is all that was written to the terminal; stdout is one of its own, or the same."""

    def __init__(
        self,
        env: dict[str, str],
        *arguments: str,
        stdout_too: bool = False,
        command: str = "run",
        shell: str | None = None,
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self._master, slave = pty.openpty()
        self._set_size(*size)
        self.process = subprocess.Popen(
            [*COMMAND, command, *arguments] if shell is None else ["sh", "-c", shell],
            stdin=slave,
            stdout=slave if stdout_too else subprocess.PIPE,
            stderr=slave,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.communicate(timeout=TERMINAL_SECONDS)
        os.close(self._master)

    def resize(self, columns: int, rows: int = 24) -> None:
        """Make the window this large, and tell the command, as the kernel does."""
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)  # it controls no terminal: nobody else tells it

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str, *, times: int = 1) -> None:
        """Wait until ``text`` stands on the screen, this many times."""
        self._read_until(lambda: self.screen.count(text) >= times)

    def page_to(self, prompt: str, more: str) -> int:
        """Go on from page to page until the question can be answered; how many there were."""
        pages = 1
        while True:
            self._read_until(lambda: self.screen.endswith((prompt, more)))
            if self.screen.endswith(prompt):
                return pages
            pages += 1
            self.screen += "\r"  # what follows has still to come
            self.type("\n")

    def _read_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TERMINAL_SECONDS
        while not done():
            ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert ready, self.screen
            self.screen += os.read(self._master, 4096).decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def key(self, number: int) -> str:
        """The key of this choice of the question that stands there."""
        letters: str = KEYS.findall(STYLES.sub("", self.screen))[-1]
        return f"{letters}{number}"

    def choose(self, number: int) -> None:
        self.type(f"{self.key(number)}\n")

    def rest(self) -> str:
        """What is written until its end."""
        before = len(self.screen)
        while True:
            ready, _, _ = select.select([self._master], [], [], TERMINAL_SECONDS)
            assert ready, self.screen
            try:
                more = os.read(self._master, 4096)
            except OSError:  # nobody has the terminal open any more
                return self.screen[before:]
            self.screen += more.decode(errors="replace")

    def end(self) -> tuple[int, str]:
        """Its exit code and stdout."""
        out, _ = self.process.communicate(timeout=TERMINAL_SECONDS)
        return self.process.returncode, (out or b"").decode()
