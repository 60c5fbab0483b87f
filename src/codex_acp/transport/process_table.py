"""Read the system's table of processes, and watch for the end of a child.

The table is ``/proc`` on Linux, else the output of ``ps`` (macOS). The watch does not collect the
child's exit status: an uncollected status reserves the process id, so that signals to the child's
group cannot hit other processes. Imports no asyncio: this module is loaded before Codex is spawned.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from typing import Protocol

    class Watched(Protocol):
        """A child process, as `Process` and ``subprocess.Popen`` are."""

        pid: int
        returncode: int | None
        """The exit status, if it was collected."""

        def poll(self) -> int | None:
            """Collect the exit status if the process has ended."""

        def wait(self) -> object:
            """Wait for the end of the process, and collect its exit status."""


_PS_SECONDS = 0.2
"""Seconds for ``ps``, which normally takes 0.02: a shutdown must end within half a second."""

_ENV_END = 48
"""Index of ``env_end`` among the fields of ``/proc/PID/stat`` after the name (proc(5))."""


class ProcessInfo:
    """One process, as the table showed it."""

    __slots__ = ("dead", "group", "parent", "pid", "session", "started")

    def __init__(
        self, pid: int, parent: int, group: int, session: int | None, started: str, dead: bool
    ) -> None:
        self.pid: int = pid
        self.parent: int = parent
        self.group: int = group
        self.session: int | None = session
        """None on systems whose table shows no sessions (macOS)."""
        self.started: str = started
        """Start time, to be compared for equality only: ticks since boot, or a date (macOS)."""
        self.dead: bool = dead
        """Whether the process has ended, but its parent has not collected the exit status."""

    @property
    def ticks(self) -> int:
        """Start time in clock ticks since boot; 0 on systems whose table shows a date."""
        return int(self.started) if self.started.isdigit() else 0


def read_processes() -> dict[int, ProcessInfo]:
    """Return all visible processes of this machine, by id; none if the table cannot be read."""
    if sys.platform != "linux":
        return parse_ps(_run_ps(["-ax"]))
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib is slower and costs an import
    except OSError:  # this process has no free descriptor
        return {}
    found = [_read_stat(int(name)) for name in names if name.isdigit()]
    return {info.pid: info for info in found if info is not None}


def read_process(pid: int) -> ProcessInfo | None:
    """Return one process, or None if no process has this id."""
    if sys.platform != "linux":
        return parse_ps(_run_ps(["-p", str(pid)])).get(pid)
    return _read_stat(pid)


def is_starting(pid: int) -> bool:
    """Return whether a process has no environment yet: the kernel is just starting its program."""
    fields = _read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return len(fields) > _ENV_END and fields[_ENV_END] == b"0"


def parse_proc_stat(text: bytes) -> ProcessInfo:
    """Parse ``/proc/PID/stat`` (proc(5)): ``PID (name) state ppid pgrp session ...``."""
    head, _, tail = text.rpartition(b")")  # the name may contain spaces and parentheses
    fields = tail.split()
    return ProcessInfo(
        pid=int(head.split(b" ", 1)[0]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=fields[19].decode(),  # starttime
        dead=fields[0] in (b"Z", b"X"),  # zombie, or about to vanish
    )


def parse_ps(text: str) -> dict[int, ProcessInfo]:
    """Parse the output of ``ps -o pid=,ppid=,pgid=,stat=,lstart=``; leave out other lines."""
    processes: dict[int, ProcessInfo] = {}
    for line in text.splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5 and fields[0].isdigit():
            pid, parent, group = int(fields[0]), int(fields[1]), int(fields[2])
            dead = fields[3].startswith("Z")
            processes[pid] = ProcessInfo(pid, parent, group, None, fields[4].strip(), dead)
    return processes


def _read_stat(pid: int) -> ProcessInfo | None:
    try:
        return parse_proc_stat(_read_bytes(f"/proc/{pid}/stat"))
    except (ValueError, IndexError):
        return None  # the process has ended


def _read_bytes(path: str) -> bytes:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""  # the process ended between open and read
    finally:
        os.close(fd)


def _run_ps(selection: list[str]) -> str:
    import subprocess

    command = ["ps", *selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="]
    try:
        # Without PATH, `ps` is looked for in the directories of the system alone (os.defpath).
        done = subprocess.run(
            command, capture_output=True, timeout=_PS_SECONDS, check=False, env={"LC_ALL": "C"}
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if the process is gone, or the system (old kernel, sandbox) has none."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


class ExitWatch:
    """Calls ``on_exit`` once, in the event loop, when a process has ended. The argument tells
    whether the exit status was collected: then the process id may be reused."""

    def __init__(
        self, loop: AbstractEventLoop, process: Watched, on_exit: Callable[[bool], None]
    ) -> None:
        self._loop = loop
        self._process = process
        self._on_exit = on_exit
        self._pidfd: int | None = None
        self._stopped = False
        self.returncode: int | None = None
        """Exit status, negative for a signal; None while the process runs, or if not known."""

    def start(self) -> None:
        """Start to watch, with a pidfd or else a thread; the process may have ended already."""
        pidfd = open_pidfd(self._process.pid)
        if pidfd is None:
            import threading

            # A daemon: a process that never ends must not keep this program from ending.
            threading.Thread(target=self._wait, name="child-exit", daemon=True).start()
            return
        self._pidfd = pidfd
        self._loop.add_reader(pidfd, self._pidfd_ready)

    def stop(self) -> None:
        """Stop watching; ``on_exit`` is not called any more."""
        self._stopped = True
        self._close_pidfd()

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _pidfd_ready(self) -> None:
        self._close_pidfd()
        self._finish(*_peek(self._process, block=False))

    def _wait(self) -> None:
        returncode, collected = _peek(self._process, block=True)
        try:
            self._loop.call_soon_threadsafe(self._finish, returncode, collected)
        except RuntimeError:
            return  # the loop is closed

    def _finish(self, returncode: int | None, collected: bool) -> None:
        if not self._stopped:
            self._stopped = True
            self.returncode = returncode
            self._on_exit(collected)


def _peek(process: Watched, *, block: bool) -> tuple[int | None, bool]:
    """Return the exit status, and whether it was collected. Collects it only if the system cannot
    read it otherwise. ``block``: wait for the end of the process."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        if block:
            process.wait()
        return process.poll(), True
    options = os.WEXITED | os.WNOWAIT | (0 if block else os.WNOHANG)
    try:
        result = os.waitid(os.P_PID, process.pid, options)
    except ChildProcessError:
        return process.returncode, True  # collected before, by `process` or by other code
    if result is None:
        return None, False
    status = result.si_status
    return (status if result.si_code == os.CLD_EXITED else -status), False
