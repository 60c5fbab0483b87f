"""A worker: does jobs, any number at once, next to the directories that they work in.

Owns the agents and the worktrees of its jobs, and that nothing of a job is left when it has ended.
Must not know which engine runs it, nor where outcomes are kept.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codex_acp.fleet.agent_pool import TASKS_PER_AGENT, AgentPool, Lease
from codex_acp.fleet.changes import Baseline, Changes, changes_since, directory_baseline
from codex_acp.fleet.checkout import Checkout, Checkouts
from codex_acp.fleet.failures import reason_of
from codex_acp.fleet.jobs import Job, Post, Reason, Report
from codex_acp.fleet.private_files import make_private, remove_tree
from codex_acp.fleet.time_limit import TimeLimit
from codex_acp.fleet.worker_session import Ended, SessionRun
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Sequence


FORCED: Final[frozenset[Reason]] = frozenset(
    ("time_limit", "token_limit", "cancelled", "agent_lost", "agent_not_found", "agent_not_started")
)
"""After these something may still run in the agent's process, if there is one."""


class Worker:
    """Its worktrees are below ``root``, a directory that is this user's alone."""

    def __init__(self, root: Path, *, tasks_per_agent: int = TASKS_PER_AGENT) -> None:
        self._root = root
        self.pool: AgentPool = AgentPool(tasks_per_agent)
        self.checkouts: Checkouts = Checkouts(root)
        self.kept: dict[str, Checkout] = {}
        """By attempt: worktrees of jobs that have reported, until the driver says what of them."""

    async def run(self, job: Job, post: Post) -> Report:
        """Do the job. Raises nothing but its own cancellation, which ends what the job started
        and leaves its worktree to a later attempt."""
        return await _Attempt(self, job, post).run()

    def scratch(self, job: Job) -> Path:
        """A directory for one attempt."""
        return make_private(self._root / job.fleet_id / "scratch") / uuid.uuid4().hex

    async def settle(self, attempt_id: str, *, written: bool) -> None:
        """The driver has the report: where the outcome is ``written`` the worktree goes, else a
        later attempt may find it."""
        checkout = self.kept.pop(attempt_id, None)
        if checkout is None:
            return
        if written:
            await self.checkouts.remove(checkout)
        else:
            checkout.lock.release()

    async def aclose(self, remove: Sequence[str] = ()) -> None:
        """End every agent, and remove what is left of the fleets with these ids."""
        await self.pool.aclose()
        for checkout in self.kept.values():
            checkout.lock.release()
        for fleet_id in remove:
            await asyncio.to_thread(remove_tree, self._root / fleet_id)


class _Attempt:
    """One job."""

    def __init__(self, worker: Worker, job: Job, post: Post) -> None:
        self._worker = worker
        self._job = job
        self._post = post
        self._limit = TimeLimit(job.time_limit)
        self._checkout: Checkout | None = None
        self._baseline: Baseline | None = None
        self._scratch: Path | None = None
        self._note: str | None = None
        self._session = SessionRun(job, post, self._limit)

    async def run(self) -> Report:
        started = time.monotonic()
        try:
            reason, message = await self._ended()
            changes = await self._changes()
            if reason == "end_turn" and changes.missing is not None:
                reason, message = "changes_incomplete", changes.missing
            report = Report(
                reason=reason,
                message=message,
                changes=changes.patch,
                changes_note="; ".join(filter(None, (changes.missing, changes.note))) or None,
                seconds=round(time.monotonic() - started, 3),
                commit=self._checkout.commit if self._checkout else None,
            )
            report = self._session.told(report)
        except BaseException:
            if self._checkout is not None:
                self._checkout.lock.release()
            raise
        else:
            if self._checkout is not None:
                self._worker.kept[self._job.attempt_id] = self._checkout
        finally:
            if self._scratch is not None:
                await shielded(asyncio.create_task(asyncio.to_thread(remove_tree, self._scratch)))
        return report

    async def _ended(self) -> tuple[Reason, str | None]:
        try:
            async with self._limit:
                await self._work()
        except Ended as ended:
            return ended.reason, ended.message
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this task's
            if isinstance(error, TimeoutError) and self._limit.expired:
                return "time_limit", f"it took longer than {self._job.time_limit:g} seconds"
            return reason_of(error), str(error).strip() or type(error).__name__
        return "end_turn", None

    async def _work(self) -> None:
        job = self._job
        again = job.session_id is not None
        if job.repository is not None:
            self._checkout = await self._worker.checkouts.make(job, again=again)
            directory = self._checkout.path
            self._baseline = self._checkout.baseline
            again = again and self._checkout.left_over
        else:
            directory = Path(job.cwd or ".")
            if not directory.is_dir():
                raise Ended("directory", f"{str(directory)!r} is no directory on this machine")
            self._scratch = self._worker.scratch(job)
            found = await directory_baseline(directory, self._scratch)
            if isinstance(found, Baseline):
                self._baseline = found
            else:
                self._note = found
        self._post.event({"type": "place", "cwd": str(directory)})
        await self._converse(directory, again=again)

    async def _converse(self, directory: Path, *, again: bool) -> None:
        job = self._job
        lease: Lease = self._worker.pool.take(job.agent, forms=job.forms, urls=job.urls)
        clean = False
        try:
            await self._session.run(lease, directory, again=again)
            clean = True
        except Ended as ended:
            clean = ended.reason not in FORCED
            raise
        except Exception as error:
            clean = reason_of(error) not in FORCED and not self._limit.expired
            raise
        finally:
            await self._worker.pool.give_back(lease, clean=clean)

    async def _changes(self) -> Changes:
        if self._baseline is None:
            return Changes(None, note=self._note)
        return await changes_since(self._baseline)
