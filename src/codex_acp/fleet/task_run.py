"""One task at the driver: its attempts, the questions of its agent, and its outcome.

Owns what is noted before it happens. Must not know how an engine runs a job.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from codex_acp.fleet.errors import WorkerLost
from codex_acp.fleet.jobs import RETRIED, Event, Job, Report, Usage
from codex_acp.fleet.outcome import Attempt, Outcome
from codex_acp.fleet.output import OutputCheck, checked_answer
from codex_acp.fleet.questions import answer_form, answer_permission, answer_url
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.fleet.journal import History
    from codex_acp.fleet.settings import FleetSettings
    from codex_acp.fleet.slots import Slots
    from codex_acp.fleet.task import Task
    from codex_acp.jsonrpc.message import JsonValue

GRACE_SECONDS: Final = 120.0
"""Above its time limit, for a worker to end a task and report; then the worker counts as lost."""

NOTED: Final = frozenset(("worker", "opened", "prompt", "prompt_ended"))
"""Events that a later run must know of."""


class Driver(Protocol):
    """The run of a fleet, as one of its tasks sees it."""

    settings: FleetSettings
    slots: Slots
    fleet_id: str
    run_id: str

    def note(self, kind: str, **members: object) -> str:
        """Write a line of the journal; return its time."""

    def used(self, task_id: str, tokens: int) -> None:
        """So many tokens were used by a task in this run so far."""

    def happened(self, task_id: str, event: Event) -> None:
        """For whoever shows it."""


class TaskRun:
    """Run one task at the driver, and be its worker's `Post`."""

    def __init__(
        self,
        driver: Driver,
        task: Task,
        check: OutputCheck | None,
        history: History,
        earlier_usage: Usage = Usage(),  # noqa: B008 - frozen
    ) -> None:
        self._driver = driver
        self._task = task
        self._check = check
        self._history = history
        self._earlier_usage = earlier_usage
        """Of an outcome that this run's replaces; it is no part of this run's budget."""
        self._usage = Usage()
        self._cwd: str | None = None
        self._asked = 0
        self._allowed = 0
        self._waiting = 0
        self._open = False

    async def run(self) -> tuple[Job, Report, Outcome]:
        """Until there is an outcome. The slot of the task is held but while it waits."""
        driver, retries = self._driver, self._driver.settings.retries
        for made in range(1, retries.attempts + 1):
            job = self._job()
            report = await self._attempt(job)
            if report.reason not in RETRIED or made == retries.attempts:
                return job, report, self._outcome(report)
            await driver.settings.engine.settle(job, written=False)
            pause = retries.pause(made)
            told = {"type": "retry", "reason": report.reason, "seconds": pause}
            driver.happened(self._task.id, told)
            await driver.slots.rest(pause)
        raise AssertionError("a task is tried at least once")

    def _job(self) -> Job:
        task, driver, history = self._task, self._driver, self._history
        fleet = driver.settings
        # The answer to the last prompt is lost where it was finished and there is no outcome.
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
            begun=history.begun or first_prompt < history.first_prompt,
        )

    async def _attempt(self, job: Job) -> Report:
        driver, history = self._driver, self._history
        started = driver.note("attempt", id=self._task.id, attempt=job.attempt_id)
        history.attempts.append(Attempt(started=started, reason="interrupted"))
        self._open = True
        try:
            report = await self._bounded(job)
        except WorkerLost as lost:
            report = Report(reason="worker_lost", message=str(lost), session_id=history.session_id)
        finally:
            self._open = False
        self._usage += report.usage
        driver.used(self._task.id, self._usage.total)
        told = {"reason": report.reason, "message": report.message, "seconds": report.seconds}
        driver.note("attempt_ended", id=self._task.id, attempt=job.attempt_id, **told)
        history.attempts[-1] = replace(
            history.attempts[-1],
            reason=report.reason,
            message=report.message,
            seconds=report.seconds,
            session_id=report.session_id,
            resumed=report.resumed,
        )
        return report

    async def _bounded(self, job: Job) -> Report:
        """A worker that says nothing for too long is lost, whatever its engine thinks."""
        if job.time_limit is None:
            return await self._driver.settings.engine.run(job, self)
        running = asyncio.ensure_future(self._driver.settings.engine.run(job, self))
        left = job.time_limit + GRACE_SECONDS
        try:
            while True:
                done, _ = await asyncio.wait({running}, timeout=min(left, 5.0))
                if done:
                    return running.result()
                if not self._waiting:
                    left -= min(left, 5.0)
                if left <= 0:
                    msg = f"the worker did not end the task at its limit, {job.time_limit:g} s"
                    raise WorkerLost(msg)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait({running})

    def _outcome(self, report: Report) -> Outcome:
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

    # What the worker says.

    def event(self, event: Event) -> None:
        """Take in an event of the job."""
        if not self._open:
            return
        kind = event.get("type")
        if kind in NOTED:
            rest = {key: value for key, value in event.items() if key != "type"}
            self._driver.note(str(kind), id=self._task.id, **rest)
            self._history.take(event)
        match event:
            case {"type": "place", "cwd": str(cwd)}:
                self._cwd = cwd
            case {"type": "usage", "tokens": int(tokens)}:
                self._driver.used(self._task.id, self._usage.total + tokens)
        self._driver.happened(self._task.id, event)

    async def ask(self, question: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Answer a question of the job's agent."""
        kind = question.get("kind")
        if kind == "output":
            return await asyncio.to_thread(checked_answer, self._check, question)
        self._asked += 1
        self._waiting += 1
        self._driver.happened(self._task.id, {"type": "question", "kind": kind})
        try:
            with self._driver.slots.parked():
                answer, allowed = await self._answer(question)
        finally:
            self._waiting -= 1
            self._driver.happened(self._task.id, {"type": "answered", "kind": kind})
        self._allowed += allowed
        return answer

    async def _answer(
        self, question: Mapping[str, JsonValue]
    ) -> tuple[Mapping[str, JsonValue], bool]:
        """By the task's policy, the fleet's, or its callbacks; with none of them it is a no."""
        fleet, task_id = self._driver.settings, self._task.id
        match question.get("kind"):
            case "permission":
                policy = self._task.policy or fleet.permissions
                return await answer_permission(policy, task_id, question)
            case "form" if fleet.on_form is not None:
                return await answer_form(fleet.on_form, task_id, question)
            case "url" if fleet.on_url is not None:
                return await answer_url(fleet.on_url, task_id, question)
        return {"answer": {"action": "decline"}}, False
