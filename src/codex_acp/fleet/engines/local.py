"""The engine that is always there: one worker, in this process."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.errors import MisuseError
from codex_acp.fleet.private_files import default_root, make_private, remove_tree
from codex_acp.fleet.worker import TASKS_PER_AGENT, Worker

if TYPE_CHECKING:
    from codex_acp.fleet.jobs import Job, Post, Report

TASKS_PER_CPU: Final = 4
"""A task mostly waits for its model."""


class LocalEngine:
    """Runs tasks in this process; their agents are its children.

    ``tasks_per_agent`` bounds how many tasks share a process of an agent that can be shared; 1
    gives each its own.
    """

    def __init__(self, *, tasks_per_agent: int = TASKS_PER_AGENT) -> None:
        if tasks_per_agent < 1:
            raise MisuseError("tasks_per_agent is at least 1")
        self._tasks_per_agent = tasks_per_agent
        self._worker: Worker | None = None
        self._fleet_id = ""
        self._temporary: Path | None = None
        self._work: Path | None = None

    async def open(self, fleet_id: str, work: Path | None) -> int:
        """Prepare the workers of this machine, and return how many there are."""
        if work is None:
            self._temporary = _temporary_place()
        self._work = self._temporary or make_private(work or Path())
        self._fleet_id = fleet_id
        self._worker = Worker(self._work, tasks_per_agent=self._tasks_per_agent)
        return TASKS_PER_CPU * (os.cpu_count() or 1)

    async def run(self, job: Job, post: Post) -> Report:
        """Run a job in this process."""
        post.event({"type": "worker", "worker": f"{socket.gethostname()}/{os.getpid()}"})
        return await self._its().run(job, post)

    async def settle(self, job: Job, *, written: bool) -> None:
        """Remove a job's worktree where its outcome was written, else keep it for another try."""
        await self._its().settle(job.attempt_id, written=written)

    async def aclose(self, *, done: bool) -> None:
        """End the workers, and remove their directories."""
        if self._worker is not None:
            await self._worker.aclose([self._fleet_id] if done else [])
            self._worker = None
        if self._temporary is not None:
            remove_tree(self._temporary)
        elif self._work is not None and not any(self._work.iterdir()):
            self._work.rmdir()
        self._temporary = self._work = None

    def _its(self) -> Worker:
        if self._worker is None:
            raise MisuseError("the engine is not open; a Fleet opens it")
        return self._worker


def _temporary_place() -> Path:
    root = default_root()
    try:
        return Path(tempfile.mkdtemp(prefix="local-", dir=make_private(root)))
    except OSError as error:
        why = error.strerror or str(error)
        msg = f"{root} cannot be used: {why}; name an output directory, or set XDG_CACHE_HOME"
        raise MisuseError(msg) from error
