"""Noticing that a child process has ended, without taking its status from the kernel.

As long as the status is not taken, the process id stays reserved: signals to its group cannot hit
strangers. Imports no asyncio: the loop is handed in.
"""

from __future__ import annotations

import os

from codex_acp.transport.process_table import open_pidfd

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from typing import Protocol

    class Watched(Protocol):
        """A child process; so is a ``subprocess.Popen``."""

        @property
        def pid(self) -> int:
            """Its id."""

        @property
        def returncode(self) -> int | None:
            """Its exit status, if it was collected."""

        def poll(self) -> int | None:
            """Collect its exit status if it has ended."""

        def wait(self) -> object:
            """Collect its exit status when it ends."""


class ExitWatch:
    """Calls ``on_exit`` once on the loop; its argument says whether the process id is free again.

    Uses a pidfd where the system has it, else a thread that waits.
    """

    def __init__(
        self, loop: AbstractEventLoop, process: Watched, on_exit: Callable[[bool], None]
    ) -> None:
        self._loop = loop
        self._process = process
        self._on_exit = on_exit
        self._pidfd: int | None = None
        self._done = False
        self.returncode: int | None = None
        """Exit status, negative for a signal; None while it runs or when it is not known."""

    def start(self) -> None:
        """Begin to watch; a process that has ended already is noticed as well."""
        pidfd = open_pidfd(self._process.pid)
        if pidfd is None:
            self._start_thread()
            return
        self._pidfd = pidfd
        self._loop.add_reader(pidfd, self._pidfd_ready)

    def stop(self) -> None:
        """Watch no more; ``on_exit`` is not called any more."""
        self._done = True
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _pidfd_ready(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._finish(*_peek(self._process, block=False))

    def _start_thread(self) -> None:
        import threading

        # A daemon: a process that never ends must not keep this program from ending.
        threading.Thread(target=self._wait, name="child-exit", daemon=True).start()

    def _wait(self) -> None:
        returncode, collected = _peek(self._process, block=True)
        try:
            self._loop.call_soon_threadsafe(self._finish, returncode, collected)
        except RuntimeError:
            return  # the loop is closed: nobody is left to tell

    def _finish(self, returncode: int | None, collected: bool) -> None:
        if not self._done:
            self._done = True
            self.returncode = returncode
            self._on_exit(collected)


def _peek(process: Watched, *, block: bool) -> tuple[int | None, bool]:
    """The exit status, and whether it had to be taken from the kernel to learn it."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        if block:
            process.wait()
        return process.poll(), True
    options = os.WEXITED | os.WNOWAIT | (0 if block else os.WNOHANG)
    try:
        result = os.waitid(os.P_PID, process.pid, options)
    except ChildProcessError:
        # It is collected; the status is known if it was here.
        return process.returncode, True
    if result is None:
        return None, False
    status = result.si_status
    return (status if result.si_code == os.CLD_EXITED else -status), False
