"""Run the jobs of a fleet, on this machine or on a Ray cluster.

A job is one attempt of a task. An engine sends jobs to workers. The workers send events and reports
to the driver, which is the program that has the fleet. An engine must not know tasks. A `RayEngine`
imports Ray when the fleet opens the engine.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from codex_acp.errors import MisuseError, must_be_count
from codex_acp.fleet.errors import EngineError, EngineNotInstalled, WorkerLost
from codex_acp.fleet.private_files import default_root, make_private, remove_tree
from codex_acp.fleet.ray_worker import Message, RayWorker, for_any_node
from codex_acp.fleet.worker import TASKS_PER_AGENT, Worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codex_acp.fleet.jobs import Job, Post, Report
    from codex_acp.fleet.questions import Question


logger = logging.getLogger(__name__)

TASKS_PER_CPU: Final = 4
"""Tasks that run at once for each CPU: a task mostly waits for its model."""


class Engine(Protocol):
    """Runs jobs with `codex_acp.fleet.worker.Worker`, for one fleet at a time."""

    async def open(self, fleet_id: str, work: Path | None) -> int:
        """Prepare the engine; return how many tasks it should run at once. ``work`` is a directory
        for worktrees on this machine, or None if the fleet has no output directory. Raises
        EngineNotInstalled, EngineError."""

    async def run(self, job: Job, post: Post) -> Report:
        """Run a job; if cancelled, return when the job has ended. Raises WorkerLost. Before the job
        starts, ``post`` gets the event ``{"type": "worker", "worker": name}``."""

    async def settle(self, job: Job, *, written: bool) -> None:
        """Remove the job's worktree if the outcome was ``written``; else keep the worktree for
        another attempt. Never raises."""

    async def aclose(self, *, done: bool) -> None:
        """End all workers and agents; ``done``: no task is left, so remove all worktrees."""


class LocalEngine:
    """Runs jobs in this process; their agents are its children.

    ``tasks_per_agent`` is the limit of tasks that share the process of an agent whose spec is
    ``shared``; with 1, each task has its own process.
    """

    def __init__(self, *, tasks_per_agent: int = TASKS_PER_AGENT) -> None:
        must_be_count("tasks_per_agent", tasks_per_agent)
        self._tasks_per_agent = tasks_per_agent
        self._worker: Worker | None = None
        self._fleet_id = ""
        self._temporary: Path | None = None
        """Directory of the worktrees if there is no output directory; removed by `aclose`."""
        self._work: Path | None = None

    async def open(self, fleet_id: str, work: Path | None) -> int:
        """Prepare the worker; return how many tasks it should run at once."""
        if work is None:
            root = default_root()
            try:
                work = Path(tempfile.mkdtemp(prefix="local-", dir=make_private(root)))
            except OSError as error:
                why = error.strerror or str(error)
                msg = (
                    f"{root} cannot be used: {why}; name an output directory, or set XDG_CACHE_HOME"
                )
                raise MisuseError(msg) from error
            self._temporary = work
        self._work = make_private(work)
        self._fleet_id = fleet_id
        self._worker = Worker(self._work, tasks_per_agent=self._tasks_per_agent)
        return TASKS_PER_CPU * (os.cpu_count() or 1)

    async def run(self, job: Job, post: Post) -> Report:
        """Run a job with the worker of this process."""
        post.event({"type": "worker", "worker": f"{socket.gethostname()}/{os.getpid()}"})
        return await self._opened_worker().run(job, post)

    async def settle(self, job: Job, *, written: bool) -> None:
        """Remove a job's worktree if its outcome was written, else keep it for another attempt."""
        await self._opened_worker().settle(job.attempt_id, written=written)

    def kill(self) -> None:
        """Kill all agents and their child processes at once, for a process that ends now."""
        if self._worker is not None:
            self._worker.pool.kill()

    async def aclose(self, *, done: bool) -> None:
        """End the worker and its agents; remove directories that are not needed any more."""
        if self._worker is not None:
            await self._worker.aclose(remove=[self._fleet_id] if done else [])
            self._worker = None
        if self._temporary is not None:
            remove_tree(self._temporary)
        elif self._work is not None and not any(self._work.iterdir()):
            self._work.rmdir()
        self._temporary = self._work = None

    def _opened_worker(self) -> Worker:
        if self._worker is None:
            raise MisuseError("the engine is not open; a Fleet opens it")
        return self._worker


TASKS_PER_WORKER: Final = 4
"""Tasks that a worker of a cluster runs at once."""

CLOSE_SECONDS: Final = 20.0
"""Seconds for a worker to end its agents. Then Ray kills the worker, and the agents end, because
their stdin is closed."""

REACH_SECONDS: Final = 10.0
"""Seconds for a cluster to accept a connection."""

CANCEL_SECONDS: Final = 30.0
"""Seconds for a worker to end one job: an agent may take ten. Then the worker is killed."""

KILL_SECONDS: Final = 5.0
"""Seconds until Ray reports that a killed worker is dead."""

MOST_FAILED_STARTS: Final = 3
"""Number of failed starts of workers in a row after which the engine gives up."""


@dataclass(eq=False)
class _Actor:
    """A worker on the cluster, on the driver's side."""

    handle: Any
    """Ray's handle of the `RayWorker`."""
    name: str = ""
    ready: bool = False
    """Whether the worker has started."""
    active: int = 0
    """Number of jobs that count against ``tasks_per_worker``. A job that waits for the driver's
    answer to a question does not count."""
    jobs: dict[str, tuple[Post, asyncio.Future[Report]]] = field(default_factory=dict)
    """Attempt id → the post of the job, and the future of its report."""


class RayEngine:
    """Runs jobs on a Ray cluster.

    ``address`` is the cluster's: ``auto`` or ``ray://HOST:PORT``. With None, the engine uses the
    cluster that this program is connected to, or starts Ray on this machine.

    Each worker reserves ``num_cpus``, ``memory`` (bytes) and ``resources`` of a node, and runs
    ``tasks_per_worker`` tasks at once, which may share one process of an agent. A node has as many
    workers as its resources allow; declare a resource of your own to limit them. ``root`` is the
    directory for worktrees on a node, by default below the user's cache directory. ``runtime_env``
    is passed to Ray.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: float = 1.0,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        tasks_per_worker: int = TASKS_PER_WORKER,
        root: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        must_be_count("tasks_per_worker", tasks_per_worker)
        if importlib.util.find_spec("ray") is None:
            raise EngineNotInstalled("the engine ray needs Ray: pip install 'codex-acp-sdk[ray]'")
        self._address = address
        self._needs: dict[str, float] = {"CPU": num_cpus, **(resources or {})}
        if memory is not None:
            self._needs["memory"] = memory
        self._tasks_per_worker = tasks_per_worker
        self._root = root
        self._runtime_env = runtime_env
        self._ray: Any = None
        self._started_ray = False
        self._fleet_id = ""
        self._actors: list[_Actor] = []
        """The workers that are not lost."""
        self._fetching: set[asyncio.Task[None]] = set()
        """Calls of `_fetch`, one for each worker."""
        self._asking: set[asyncio.Task[None]] = set()
        """Calls of `_ask`, one for each open question."""
        self._room_changed = asyncio.Event()
        """Set when a worker may have room for a job."""
        self._waiting_jobs = 0
        """Number of jobs that wait for a worker."""
        self._failed_starts = 0
        self._last_failure = ""
        self._closing = False

    async def open(self, fleet_id: str, work: Path | None) -> int:
        """Connect to the cluster or start one; return how many tasks it can run at once."""
        del work  # the worktrees are on the nodes
        import ray  # type: ignore[import-not-found, unused-ignore] # an extra

        self._ray, self._fleet_id, self._closing = ray, fleet_id, False
        self._failed_starts = 0
        if not ray.is_initialized():
            self._check_address()
            options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
            if self._runtime_env is not None:
                options["runtime_env"] = dict(self._runtime_env)
            if self._address is None:
                # A Ray that is started here sends no usage data and opens no page for a browser.
                os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
                options["include_dashboard"] = False
            try:
                self._ray.init(self._address, **options)
            except Exception as error:
                where = "on this machine" if self._address is None else f"at {self._address}"
                msg = f"Ray could not be reached {where}: {error}"
                uses_client = (self._address or "").startswith("ray://")
                if uses_client and isinstance(error, ConnectionError):
                    # Ray's client does not say that a token is missing or refused.
                    msg += "; does the cluster want a token (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN)?"
                raise EngineError(msg) from error
            self._started_ray = True
        workers = sum(self._worker_count(node) for node in ray.nodes() if node.get("Alive"))
        if not workers:
            needs = ", ".join(f"{name}: {value:g}" for name, value in self._needs.items())
            raise EngineError(f"no node of the cluster has what a worker needs ({needs})")
        return workers * self._tasks_per_worker

    async def run(self, job: Job, post: Post) -> Report:
        """Run a job on a worker that has room, or on a new one."""
        if job.agent.link is not None:
            raise MisuseError("an agent with a link cannot run on a cluster; give it a command")
        actor = await self._free_actor()
        future: asyncio.Future[Report] = asyncio.get_running_loop().create_future()
        actor.jobs[job.attempt_id] = (post, future)
        try:
            post.event({"type": "worker", "worker": actor.name})
            try:
                await actor.handle.begin.remote(replace(job, agent=for_any_node(job.agent)))
            except Exception as error:
                raise WorkerLost(
                    f"the worker {actor.name} is lost: {_first_line(error)}"
                ) from error
            return await future
        except asyncio.CancelledError:
            if actor in self._actors:  # the worker is not lost
                ending = asyncio.ensure_future(_join(actor.handle.cancel.remote(job.attempt_id)))
                done, _ = await asyncio.wait({ending}, timeout=CANCEL_SECONDS)
                if not done:
                    ending.cancel()
                    self._handle_loss(
                        actor, f"it did not end a task within {CANCEL_SECONDS:g} seconds"
                    )
            raise
        finally:
            actor.jobs.pop(job.attempt_id, None)
            actor.active -= 1
            self._room_changed.set()

    async def settle(self, job: Job, *, written: bool) -> None:
        """Remove a job's worktree if its outcome was written, else keep it for another attempt. The
        engine asks every worker; only the worker that ran the job knows its attempt."""
        for actor in self._actors:
            if actor.ready:
                actor.handle.settle.remote(job.attempt_id, written)

    async def aclose(self, *, done: bool) -> None:
        """End the workers, and Ray if this engine started it."""
        self._closing = True
        alive = list(self._actors)
        fleets = [self._fleet_id] if done else []
        closing = [asyncio.ensure_future(_join(a.handle.aclose.remote(fleets))) for a in alive]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
            for call in closing:
                call.cancel()
        for actor in alive:
            with suppress(Exception):
                self._ray.kill(actor.handle)
        for asking in self._asking:
            asking.cancel()
        if self._fetching:  # these calls end with the workers; a cancel would log errors
            await asyncio.wait(self._fetching, timeout=KILL_SECONDS)
        for fetching in self._fetching:
            fetching.cancel()
        if unfinished := self._fetching | self._asking:
            await asyncio.wait(unfinished)
        self._actors.clear()
        if self._started_ray:
            self._started_ray = False
            self._ray.shutdown()

    def _check_address(self) -> None:
        """Raise EngineError if nothing listens at the address: Ray would wait for minutes."""
        host, _, port = (self._address or "").removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
        except OSError as error:
            why = error.strerror or str(error)
            msg = f"Ray could not be reached at {self._address}: {why}; is the cluster started?"
            raise EngineError(msg) from error

    def _worker_count(self, node: Mapping[str, Any]) -> int:
        """Return how many workers the resources of a node allow; one if a worker needs none."""
        has: Mapping[str, float] = node.get("Resources") or {}
        needs = [(name, need) for name, need in self._needs.items() if need]
        return min((int(has.get(name, 0) // need) for name, need in needs), default=1)

    # Workers.

    async def _free_actor(self) -> _Actor:
        """Return a worker with room for a job, and count the job there; if no worker has room,
        start enough workers for the jobs that wait."""
        self._waiting_jobs += 1
        try:
            while True:
                if self._failed_starts >= MOST_FAILED_STARTS:
                    raise EngineError(f"no worker could be started: {self._last_failure}")
                usable = [a for a in self._actors if a.ready]
                actor = min(usable, key=lambda a: a.active, default=None)
                if actor is not None and actor.active < self._tasks_per_worker:
                    actor.active += 1
                    return actor
                coming_room = self._tasks_per_worker * sum(not a.ready for a in self._actors)
                if coming_room < self._waiting_jobs:
                    self._start_worker()
                self._room_changed.clear()
                await self._room_changed.wait()
        finally:
            self._waiting_jobs -= 1

    def _start_worker(self) -> None:
        needs = dict(self._needs)
        options: dict[str, Any] = {"num_cpus": needs.pop("CPU")}
        if "memory" in needs:
            options["memory"] = needs.pop("memory")
        actor_class = self._ray.remote(RayWorker).options(
            **options,
            resources=needs,
            max_concurrency=1000,  # calls at once: of all jobs, questions and `fetch`
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        actor = _Actor(actor_class.remote(self._root, self._tasks_per_worker))
        self._actors.append(actor)
        fetching = asyncio.get_running_loop().create_task(self._fetch(actor))
        self._fetching.add(fetching)
        fetching.add_done_callback(self._fetching.discard)

    async def _fetch(self, actor: _Actor) -> None:
        """Fetch and handle the messages of a worker, from its start to its end."""
        try:
            actor.name = await actor.handle.hello.remote()
            actor.ready = True
            self._failed_starts = 0
            self._room_changed.set()
            while True:
                for message in await actor.handle.fetch.remote():
                    self._handle_message(actor, message)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises, the worker is lost
            self._handle_loss(actor, _first_line(error))

    def _handle_loss(self, actor: _Actor, why: str) -> None:
        """Fail the jobs of a lost worker, and kill the worker."""
        if actor not in self._actors:  # lost before; the kill below has ended `_fetch`
            return
        if not actor.ready:
            self._failed_starts += 1
            self._last_failure = why
        if not self._closing:
            logger.warning("the worker %s is lost: %s", actor.name or "that was started", why)
        for _, future in actor.jobs.values():
            if not future.done():
                future.set_exception(WorkerLost(f"the worker {actor.name} is lost: {why}"))
        self._actors.remove(actor)
        with suppress(Exception):  # so that no job runs on without the driver
            self._ray.kill(actor.handle)
        self._room_changed.set()

    def _handle_message(self, actor: _Actor, message: Message) -> None:
        job = actor.jobs.get(message.attempt_id)
        if job is None:
            return
        post, future = job
        content: Any = message.content
        if message.kind == "event":
            post.event(content)
        elif message.kind == "question":
            asking = asyncio.get_running_loop().create_task(
                self._ask(actor, post, content, message.question_id)
            )
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        elif not future.done():  # a report
            future.set_result(content)

    async def _ask(self, actor: _Actor, post: Post, question: Question, question_id: str) -> None:
        """Answer a question of a job; meanwhile the job is not active."""
        actor.active -= 1
        self._room_changed.set()
        try:
            answer = await post.ask(question)
        finally:
            actor.active += 1
        with suppress(Exception):  # `_fetch` notices a lost worker
            await actor.handle.answer.remote(question_id, answer)


async def _join(call: Any) -> None:
    """Wait for a call of an actor; ignore an error of the call."""
    with suppress(Exception):
        await call


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
