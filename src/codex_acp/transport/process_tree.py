"""The descendants of a process, signals that hit nobody else, and processes whose parent is gone.

A process is known by its id *and* its start time, so that a reused id is never hit. Processes
stay known after their parent died, and when they moved to a session or group of their own.

No table tells whose an orphan was: there are two ways to find out. A mark in the environment of
what is started goes down to all that comes of it, unless a program clears its environment. On Linux
the kernel can give this process every orphan below it; that changes the whole process, so only a
program whose children are all its own to end asks for it (`adopt_orphans`): the commands of this
package do. This is house-keeping, no cage: a program that wants to get away from its user's
processes can.

Imports no asyncio: it is loaded before Codex is spawned. Must not know why anybody is stopped.
"""

from __future__ import annotations

import os
import sys
import time

from codex_acp.transport.process_table import (
    ProcessInfo,
    is_starting,
    open_pidfd,
    read_process,
    read_processes,
)

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Mapping

_KERNEL_THREADS = 2
"""The parent of those, which have no environment; see kthreads in proc(5)."""

TREE_VARIABLE = "CODEX_ACP_PROCESS_TREE"
"""Holds the marks of the trees that a process belongs to, the outermost first."""

SPARED_VARIABLE = "CODEX_ACP_SPARED"
"""Set for what is started for the person and stays: a browser."""

REAP_SECONDS = 1.0
"""From the end of a child to the collecting of orphans, so that many are collected at once."""

_PR_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2): orphans below this process become its children."""

_count = 0
_starting = 0
_open_roots: set[int] = set()
_reaper: _Reaper | None = None


def new_mark() -> str:
    """A mark that no other tree has."""
    global _count  # noqa: PLW0603 - this process's own numbering
    _count += 1
    return f"{os.getpid():x}-{time.time_ns():x}-{_count:x}"


def with_mark(env: Mapping[str, str] | None, added: str) -> dict[str, str]:
    """Return ``env``, None for this process's own, with a mark behind those it has."""
    marked = dict(os.environ if env is None else env)
    outer = marked.get(TREE_VARIABLE)
    marked[TREE_VARIABLE] = f"{outer}:{added}" if outer else added
    return marked


def has_mark(pid: int, wanted: str) -> bool | None:
    """Whether a process has the mark; None while it is just being started and cannot be told."""
    environment = _environment(pid)
    if environment == b"" and is_starting(pid):
        return None
    return wanted.encode() in (environment or b"")


def add_root(root: int) -> None:
    """Count a process as started here, and so as no orphan."""
    _open_roots.add(root)


def discard_root(root: int) -> None:
    """Count a process no longer as started here: it has ended, and its id may be reused."""
    _open_roots.discard(root)


def adopt_orphans(loop: AbstractEventLoop) -> bool:
    """Take in every orphan of this process's descendants, for as long as this process lives.

    From now on those without a mark are ended with the last tree, and those that end by themselves
    are collected. For a program of which nothing else starts processes that are to outlive it.
    False where the system cannot (macOS); then only marks tell. Call it on the main thread, and
    before the first tree can leave any: those of before are not given back.
    """
    global _reaper  # noqa: PLW0603 - the kernel's setting is the process's, too
    if _reaper is None and (sys.platform != "linux" or not _set_subreaper(1)):
        return False
    if _reaper is None or _reaper.loop is not loop:
        _reaper = _Reaper(loop)
    return True


def leave_orphans() -> None:
    """Take in no more: for a program that goes on to something else, as a test does."""
    global _reaper  # noqa: PLW0603 - as above
    if _reaper is not None:
        _reaper.stop()
        _set_subreaper(0)
        _reaper = None


def is_orphan_here(info: ProcessInfo) -> bool:
    """Return whether it is a child of this process that this process has not started."""
    return (
        _reaper is not None
        and not _starting
        and info.parent == os.getpid()
        and info.session != os.getsid(0)
        and info.pid not in _open_roots
    )


def collect(infos: list[ProcessInfo]) -> None:
    """Collect the exit status of those that have ended and are orphans here."""
    for info in infos:
        if info.dead and is_orphan_here(info):
            try:
                os.waitpid(info.pid, os.WNOHANG)
            except ChildProcessError:
                continue  # it was collected meanwhile


class starting_own:  # noqa: N801 - used like a function
    """Adopt nothing while a child is started that this process waits for by itself: adopted, it
    would lose its status or its life. Call `add_root` by then, `discard_root` at its end."""

    def __enter__(self) -> None:
        global _starting  # noqa: PLW0603 - this process's own
        _starting += 1

    def __exit__(self, *_exc: object) -> None:
        global _starting  # noqa: PLW0603 - this process's own
        _starting -= 1


class sparing:  # noqa: N801 - used like a function
    """Spare processes that are started within this block: they do not end with this process."""

    def __enter__(self) -> None:
        os.environ[SPARED_VARIABLE] = "1"

    def __exit__(self, *_exc: object) -> None:
        os.environ.pop(SPARED_VARIABLE, None)


class _Reaper:
    """Collects orphans that end by themselves."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        from signal import SIGCHLD

        self.loop = loop
        self._timer: TimerHandle | None = None
        loop.add_signal_handler(SIGCHLD, self._soon)

    def stop(self) -> None:
        from signal import SIGCHLD

        if not self.loop.is_closed():
            self.loop.remove_signal_handler(SIGCHLD)
        if self._timer is not None:
            self._timer.cancel()

    def _soon(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REAP_SECONDS, self._collect)

    def _collect(self) -> None:
        self._timer = None
        collect(list(read_processes().values()))


def _set_subreaper(wanted: int) -> bool:
    import ctypes

    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return False
    return bool(prctl(_PR_SET_CHILD_SUBREAPER, wanted, 0, 0, 0) == 0)


def _environment(pid: int) -> bytes | None:
    """Return the environment that a process was started with; None if it cannot be read."""
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return None
    try:
        found = b""
        while data := os.read(fd, 64 * 1024):
            found += data
    except OSError:
        return None  # it ended meanwhile
    else:
        return found
    finally:
        os.close(fd)


class ProcessTree:
    """A root process, which leads a session and group of its own, and all that came from it. Group
    and session ids are trusted until the root is collected; then only known processes are
    touched."""

    def __init__(self, root: int, mark: str | None = None) -> None:
        self._root = root
        self._mark = mark
        """In the environment of the root, and so of what comes of it; see `with_mark`."""
        first = read_process(root)
        self._began = 0 if first is None else first.ticks
        self._root_collected = False
        self._known: dict[int, ProcessInfo] = {}
        self.unsure: bool = False
        """Whether the last look came upon a process that was just being started."""
        add_root(root)

    def root_collected(self) -> None:
        """Note that the root's id is free for reuse from now on."""
        self._root_collected = True
        discard_root(self._root)

    def refresh(self) -> None:
        """Look at all processes and note those that come from the root."""
        table = read_processes()
        roots = {
            pid
            for pid, info in self._known.items()
            if pid in table and table[pid].started == info.started
        }
        if not self._root_collected:
            roots.add(self._root)
            roots.update(
                info.pid for info in table.values() if self._root in (info.group, info.session)
            )
        children: dict[int, list[int]] = {}
        for info in table.values():
            children.setdefault(info.parent, []).append(info.pid)
        _add_descendants(roots, children)
        self.unsure = False
        lost = [info.pid for info in table.values() if info.pid not in roots and self._lost(info)]
        if lost:
            roots.update(lost)
            _add_descendants(roots, children)
        roots.discard(os.getpid())
        self._known = {pid: table[pid] for pid in roots if pid in table}

    def _lost(self, info: ProcessInfo) -> bool:
        """Whether it is of this tree though no living parent says so."""
        if sys.platform != "linux" or info.dead or info.ticks < self._began:
            return False
        if self._mark is not None:
            marked = has_mark(info.pid, self._mark)
            if marked:
                return True
            self.unsure = self.unsure or (marked is None and info.parent != _KERNEL_THREADS)
        return (
            is_orphan_here(info)
            and _open_roots <= {self._root}
            and f"{SPARED_VARIABLE}=".encode() not in (_environment(info.pid) or b"")
        )

    def collect(self) -> None:
        """Take the status of its orphans that have ended and are this process's children now."""
        if _reaper is not None:
            found = [read_process(pid) for pid in self._known if pid != self._root]
            collect([info for info in found if info is not None])

    def living(self) -> list[ProcessInfo]:
        """The known processes, root included, that have not ended."""
        return [info for info in self._known.values() if _lives(info, read_process(info.pid))]

    def signal(self, number: int) -> None:
        """Send a signal to the root's group and to each known process outside that lives."""
        from signal import SIGKILL  # not needed to start a process, and slow to import

        if not self._root_collected:
            try:  # noqa: SIM105 - contextlib is slow to import, too
                os.killpg(self._root, number)
            except OSError:
                pass  # the group is empty, or (macOS) all in it have ended
        for info in self._known.values():
            # A second SIGTERM would make some programs skip their clean-up.
            in_group = info.group == self._root and not self._root_collected
            if not in_group or number == SIGKILL:
                _signal_one(info, number)


def _add_descendants(found: set[int], children: dict[int, list[int]]) -> None:
    waiting = list(found)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)


def _lives(info: ProcessInfo, now: ProcessInfo | None) -> bool:
    return now is not None and now.started == info.started and not now.dead


def _signal_one(info: ProcessInfo, number: int) -> None:
    """Check who it is and signal it; with a pidfd nobody can slip in between."""
    pidfd = open_pidfd(info.pid)
    try:
        if not _lives(info, read_process(info.pid)):
            return
        if pidfd is not None:
            from signal import pidfd_send_signal

            pidfd_send_signal(pidfd, number)
        else:
            os.kill(info.pid, number)
    except OSError:
        pass  # it ended meanwhile, or belongs to another user
    finally:
        if pidfd is not None:
            os.close(pidfd)
