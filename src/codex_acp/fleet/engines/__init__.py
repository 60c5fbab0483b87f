"""Where tasks are run: what an engine does for a fleet, and nothing about tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from codex_acp.fleet.jobs import Job, Post, Report


class Engine(Protocol):
    """Runs jobs by a `codex_acp.fleet.worker.Worker`, here or elsewhere. One fleet at a time."""

    async def open(self, fleet_id: str, work: Path | None) -> int:
        """Make ready; how many tasks at once are good. ``work`` is a directory for worktrees on
        this machine, None where the fleet has no output directory.

        Raises EngineNotInstalled and EngineError.
        """

    async def run(self, job: Job, post: Post) -> Report:
        """Do the job. Raises WorkerLost; when this is cancelled the job is ended first.

        Posts ``{"type": "worker", "worker": name}`` before anything of the job happens.
        """

    async def settle(self, job: Job, *, written: bool) -> None:
        """The report of the job was taken; ``written``: as the task's outcome. Never raises."""

    async def aclose(self, *, done: bool) -> None:
        """End all workers and their agents; ``done``: no task of the fleet is left to be run."""
