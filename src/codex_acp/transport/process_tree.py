"""Find and signal the descendants of a process, also those whose parents have ended.

A process is identified by its id *and* its start time, so that a signal never hits a process with a
reused id. A descendant stays known after its parent has ended, and in a session or group of its
own.

The table of processes does not show whose child an orphan was. On Linux there are two ways to find
out. First, all descendants inherit a mark in the environment of the root, unless a program clears
its environment. Second, the kernel can make this process the parent of every orphan among its
descendants (`adopt_orphans`). That affects the whole process, so only programs that may end all
their children do it, such as the commands of this package. A descendant can still escape.

Imports no asyncio, because this module is loaded before Codex is spawned. Must not know why a
process is ended.
"""

from __future__ import annotations

import os
import sys

from codex_acp.transport.process_table import (
    ProcessInfo,
    is_starting,
    open_pidfd,
    read_process,
    read_processes,
)

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Mapping

_KTHREADD = 2
"""Process id of the parent of all kernel threads, which have no environment."""

TREE_VARIABLE = "CODEX_ACP_PROCESS_TREE"
"""Environment variable with the marks of all trees that contain a process, the outermost first."""

SPARED_VARIABLE = "CODEX_ACP_SPARED"
"""Environment variable of processes that may outlive this process, such as a browser."""

REAP_SECONDS = 1.0
"""Seconds between the end of a child and a search for ended orphans: many are reaped at once."""

_PR_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2): orphans below this process become its children."""

_start_blocks = 0  # open blocks of `starting_child`
_open_roots: set[int] = set()  # the processes of `add_root`
_reaper: _Reaper | None = None  # while this process adopts orphans


def new_mark() -> str:
    """Return a mark that no other tree has."""
    return os.urandom(12).hex()


def with_mark(env: Mapping[str, str] | None, added: str) -> dict[str, str]:
    """Return ``env`` (None: this process's own) with ``added`` behind the marks that it has."""
    marked = dict(os.environ if env is None else env)
    outer = marked.get(TREE_VARIABLE)
    marked[TREE_VARIABLE] = f"{outer}:{added}" if outer else added
    return marked


def has_mark(pid: int, wanted: str) -> bool | None:
    """Return whether a process has the mark; None if the kernel is just starting the process."""
    environment = _environment(pid)
    if environment == b"" and is_starting(pid):
        return None
    return wanted.encode() in (environment or b"")


def add_root(root: int) -> None:
    """Note that this process has started the process ``root``, so that it counts as no orphan."""
    _open_roots.add(root)


def discard_root(root: int) -> None:
    """Forget a process of `add_root` that has ended, because its id may be reused."""
    _open_roots.discard(root)


def adopt_orphans(loop: AbstractEventLoop) -> bool:
    """Make this process the parent of every orphan among its descendants, as long as it lives.

    Orphans that have ended are reaped. If one `ProcessTree` alone is open, it also ends orphans
    without a mark. Only for a program whose other processes need not outlive it. Returns False if
    the system cannot do it (macOS). Call this on the main thread, and before the first tree can
    leave orphans: earlier orphans are not adopted.
    """
    global _reaper  # noqa: PLW0603 - the kernel's setting is the process's, too
    if _reaper is None and (sys.platform != "linux" or not _set_subreaper(1)):
        return False
    if _reaper is None or _reaper.loop is not loop:  # the kernel's setting outlives a loop
        _reaper = _Reaper(loop)
    return True


def leave_orphans() -> None:
    """Adopt no more orphans, in a process that goes on without process trees, like a test."""
    global _reaper  # noqa: PLW0603 - the kernel's setting is the process's, too
    if _reaper is not None:
        _reaper.stop()
        _set_subreaper(0)
        _reaper = None


def is_orphan_here(info: ProcessInfo) -> bool:
    """Return whether a process became a child of this process without being started here."""
    return (
        _reaper is not None
        and not _start_blocks
        and info.parent == os.getpid()
        and info.session != os.getsid(0)  # the root of a tree leads a session of its own
        and info.pid not in _open_roots
    )


def collect_exit_statuses(infos: list[ProcessInfo]) -> None:
    """Collect the exit status of the adopted orphans among ``infos`` that have ended."""
    for info in infos:
        if info.dead and is_orphan_here(info):
            try:
                os.waitpid(info.pid, os.WNOHANG)
            except ChildProcessError:
                continue  # other code has collected the status


class starting_child:  # noqa: N801 - used like a function
    """Treat no child as an orphan within the block, in which this process starts a child. Until
    `add_root` is called, the new child looks like an orphan."""

    def __enter__(self) -> None:
        global _start_blocks  # noqa: PLW0603 - this process's own
        _start_blocks += 1

    def __exit__(self, *_exc: object) -> None:
        global _start_blocks  # noqa: PLW0603 - this process's own
        _start_blocks -= 1


class sparing:  # noqa: N801 - used like a function
    """Let processes that are started within the block outlive this process."""

    def __enter__(self) -> None:
        os.environ[SPARED_VARIABLE] = "1"

    def __exit__(self, *_exc: object) -> None:
        os.environ.pop(SPARED_VARIABLE, None)


class _Reaper:
    """Collects adopted orphans that have ended."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        from signal import SIGCHLD

        self.loop = loop
        self._timer: TimerHandle | None = None
        loop.add_signal_handler(SIGCHLD, self._collect_later)

    def stop(self) -> None:
        from signal import SIGCHLD

        if not self.loop.is_closed():
            self.loop.remove_signal_handler(SIGCHLD)
        if self._timer is not None:
            self._timer.cancel()

    def _collect_later(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(REAP_SECONDS, self._collect)

    def _collect(self) -> None:
        self._timer = None
        collect_exit_statuses(list(read_processes().values()))


def _set_subreaper(wanted: int) -> bool:
    """Switch adopting on (1) or off (0); return whether the system could."""
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
        return None  # the process ended meanwhile
    else:
        return found
    finally:
        os.close(fd)


class ProcessTree:
    """A root process, which leads a session and group of its own, and all its descendants.

    The group is signalled as a whole until the root is reaped, because its id may then be reused;
    from then on, only known processes are signalled.
    """

    def __init__(self, root: int, mark: str | None = None) -> None:
        self._root = root
        self._mark = mark if sys.platform == "linux" else None
        """Mark in the environment of the root and its descendants; None on systems that do not show
        the environment of other processes (macOS)."""
        info = read_process(root)
        self._start_ticks = 0 if info is None else info.ticks
        """Start time of the root, in clock ticks since boot; 0 if unknown."""
        self._root_collected = False
        self._known: dict[int, ProcessInfo] = {}
        self.may_miss_some: bool = False
        """Whether the last `refresh` could not read the table of processes, or found a process that
        was just starting, whose mark cannot be read yet."""
        add_root(root)

    def root_collected(self) -> None:
        """Note that the root's id is free for reuse from now on."""
        self._root_collected = True
        discard_root(self._root)

    def refresh(self) -> None:
        """Read the table of processes, and note the descendants of the root."""
        table = read_processes()
        if not table:
            self.may_miss_some = True
            return
        members = {
            pid
            for pid, info in self._known.items()
            if pid in table and table[pid].started == info.started
        }
        if not self._root_collected:
            members.add(self._root)
            members.update(
                info.pid for info in table.values() if self._root in (info.group, info.session)
            )
        children: dict[int, list[int]] = {}
        for info in table.values():
            children.setdefault(info.parent, []).append(info.pid)
        _add_descendants(members, children)
        self.may_miss_some, orphans = False, list[int]()
        for info in table.values():
            if info.pid in members or info.dead or info.ticks < self._start_ticks:
                continue  # a known or ended process, or one older than the root
            marked = False if self._mark is None else has_mark(info.pid, self._mark)
            if marked is None and info.parent != _KTHREADD:
                self.may_miss_some = True
            if marked or self._is_for_last_tree(info):
                orphans.append(info.pid)
        if orphans:
            members.update(orphans)
            _add_descendants(members, children)
        members.discard(os.getpid())  # never signal this process itself
        self._known = {pid: table[pid] for pid in members if pid in table}

    def _is_for_last_tree(self, info: ProcessInfo) -> bool:
        """Return whether a process is an orphan that is not spared, and this tree is the only one
        open, so that no other tree can end it."""
        if _open_roots - {self._root} or not is_orphan_here(info):
            return False
        return f"{SPARED_VARIABLE}=".encode() not in (_environment(info.pid) or b"")

    def reap(self) -> None:
        """Reap the tree's ended orphans that this process has adopted."""
        if _reaper is not None:
            infos = [read_process(pid) for pid in self._known if pid != self._root]
            collect_exit_statuses([info for info in infos if info is not None])

    def living(self) -> list[ProcessInfo]:
        """Return the known processes, the root included, that have not ended."""
        return [info for info in self._known.values() if _lives(info, read_process(info.pid))]

    def signal(self, number: int) -> None:
        """Send a signal to the root's group, and to each known living process outside of it."""
        from signal import SIGKILL  # not needed to start a process, and slow to import

        if not self._root_collected:
            try:  # noqa: SIM105 - contextlib is slow to import, too
                os.killpg(self._root, number)
            except OSError:
                pass  # the group is empty, or (macOS) all in it have ended
        for info in self._known.values():
            # Some programs skip their clean-up at a second SIGTERM, so none gets two.
            is_signalled = info.group == self._root and not self._root_collected
            if not is_signalled or number == SIGKILL:
                _signal_one(info, number)


def _add_descendants(members: set[int], children: dict[int, list[int]]) -> None:
    waiting = list(members)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in members:
                members.add(child)
                waiting.append(child)


def _lives(info: ProcessInfo, now: ProcessInfo | None) -> bool:
    """Return whether ``now`` is the process ``info``, and has not ended."""
    return now is not None and now.started == info.started and not now.dead


def _signal_one(info: ProcessInfo, number: int) -> None:
    """Signal a process if it still lives. A pidfd (Linux) never means another process."""
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
        pass  # the process ended meanwhile, or belongs to another user
    finally:
        if pidfd is not None:
            os.close(pidfd)
