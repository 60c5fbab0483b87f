"""Run many tasks on an engine, and give each one outcome.

The driver is the program that has the fleet: it starts the tasks, tries them again, answers their
questions, applies the budgets, and ends what it started. Workers, which an engine has, run agents.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import uuid
from collections import deque
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from codex_acp.errors import (
    MisuseError,
    must_be_count,
    must_be_seconds,
    refuse_unless,
    several,
)
from codex_acp.fleet.engines import LocalEngine
from codex_acp.fleet.errors import FleetError, OutDirectoryError, WorkerLost
from codex_acp.fleet.jobs import RETRIED, Event, Job, Report, Usage, now
from codex_acp.fleet.outcomes import (
    Attempt,
    History,
    Journal,
    Outcome,
    OutDirectory,
    read_history,
    read_outcomes,
)
from codex_acp.fleet.questions import answer_elicitation, answer_permission, kind_of
from codex_acp.fleet.task import OutputCheck, Task, checked_answer, problems_of_ids
from codex_acp.fleet.worker import TimeLimit
from codex_acp.runtime import Permission, reject_all
from codex_acp.transcript.secrets import scrub
from codex_acp.transport.shielding import finish, running_loop, shielded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    from codex_acp.fleet.engines import Engine
    from codex_acp.fleet.questions import FleetFormCallback, FleetPolicy, FleetUrlCallback, Question

logger = logging.getLogger(__name__)


class FleetRun:
    """An async iterator of outcomes. `Fleet.map` makes it; iterate over it once.

    Leaving the ``async with`` block early, or `aclose`, stops the fleet and waits until no agent
    runs. Outcomes of earlier runs come first, with ``earlier`` set. If an error stopped the fleet,
    the iteration raises the error, a `FleetError`.
    """

    def __init__(self, settings: FleetSettings, tasks: Sequence[Task]) -> None:
        if problems := problems_of_ids(tasks):
            raise MisuseError("; ".join(problems))
        checks = {task.id: OutputCheck(task.output) for task in tasks if task.output is not None}
        self._driver = RunDriver(settings, tasks, checks)
        self._driver_run: asyncio.Task[None] | None = None

    @property
    def stopped(self) -> str | None:
        """Reason why the fleet stopped before all tasks had an outcome, or None."""
        return self._driver.stopped

    @property
    def left(self) -> tuple[str, ...]:
        """The ids of tasks without an outcome."""
        return tuple(sorted(self._driver.left))

    def stop(self, reason: str = "it was stopped by the program") -> None:
        """End all running tasks; then the iteration ends."""
        self._driver.stop(reason)

    async def aclose(self) -> None:
        """Stop the fleet if it runs, and wait for its end, even if this call is cancelled."""
        if self._driver_run is not None:
            if not self._driver.over:
                self._driver.stop("the program left the fleet")
            await finish(self._driver_run)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome:
        self._begin()
        driver = self._driver
        while not driver.outcomes:
            if driver.over:
                if driver.error is not None:
                    raise driver.error.with_traceback(None)
                raise StopAsyncIteration
            driver.changed.clear()
            await driver.changed.wait()
        return driver.outcomes.popleft()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def _begin(self) -> None:
        if self._driver_run is None:
            self._driver_run = running_loop().create_task(self._driver.run(), name="fleet")


TASK_SECONDS: Final = 3600.0
"""Seconds for a task by default: without a limit, a task that hangs would keep its slot."""
deny_all: FleetPolicy = reject_all
"""The policy by default: rejects every permission question."""


class Fleet:
    """Settings of a fleet; `map` starts a run.

    * ``engine`` runs the tasks; by default a `LocalEngine`.
    * ``out`` is the directory for outcomes; with None, outcomes are only in memory. ``resume``
      allows a directory of an earlier run: only tasks without an outcome are run. With
      ``retry_failed``, failed tasks are run again, too; their outcomes move to ``retried`` in it.
    * ``concurrency`` is the number of tasks at once; by default the engine chooses it.
    * ``permissions``, ``on_form`` and ``on_url`` answer the agents' questions, in this process. A
      task gives its slot back while its question waits.
    * ``max_tokens`` and ``time_limit`` (seconds) are budgets of all tasks together: when one of
      them is used up, the fleet ends its running tasks and stops.
    * ``task_time_limit`` (seconds) is for each task without a ``time_limit``.
    * ``retries`` says how often a task is tried again after an overloaded model, a lost agent or a
      lost worker.
    * ``on_event`` is called with a task's id and an event, a mapping with a ``type``.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        retry_failed: bool = False,
        concurrency: int | None = None,
        permissions: FleetPolicy = deny_all,
        on_form: FleetFormCallback | None = None,
        on_url: FleetUrlCallback | None = None,
        max_tokens: int | None = None,
        time_limit: float | None = None,
        task_time_limit: float | None = TASK_SECONDS,
        retries: Retries | None = None,
        on_event: Callable[[str, Event], None] | None = None,
    ) -> None:
        refuse_unless(callable(permissions), "permissions is a function", permissions)
        for name, function in (("on_form", on_form), ("on_url", on_url), ("on_event", on_event)):
            refuse_unless(function is None or callable(function), f"{name} is a function", function)
        for name, number in (("concurrency", concurrency), ("max_tokens", max_tokens)):
            if number is not None:
                must_be_count(name, number)
        for name, seconds in (("time_limit", time_limit), ("task_time_limit", task_time_limit)):
            if seconds is not None:
                must_be_seconds(name, seconds)
        refuse_unless(hasattr(engine or LocalEngine, "settle"), "engine is an engine", engine)
        refuse_unless(isinstance(retries, Retries | None), "retries is a Retries", retries)
        refuse_unless(isinstance(out, str | os.PathLike | None), "out is a path", out)
        if resume and out is None:
            raise MisuseError("only a fleet with an output directory can be resumed")
        if retry_failed and not resume:
            raise MisuseError(
                "only a fleet that is resumed runs again what failed: add resume (--resume)"
            )
        self._settings = FleetSettings(
            engine=engine or LocalEngine(), out=out, resume=resume, retry_failed=retry_failed,
            concurrency=concurrency, permissions=permissions, on_form=on_form, on_url=on_url,
            max_tokens=max_tokens, time_limit=time_limit, task_time_limit=task_time_limit,
            retries=retries or Retries(), on_event=on_event,
        )  # fmt: skip

    def map(self, tasks: Iterable[Task]) -> FleetRun:
        """Run tasks; return an async iterator of their outcomes, in the order in which they end.

        ::

            async with Fleet(out="results").map(tasks) as outcomes:
                async for outcome in outcomes:
                    print(outcome.id, outcome.status, outcome.text)

        Raises MisuseError for two tasks with one id.
        """
        tasks = several("tasks", tasks)
        for task in tasks:
            refuse_unless(isinstance(task, Task), "a fleet runs tasks, each a Task", task)
        return FleetRun(self._settings, tasks)


@dataclass(frozen=True, slots=True)
class Retries:
    """Rules for trying a task again after an overloaded model, a lost agent or a lost worker.

    A run attempts a task at most ``attempts`` times. The pause before the second attempt is
    ``seconds``; each next pause is twice as long, at most ``longest`` seconds. Each pause gets up
    to a half longer, at random.
    """

    attempts: int = 3
    seconds: float = 2.0
    longest: float = 120.0

    def __post_init__(self) -> None:
        must_be_count("attempts", self.attempts)
        for name, seconds in (("seconds", self.seconds), ("longest", self.longest)):
            must_be_seconds(name, seconds)

    def pause(self, made: int) -> float:
        """Return the seconds to wait after ``made`` attempts."""
        wait = min(self.seconds * 2.0 ** (made - 1), self.longest)
        return wait * (1 + random.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The parameters of a `Fleet`."""

    engine: Engine
    out: str | os.PathLike[str] | None
    resume: bool
    retry_failed: bool
    concurrency: int | None
    permissions: FleetPolicy
    on_form: FleetFormCallback | None
    on_url: FleetUrlCallback | None
    max_tokens: int | None
    time_limit: float | None
    task_time_limit: float | None
    retries: Retries
    on_event: Callable[[str, Event], None] | None


class Slots:
    """Slots for ``count`` running tasks. A parked task waits for an answer without a slot. At most
    ``most_parked`` tasks are parked, because each of them has an open session; further tasks that
    wait for an answer keep their slots."""

    def __init__(self, count: int, most_parked: int) -> None:
        self._free = count
        """May be negative, because a parked task takes its slot back without waiting."""
        self._parking_left = most_parked
        """Number of further tasks that may be parked."""
        self._freed = asyncio.Event()

    async def acquire(self) -> None:
        while self._free <= 0:
            self._freed.clear()
            await self._freed.wait()
        self._free -= 1

    def release(self) -> None:
        self._free += 1
        self._freed.set()

    async def pause(self, seconds: float) -> None:
        """Give a slot back, wait ``seconds``, and take a slot again."""
        self.release()
        try:
            await asyncio.sleep(seconds)
            await self.acquire()
        except BaseException:
            self._free -= 1  # the caller releases the slot
            raise

    @contextmanager
    def parked(self) -> Iterator[None]:
        """Give a slot back within the block; take a slot at the end, even if none is free."""
        if self._parking_left <= 0:
            yield
            return
        self._parking_left -= 1
        self.release()
        try:
            yield
        finally:
            self._parking_left += 1
            self._free -= 1


GRACE_SECONDS: Final = 120.0
"""Seconds after a task's time limit in which its worker must report; else the worker is lost."""

JOURNALED: Final = frozenset(("worker", "opened", "prompt", "prompt_ended"))
"""Types of the events that go to the journal, because a later run needs them."""


@dataclass(eq=False, slots=True)
class TaskRun:
    """Runs one task on the driver's side; is the `Post` of each of its jobs."""

    _driver: RunDriver
    _task: Task
    _check: OutputCheck | None
    _history: History
    _earlier_usage: Usage
    """Usage of the failed outcome that is replaced; not counted in this run's budget."""
    _usage: Usage = field(default_factory=Usage)
    _cwd: str | None = None
    """Directory in which the worker has the agent work."""
    _asked: int = 0
    _allowed: int = 0
    _limit: TimeLimit = field(init=False)
    """Time limit of the last attempt; it stands still while a question waits."""
    _attempt_runs: bool = False
    """Whether an attempt runs. An event between two attempts is late, and does not count."""

    async def run(self) -> tuple[Job, Report, Outcome]:
        """Attempt the task until there is an outcome; give its slot back during pauses."""
        driver, retries = self._driver, self._driver.settings.retries
        for attempt in range(1, retries.attempts + 1):
            job = self._make_job()
            report = await self._attempt(job)
            if report.reason not in RETRIED or attempt == retries.attempts:
                return job, report, self._make_outcome(report)
            await driver.settings.engine.settle(job, written=False)
            pause = retries.pause(attempt)
            driver.report_event(
                self._task.id, {"type": "retry", "reason": report.reason, "seconds": pause}
            )
            await driver.slots.pause(pause)
        raise AssertionError("a task is tried at least once")

    def _make_job(self) -> Job:
        task, driver, history = self._task, self._driver, self._history
        fleet = driver.settings
        # All prompts finished, but no outcome: the last answer is lost, so send that prompt again.
        first_prompt = min(history.first_prompt, len(task.prompts) - 1)
        return Job(
            attempt_id=uuid.uuid4().hex,
            fleet_id=driver.fleet_id,
            run_id=driver.run_id,
            task_id=task.id,
            name=task.name,
            prompts=task.prompts,
            agent=task.spec,
            cwd=task.directory,
            repository=task.source,
            revision=task.revision,
            settings=task.settings,
            options=dict(task.options),
            schema=None if self._check is None else self._check.schema,
            time_limit=fleet.task_time_limit if task.time_limit is None else task.time_limit,
            max_tokens=task.max_tokens,
            forms=fleet.on_form is not None,
            urls=fleet.on_url is not None,
            session_id=history.session_id,
            first_prompt=first_prompt,
            prompt_sent=history.prompt_sent or first_prompt < history.first_prompt,
        )

    async def _attempt(self, job: Job) -> Report:
        """Run a job; record the attempt in the journal and the history."""
        driver, history = self._driver, self._history
        started = driver.note("attempt", id=self._task.id, attempt=job.attempt_id)
        history.attempts.append(Attempt(started=started, reason="interrupted"))
        self._attempt_runs = True
        try:
            report = await self._run_job(job)
        except WorkerLost as lost:
            report = Report(reason="worker_lost", message=str(lost), session_id=history.session_id)
        finally:
            self._attempt_runs = False
        self._usage += report.usage
        driver.count_tokens(self._task.id, self._usage.total)
        ended: dict[str, Any] = {
            "reason": report.reason, "message": report.message, "seconds": report.seconds,
        }  # fmt: skip
        driver.note("attempt_ended", id=self._task.id, attempt=job.attempt_id, **ended)
        ended |= {"session_id": report.session_id, "resumed": report.resumed}
        history.attempts[-1] = replace(history.attempts[-1], **ended)
        return report

    async def _run_job(self, job: Job) -> Report:
        """Run the job on the engine. Raises WorkerLost if no report comes within the job's time
        limit and `GRACE_SECONDS` more."""
        seconds = job.time_limit
        self._limit = limit = TimeLimit(None if seconds is None else seconds + GRACE_SECONDS)
        try:
            async with limit:
                return await self._driver.settings.engine.run(job, self)
        except Exception as error:
            if not limit.expired:
                raise
            msg = f"the worker did not end the task at its limit, {seconds:g} s"
            raise WorkerLost(msg) from error

    def _make_outcome(self, report: Report) -> Outcome:
        task = self._task
        completed = report.reason == "end_turn"
        output: Any = report.output
        if completed and self._check is not None:
            output = self._check.read(report.output)
        return Outcome(
            id=task.id,
            status="completed" if completed else "failed",
            reason=report.reason,
            message=report.message,
            text=report.text,
            output=output,
            usage=self._earlier_usage + self._usage,
            agent=task.spec.name,
            session_id=report.session_id,
            cwd=self._cwd if task.repository is None else None,
            repository=None if task.repository is None else scrub(task.repository),
            revision=task.revision,
            commit=report.commit,
            asked=self._asked,
            allowed=self._allowed,
            attempts=tuple(self._history.attempts),
            digest=task.digest(None if self._check is None else self._check.schema),
            changes=report.changes,
            changes_note=report.changes_note,
            transcript=report.transcript,
        )

    # The methods of `Post`.

    def event(self, event: Event) -> None:
        if not self._attempt_runs:
            return
        kind = event.get("type")
        if kind in JOURNALED:
            rest = {key: value for key, value in event.items() if key != "type"}
            self._driver.note(str(kind), id=self._task.id, **rest)
            self._history.apply(event)
        match event:
            case {"type": "place", "cwd": str(cwd)}:
                self._cwd = cwd
            case {"type": "usage", "tokens": int(tokens)}:
                self._driver.count_tokens(self._task.id, self._usage.total + tokens)
        self._driver.report_event(self._task.id, event)

    async def ask(self, question: Question) -> Any:
        if isinstance(question, str):
            return await asyncio.to_thread(checked_answer, self._check, question)
        fleet, task_id, kind = self._driver.settings, self._task.id, kind_of(question)
        self._asked += 1
        self._driver.report_event(task_id, {"type": "question", "kind": kind})
        try:
            with self._limit.paused(), self._driver.slots.parked():
                answer: Any
                if isinstance(question, Permission):
                    policy = self._task.policy or fleet.permissions
                    answer, allowed = await answer_permission(policy, task_id, question)
                else:
                    answer, allowed = await answer_elicitation(
                        fleet.on_form, fleet.on_url, task_id, question
                    )
        finally:
            self._driver.report_event(task_id, {"type": "answered", "kind": kind})
        self._allowed += allowed
        return answer


MOST_PARKED: Final = 64
"""Tasks that may wait for an answer without a slot; each of them has a session open."""

WORK: Final = "work"
"""Directory of the local engine's worktrees, in the output directory."""


class RunDriver:
    """One run of a fleet: starts tasks and collects outcomes. Call `run` once."""

    def __init__(
        self, settings: FleetSettings, tasks: Sequence[Task], checks: Mapping[str, OutputCheck]
    ) -> None:
        self.settings = settings
        self._tasks = {task.id: task for task in tasks}
        self._checks = checks
        self.run_id: str = uuid.uuid4().hex
        self.fleet_id: str = self.run_id
        self.slots: Slots
        """Set by `_run`, because the engine proposes the number of slots."""
        self.stopped: str | None = None
        self.error: BaseException | None = None
        self.left: set[str] = set(self._tasks)
        """Ids of the tasks without an outcome."""
        self.outcomes: deque[Outcome] = deque()
        """Outcomes that `FleetRun` has not returned yet."""
        self.changed: asyncio.Event = asyncio.Event()
        """Set when there is an outcome, or the run is `over`."""
        self.over: bool = False
        self._stop_requested = asyncio.Event()
        self._tokens: dict[str, int] = {}
        """Task id → tokens that the task has used in this run."""
        self._running: set[asyncio.Task[None]] = set()
        """Calls of `_run_task` that have not ended."""
        self._out: OutDirectory | None = None
        self._journal: Journal | None = None
        self._histories: dict[str, History] = {}
        self._failed: dict[str, Outcome] = {}
        """Outcomes of earlier runs whose tasks are run again, by id."""

    def stop(self, reason: str) -> None:
        """End running tasks and start no more; `left` keeps the tasks without an outcome."""
        if self.stopped is None:
            self.stopped = reason
            self._stop_requested.set()

    async def run(self) -> None:
        """Run the tasks, then set `over`. An exception is kept in `error`, not raised."""
        try:
            await self._run()
        except BaseException as error:  # noqa: BLE001 - `FleetRun` raises it
            self.error = error
        finally:
            self.over = True
            self.changed.set()

    async def _run(self) -> None:
        await asyncio.to_thread(self._open)
        async with AsyncExitStack() as stack:
            if self._out is not None:
                stack.callback(self._out.close)
            if self._journal is not None:
                stack.callback(self._journal.close)
            if not self.left:
                return
            engine = self.settings.engine
            # Reads `left` at the end of the run.
            stack.push_async_callback(lambda: engine.aclose(done=not self.left))
            work = None if self._out is None else self._out.path / WORK
            proposed = await engine.open(self.fleet_id, work)
            self.slots = Slots(self.settings.concurrency or proposed, MOST_PARKED)
            self.note("run", run=self.run_id, tasks=list(self._tasks))
            if (limit := self.settings.time_limit) is not None:
                loop = asyncio.get_running_loop()
                reason = f"the time limit of {limit:g} seconds for all tasks is over"
                stack.callback(loop.call_later(limit, self.stop, reason).cancel)
            starting = asyncio.ensure_future(self._start_all())
            stopping = asyncio.ensure_future(self._stop_requested.wait())
            try:
                await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if starting.done():
                    starting.result()
            finally:
                unfinished = {starting, stopping, *self._running}
                for call in unfinished:
                    call.cancel()
                await asyncio.wait(unfinished)
            if self.error is not None:
                raise self.error
            self.note("run_ended", run=self.run_id, stopped=self.stopped)

    def _open(self) -> None:
        """Open the output directory and its journal; read the outcomes of earlier runs."""
        fleet = self.settings
        if fleet.out is None:
            return
        self._out = OutDirectory.open(fleet.out, resume=fleet.resume)
        try:
            self.fleet_id = self._out.fleet_id
            path = self._out.path / "journal.jsonl"
            self._histories = read_history(path)[1]
            for outcome in read_outcomes(self._out.path):
                self._take_earlier(outcome)
            self._journal = Journal(path)
        except BaseException:
            self._out.close()
            raise

    def _take_earlier(self, outcome: Outcome) -> None:
        """Give a task its outcome of an earlier run, or keep the outcome for the task's retry.
        Raises OutDirectoryError if the task was changed since."""
        task = self._tasks.get(outcome.id)
        if task is None:
            return
        check = self._checks.get(task.id)
        unchanged = outcome.digest == task.digest(None if check is None else check.schema)
        if self.settings.retry_failed and not outcome.ok:
            self._failed[task.id] = outcome
            history = self._histories.setdefault(task.id, History())
            # With more attempts than the outcome has, an earlier run has begun the retry.
            if len(history.attempts) <= len(outcome.attempts):
                history.retry(outcome, resume=unchanged and outcome.reason in RETRIED)
            return
        if not unchanged:
            hint = "give it another id, or remove that directory"
            if not outcome.ok:
                hint = f"retry_failed (--retry-failed) runs it as it is now; or {hint}"
            raise OutDirectoryError(
                f"the task {task.id!r} was changed since its outcome in {outcome.path}; {hint}"
            )
        if check is not None and outcome.ok:
            outcome = replace(outcome, output=check.read(outcome.output))  # type: ignore[arg-type] # read from JSON
        self.left.discard(task.id)
        self.outcomes.append(outcome)
        self.changed.set()

    async def _start_all(self) -> None:
        """Start each task when a slot is free; wait until all tasks have ended."""
        waiting = [task for task in self._tasks.values() if task.id in self.left]
        for task in waiting:
            await self.slots.acquire()
            running = asyncio.get_running_loop().create_task(self._run_task(task), name=task.id)
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        while self._running:
            await asyncio.wait(self._running)

    async def _run_task(self, task: Task) -> None:
        history = self._histories.setdefault(task.id, History())
        earlier = self._failed.get(task.id)
        usage = Usage() if earlier is None else earlier.usage
        run = TaskRun(self, task, self._checks.get(task.id), history, usage)
        try:
            job, report, outcome = await run.run()
            # A stop of the fleet does not cancel the writing of an outcome.
            await shielded(asyncio.create_task(self._write_outcome(job, report, outcome)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised by `_run` when all tasks have ended
            self._fail(error)
        finally:
            self.slots.release()

    async def _write_outcome(self, job: Job, report: Report, outcome: Outcome) -> None:
        """Write an outcome to its directory, if there is one; have `FleetRun` return it."""
        if self._out is not None:
            output, replaces = report.output, outcome.id in self._failed
            try:
                path = await asyncio.to_thread(self._out.write, outcome, output, replaces=replaces)
            except FleetError as error:
                self._fail(error)
                await self.settings.engine.settle(job, written=False)
                return
            outcome = replace(outcome, path=path)
        self.left.discard(outcome.id)
        self.outcomes.append(outcome)
        self.changed.set()
        self.report_event(outcome.id, {"type": "ended", "reason": outcome.reason})
        await self.settings.engine.settle(job, written=True)

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self.stop(str(error) or type(error).__name__)

    # Called by `TaskRun`.

    def note(self, kind: str, **members: object) -> str:
        """Write a line to the journal, if there is a journal; return the line's time."""
        return now() if self._journal is None else self._journal.note(kind, **members)

    def count_tokens(self, task_id: str, tokens: int) -> None:
        """Set the tokens that a task has used in this run; stop the fleet above its budget."""
        self._tokens[task_id] = tokens
        budget = self.settings.max_tokens
        if budget is not None and sum(self._tokens.values()) >= budget:
            self.stop(f"the budget of {budget} tokens for all tasks is used up")

    def report_event(self, task_id: str, event: Event) -> None:
        if self.settings.on_event is not None:
            try:
                self.settings.on_event(task_id, event)
            except Exception:
                logger.exception("on_event failed for %s", json.dumps(task_id))
