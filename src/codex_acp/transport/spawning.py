"""A child process with three pipes, in a session of its own; nothing is loaded to start it.

Owns the process id and its exit status. ``subprocess`` does the same and takes longer to import
than Codex to be spawned: it is used where ``posix_spawn`` cannot do what is asked.
"""

from __future__ import annotations

import os
import time

from codex_acp.transport.orphans import mark, new_mark

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO

POLL_SECONDS = 0.005
"""Between two looks at a process that is to end any moment."""

FIRST_FREE_DESCRIPTOR = 3
"""Below are standard input, output and error, which the child's pipes become."""

OPEN_DESCRIPTORS = "/dev/fd"
"""A directory with one entry for each open descriptor of who lists it, on Linux and macOS alike."""

IGNORED_BY_PYTHON = (13, 25)
"""SIGPIPE and SIGXFSZ, on Linux and macOS alike: a child begins with their defaults. By number,
since the module that names them takes longer to import than the process to start."""


class Process:
    """A process that was started; its pipes are unbuffered, and owned by whoever has this.

    ``mark`` is in its environment, see `codex_acp.transport.orphans`.
    """

    def __init__(
        self, pid: int, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], mark: str
    ) -> None:
        self.pid = pid
        self.mark = mark
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        """Exit status, negative for a signal; None while it is not collected, or if another did."""
        self._gone = False

    def poll(self) -> int | None:
        """Collect its exit status from the kernel if it has ended."""
        self._collect(os.WNOHANG)
        return self.returncode

    def wait(self, seconds: float | None = None) -> bool:
        """Collect its exit status when it ends; False if it has not within ``seconds``."""
        if seconds is None:
            self._collect(0)
            return True
        deadline = time.monotonic() + seconds
        while True:
            self._collect(os.WNOHANG)
            if self._gone or time.monotonic() >= deadline:
                return self._gone
            time.sleep(POLL_SECONDS)

    def _collect(self, options: int) -> None:
        if self._gone:
            return
        try:
            pid, status = os.waitpid(self.pid, options)
        except ChildProcessError:  # somebody else has collected it
            self._gone = True
        else:
            if pid == 0:
                return
            self._gone = True
            self.returncode = os.waitstatus_to_exitcode(status)


def start_process(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> Process:
    """Start ``argv[0]``, a path. Raises OSError if it cannot be started."""
    tree = new_mark()
    marked = mark(env, tree)
    if cwd is None and os.path.dirname(argv[0]):  # noqa: PTH120 - no pathlib here
        try:
            return _spawned(argv, marked, tree)
        except _CannotSpawn:
            pass
    return _opened(argv, marked, cwd, tree)


class _CannotSpawn(Exception):
    """``posix_spawn`` is not for this case, or not on this system."""


def _spawned(argv: Sequence[str], env: Mapping[str, str], tree: str) -> Process:
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for number in range(FIRST_FREE_DESCRIPTOR):
            read, write = os.pipe()
            theirs.append(write if number else read)
            ours.append(read if number else write)
        if min(theirs + ours) < FIRST_FREE_DESCRIPTOR:  # this program itself has none of its own
            raise _CannotSpawn
        actions: list[tuple[int, ...]]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(theirs)]
        actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
        pid = os.posix_spawn(
            argv[0], list(argv), env, file_actions=actions, setsid=True, setsigdef=IGNORED_BY_PYTHON
        )
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, NotImplementedError):  # an old system cannot make a session this way
            raise _CannotSpawn from None
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    stdin, stdout, stderr = ours
    return Process(
        pid,
        open(stdin, "wb", buffering=0),  # noqa: PTH123 - a descriptor, owned by what it makes
        open(stdout, "rb", buffering=0),  # noqa: PTH123
        open(stderr, "rb", buffering=0),  # noqa: PTH123
        tree,
    )


def _inheritable() -> list[int]:
    """Return the descriptors that this program inherited and a child would inherit.

    Raises _CannotSpawn where nobody tells.
    """
    try:
        names = os.listdir(OPEN_DESCRIPTORS)  # noqa: PTH208 - no pathlib here
    except OSError:
        raise _CannotSpawn from None
    found = []
    for name in names:
        try:
            if int(name) >= FIRST_FREE_DESCRIPTOR and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            continue  # that of the listing itself
    return found


def _opened(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None, tree: str
) -> Process:
    import subprocess

    process = subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None and stderr is not None  # noqa: PT018 - see PIPE
    process.returncode = 0  # Popen need not look after it, nor warn: whoever gets it does
    return Process(process.pid, stdin, stdout, stderr, tree)
