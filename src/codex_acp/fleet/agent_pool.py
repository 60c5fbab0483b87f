"""The agents of one worker: which tasks share a process, and when one is not given out any more.

Tasks share a process where the agent's `AgentSpec` says ``shared``, their specs are alike, and
nothing has gone wrong in it. One whose task was ended by force ends with the last of its tasks:
what that task had started may still run in it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from codex_acp.fleet.worker_questions import WorkerQuestions
from codex_acp.runtime import AgentRuntime

if TYPE_CHECKING:
    from codex_acp.runtime import AgentSpec

TASKS_PER_AGENT: Final = 8
"""Tasks of one agent's process at once: what one loss of it costs at most."""


class FirstStart:
    """The first process of an agent is up before the next is started: what an agent sets up in an
    empty home it sets up once. Codex 0.163 fails when two begin with its database at a time."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._over = asyncio.Event()

    async def __aenter__(self) -> None:
        if not self._over.is_set():
            await self._lock.acquire()
            if self._over.is_set():
                self._lock.release()

    async def __aexit__(self, failed: object, *_exc: object) -> None:
        if self._over.is_set():
            return
        if failed is None:
            self._over.set()
        self._lock.release()


@dataclass(eq=False, slots=True)
class Lease:
    """A place in an agent's process."""

    runtime: AgentRuntime
    questions: WorkerQuestions
    first_start: FirstStart
    """To be entered while the session is opened."""
    tasks: int = 0
    spoiled: bool = False


@dataclass(slots=True)
class AgentPool:
    """Every agent of a worker. ``tasks_per_agent`` bounds what shares one."""

    tasks_per_agent: int = TASKS_PER_AGENT
    _leases: dict[tuple[object, ...], list[Lease]] = field(default_factory=dict)
    _first: dict[tuple[object, ...], FirstStart] = field(default_factory=dict)

    def take(self, spec: AgentSpec, *, forms: bool, urls: bool) -> Lease:
        """A place for one session of ``spec``; its process is started when that is opened."""
        key = (spec.key, forms, urls)
        if spec.shared:
            for lease in self._leases.get(key, ()):
                if not lease.spoiled and lease.tasks < self.tasks_per_agent:
                    lease.tasks += 1
                    return lease
        questions = WorkerQuestions()
        runtime = AgentRuntime(
            on_form=questions.form if forms else None, on_url=questions.url if urls else None
        )
        first = self._first.setdefault(spec.key, FirstStart())
        lease = Lease(runtime, questions, first, tasks=1, spoiled=not spec.shared)
        self._leases.setdefault(key, []).append(lease)
        return lease

    async def give_back(self, lease: Lease, *, clean: bool) -> None:
        """The task has ended; ``clean`` unless something of it may still run in the process."""
        lease.tasks -= 1
        lease.spoiled = lease.spoiled or not clean
        if lease.spoiled and not lease.tasks:
            for leases in self._leases.values():
                if lease in leases:
                    leases.remove(lease)
            await lease.runtime.aclose()

    async def aclose(self) -> None:
        """End every agent."""
        leases = [lease for leases in self._leases.values() for lease in leases]
        self._leases.clear()
        await asyncio.gather(*(lease.runtime.aclose() for lease in leases))
