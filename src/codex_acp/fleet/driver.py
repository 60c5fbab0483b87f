"""The driver: runs every task of a fleet that has no outcome yet, and stops them all at once.

Owns the output directory, the journal, the budgets and the slots of one run. Must not know what a
task does, nor how an engine does it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from codex_acp.fleet.errors import FleetError, OutDirectoryError
from codex_acp.fleet.jobs import RETRIED, Usage
from codex_acp.fleet.journal import History, Journal, now, read_history
from codex_acp.fleet.out_directory import OutDirectory
from codex_acp.fleet.slots import Slots
from codex_acp.fleet.task_run import TaskRun
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codex_acp.fleet.jobs import Event, Job, Report
    from codex_acp.fleet.outcome import Outcome
    from codex_acp.fleet.output import OutputCheck
    from codex_acp.fleet.settings import FleetSettings
    from codex_acp.fleet.task import Task

logger = logging.getLogger(__name__)

PARKED: Final = 64
"""Tasks that wait for an answer without holding a slot; each has a session open."""

WORK: Final = "work"


class RunDriver:
    """One run; see `Driver`, which this is for its tasks. `run` once."""

    def __init__(
        self, settings: FleetSettings, tasks: Sequence[Task], checks: Mapping[str, OutputCheck]
    ) -> None:
        self.settings = settings
        self._tasks = {task.id: task for task in tasks}
        self._checks = checks
        self.run_id: str = uuid.uuid4().hex
        self.fleet_id: str = self.run_id
        self.slots: Slots = Slots(settings.concurrency or 1, PARKED)
        self.stopped: str | None = None
        self.error: BaseException | None = None
        self.left: set[str] = set(self._tasks)
        """Ids without an outcome."""
        self.outcomes: deque[Outcome] = deque()
        """Outcomes that nobody has taken yet."""
        self.news: asyncio.Event = asyncio.Event()
        self.over: bool = False
        self._stop = asyncio.Event()
        self._used: dict[str, int] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._out: OutDirectory | None = None
        self._journal: Journal | None = None
        self._histories: dict[str, History] = {}
        self._failed: dict[str, Outcome] = {}
        """The outcomes of an earlier run whose tasks are run again, by id."""

    def stop(self, reason: str) -> None:
        """End what runs and start nothing more; what has no outcome can be gone on with."""
        if self.stopped is None:
            self.stopped = reason
            self._stop.set()

    async def run(self) -> None:
        """Everything; `over` afterwards. What went wrong is in `error`."""
        try:
            await self._run()
        except BaseException as error:  # noqa: BLE001 - raised to whoever takes the outcomes
            self.error = error
        finally:
            self.over = True
            self.news.set()

    async def _run(self) -> None:
        await asyncio.to_thread(self._open)
        timer: asyncio.TimerHandle | None = None
        opened = False
        try:
            if not self.left:
                return  # nothing that an engine would have to be started for
            opened = True
            work = None if self._out is None else self._out.path / WORK
            proposed = await self.settings.engine.open(self.fleet_id, work)
            self.slots = Slots(self.settings.concurrency or proposed, PARKED)
            self.note("run", run=self.run_id, tasks=list(self._tasks))
            limit = self.settings.time_limit
            if limit is not None:
                loop = asyncio.get_running_loop()
                reason = f"the time limit of {limit:g} seconds for all tasks is over"
                timer = loop.call_later(limit, self.stop, reason)
            await self._all()
            self.note("run_ended", run=self.run_id, stopped=self.stopped)
        finally:
            if timer is not None:
                timer.cancel()
            try:
                if opened:
                    await self.settings.engine.aclose(done=not self.left)
            finally:
                if self._journal is not None:
                    self._journal.close()
                if self._out is not None:
                    self._out.close()

    def _open(self) -> None:
        fleet = self.settings
        if fleet.out is None:
            return
        self._out = OutDirectory.open(fleet.out, resume=fleet.resume)
        try:
            self.fleet_id = self._out.fleet_id
            path = self._out.path / "journal.jsonl"
            self._histories = read_history(path)[1]
            for outcome in self._out.outcomes():
                self._take_earlier(outcome)
            self._journal = Journal(path)
        except BaseException:
            self._out.close()
            raise

    def _take_earlier(self, outcome: Outcome) -> None:
        """It has an outcome: of this very task, or the file of tasks was changed since."""
        task = self._tasks.get(outcome.id)
        if task is None:
            return
        check = self._checks.get(task.id)
        same = outcome.digest == task.digest(None if check is None else check.schema)
        if self.settings.retry_failed and not outcome.ok:
            self._failed[task.id] = outcome
            history = self._histories.setdefault(task.id, History())
            # Else the retry was begun by an earlier run, and is gone on with.
            if len(history.attempts) <= len(outcome.attempts):
                history.retry(outcome, goes_on=same and outcome.reason in RETRIED)
            return
        if not same:
            raise OutDirectoryError(
                f"the task {task.id!r} is another one than the one with an outcome in "
                f"{outcome.path}; give it another id, or remove that directory"
            )
        if check is not None and outcome.ok:
            outcome = replace(outcome, output=check.read(outcome.output))  # type: ignore[arg-type] # read from JSON
        self.left.discard(task.id)
        self.outcomes.append(outcome)
        self.news.set()

    async def _all(self) -> None:
        """A task for each task, as slots come free; at a stop all of them are cancelled."""
        starting = asyncio.ensure_future(self._start_all())
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
        finally:
            for task in (starting, stopping, *self._running):
                task.cancel()
            await asyncio.wait({starting, stopping, *self._running})
        if self.error is not None:
            raise self.error

    async def _start_all(self) -> None:
        for task in [task for task in self._tasks.values() if task.id in self.left]:
            await self.slots.take()
            running = asyncio.get_running_loop().create_task(self._one(task), name=task.id)
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        while self._running:
            await asyncio.wait(self._running)

    async def _one(self, task: Task) -> None:
        history = self._histories.setdefault(task.id, History())
        earlier = self._failed.get(task.id)
        usage = Usage() if earlier is None else earlier.usage
        run = TaskRun(self, task, self._checks.get(task.id), history, usage)
        try:
            job, report, outcome = await run.run()
            # From here on it is finished, whatever stops the fleet.
            await shielded(asyncio.create_task(self._keep(job, report, outcome)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised by `_all`, when all is over
            self._fail(error)
        finally:
            self.slots.give()

    async def _keep(self, job: Job, report: Report, outcome: Outcome) -> None:
        if self._out is not None:
            plain: Any = report.output
            try:
                replaces = outcome.id in self._failed
                path = await asyncio.to_thread(self._out.write, outcome, plain, replaces=replaces)
            except FleetError as error:
                self._fail(error)
                await self.settings.engine.settle(job, written=False)
                return
            outcome = replace(outcome, path=path)
        self.left.discard(outcome.id)
        self.outcomes.append(outcome)
        self.news.set()
        self.happened(outcome.id, {"type": "ended", "reason": outcome.reason})
        await self.settings.engine.settle(job, written=True)

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self.stop(str(error) or type(error).__name__)

    # What the tasks say: see `Driver`.

    def note(self, kind: str, **members: object) -> str:
        """Write a line of the journal, if there is one; return its time."""
        return now() if self._journal is None else self._journal.note(kind, **members)

    def used(self, task_id: str, tokens: int) -> None:
        self._used[task_id] = tokens
        most = self.settings.max_tokens
        if most is not None and sum(self._used.values()) >= most:
            self.stop(f"the budget of {most} tokens for all tasks is used up")

    def happened(self, task_id: str, event: Event) -> None:
        if self.settings.on_event is not None:
            try:
                self.settings.on_event(task_id, event)
            except Exception:
                logger.exception("on_event failed for %s", json.dumps(task_id))
