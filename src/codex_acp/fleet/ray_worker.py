"""Run a worker on a node, as a Ray actor: take jobs, and keep messages for the driver to fetch.

Ray imports this module by name, so the node needs codex-acp-sdk. The module does not import Ray.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from codex_acp.fleet.private_files import default_root, make_private
from codex_acp.fleet.worker import Worker

if TYPE_CHECKING:
    from codex_acp.fleet.jobs import Event, Job, Report
    from codex_acp.fleet.questions import Question
    from codex_acp.runtime import AgentSpec

NODE_PYTHON: Final = "{python of the worker}"
"""Placeholder in a command for the node's Python, whose path may differ from the driver's."""

FETCH_SECONDS: Final = 30.0
"""Seconds after which a fetch returns without messages, so that no call is open for ever."""


class Message(NamedTuple):
    """A message of a job to the driver."""

    kind: Literal["event", "question", "report"]
    attempt_id: str
    content: Event | Question | Report
    question_id: str = ""


def for_any_node(spec: AgentSpec) -> AgentSpec:
    """Replace this process's Python in the command by `NODE_PYTHON`."""
    if spec.command and spec.command[0] == sys.executable:
        return replace(spec, command=(NODE_PYTHON, *spec.command[1:]))
    return spec


class RayWorker:
    """The Ray actor, whose methods the driver calls."""

    def __init__(self, root: str | None, tasks_per_agent: int) -> None:
        self._root = make_private(default_root() if root is None else Path(root))
        self._worker = Worker(self._root, tasks_per_agent=tasks_per_agent)
        self._messages: list[Message] = []
        self._message_added = asyncio.Event()
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self.questions: dict[str, asyncio.Future[Any]] = {}
        """Question id → the future of its answer."""

    async def hello(self) -> str:
        """Return the worker's name: its node and process."""
        return f"{socket.gethostname()}/{os.getpid()}"

    async def begin(self, job: Job) -> None:
        """Start a job; `fetch` returns its messages."""
        if job.agent.command and job.agent.command[0] == NODE_PYTHON:
            agent = replace(job.agent, command=(sys.executable, *job.agent.command[1:]))
            job = replace(job, agent=agent)
        self._jobs[job.attempt_id] = asyncio.ensure_future(self._run(job))

    async def fetch(self) -> list[Message]:
        """Wait for messages; return all messages since the last call."""
        if not self._messages:
            self._message_added.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(FETCH_SECONDS):
                    await self._message_added.wait()
        messages, self._messages = self._messages, []
        return messages

    async def answer(self, question_id: str, answer: Any) -> None:
        """Give a question its answer, if the question still waits."""
        future = self.questions.pop(question_id, None)
        if future is not None and not future.done():
            future.set_result(answer)

    async def cancel(self, attempt_id: str) -> None:
        """End a job, and return when it has ended."""
        if (task := self._jobs.get(attempt_id)) is not None:
            task.cancel()
            await asyncio.wait({task})

    async def settle(self, attempt_id: str, written: bool) -> None:
        """Remove an attempt's worktree if its outcome was written, else keep the worktree."""
        await self._worker.settle(attempt_id, written=written)

    async def aclose(self, remove: list[str]) -> None:
        """End all jobs and agents; remove the directories of the fleets with the ids ``remove``."""
        tasks = list(self._jobs.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._worker.aclose(remove)

    def post(self, message: Message) -> None:
        """Keep a message for the driver's next fetch."""
        self._messages.append(message)
        self._message_added.set()

    async def _run(self, job: Job) -> None:
        try:
            report = await self._worker.run(job, _RemotePost(self, job.attempt_id))
            self.post(Message("report", job.attempt_id, report))
        finally:
            self._jobs.pop(job.attempt_id, None)


@dataclass(slots=True)
class _RemotePost:
    """The `Post` of a job: sends its events and questions to the driver."""

    _worker: RayWorker
    _attempt_id: str

    def event(self, event: Event) -> None:
        self._worker.post(Message("event", self._attempt_id, event))

    async def ask(self, question: Question) -> Any:
        question_id = uuid.uuid4().hex
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._worker.questions[question_id] = future
        self._worker.post(Message("question", self._attempt_id, question, question_id))
        try:
            return await future
        finally:
            self._worker.questions.pop(question_id, None)
