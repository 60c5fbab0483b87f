"""The descendants of a process: who they are, and signals that hit nobody else.

A process is known by its id *and* its start time, so that a reused id is never hit. Processes
stay known after their parent died, and when they moved to a session or group of their own; those
that were never seen with a parent are known by `codex_acp.transport.orphans`.
Must not know why anybody is stopped.
"""

from __future__ import annotations

import os
import sys

from codex_acp.transport import orphans
from codex_acp.transport.process_table import ProcessInfo, open_pidfd, read_process, read_processes

_KERNEL_THREADS = 2
"""The parent of those, which have no environment; see kthreads in proc(5)."""


class ProcessTree:
    """A root process, which leads a session and group of its own, and all that came from it.

    While the root is not collected (`root_collected`) its id cannot be reused, so group and
    session ids can be trusted; afterwards only processes already known are touched.
    """

    def __init__(self, root: int, mark: str | None = None) -> None:
        self._root = root
        self._mark = mark
        """In the environment of the root, and so of what comes of it; see `orphans.mark`."""
        first = read_process(root)
        self._began = 0 if first is None else first.ticks
        self._root_collected = False
        self._known: dict[int, ProcessInfo] = {}
        self.unsure: bool = False
        """Whether the last look came upon a process that was just being started."""
        orphans.opened(root)

    def root_collected(self) -> None:
        """The root's id is free for reuse from now on."""
        self._root_collected = True
        orphans.closed(self._root)

    def refresh(self) -> None:
        """Look at all processes and note those that come from the root."""
        table = read_processes()
        roots = {pid for pid, info in self._known.items() if _same(info, table.get(pid))}
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
            marked = orphans.has_mark(info.pid, self._mark)
            if marked:
                return True
            self.unsure = self.unsure or (marked is None and info.parent != _KERNEL_THREADS)
        return (
            orphans.is_orphan_here(info)
            and orphans.is_the_last(self._root)
            and not orphans.spared(info.pid)
        )

    def collect(self) -> None:
        """Take the status of its orphans that have ended and are this process's children now."""
        if orphans.adopts():
            found = [read_process(pid) for pid in self._known if pid != self._root]
            orphans.collect([info for info in found if info is not None])

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


def _same(info: ProcessInfo, now: ProcessInfo | None) -> bool:
    return now is not None and now.started == info.started


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
