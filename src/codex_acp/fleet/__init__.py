"""Fleets: many tasks for agents, run on an engine, each with one outcome.

::

    tasks = [Task(id=name, prompt="Add type hints.", repository=url) for name, url in projects]
    async with Fleet(out="results").map(tasks) as outcomes:
        async for outcome in outcomes:
            print(outcome.id, outcome.status, outcome.reason)

A `Task` has one or more prompts, and the directory or repository that its agent works in. A `Fleet`
runs tasks on a `LocalEngine` or a `RayEngine`. An `Outcome` is the result of one task. The command
is ``codex-acp-sdk fleet``.

Each name loads its module at its first use.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

TYPE_CHECKING = False  # without importing typing, which takes time
if TYPE_CHECKING:
    from codex_acp.fleet.engines import LocalEngine as LocalEngine
    from codex_acp.fleet.engines import RayEngine as RayEngine
    from codex_acp.fleet.errors import CheckoutError as CheckoutError
    from codex_acp.fleet.errors import EngineError as EngineError
    from codex_acp.fleet.errors import EngineNotInstalled as EngineNotInstalled
    from codex_acp.fleet.errors import FleetError as FleetError
    from codex_acp.fleet.errors import OutcomeNotWritten as OutcomeNotWritten
    from codex_acp.fleet.errors import OutDirectoryError as OutDirectoryError
    from codex_acp.fleet.errors import OutDirectoryInUse as OutDirectoryInUse
    from codex_acp.fleet.errors import TaskFileError as TaskFileError
    from codex_acp.fleet.errors import WorkerLost as WorkerLost
    from codex_acp.fleet.fleet import Fleet as Fleet
    from codex_acp.fleet.fleet import FleetRun as FleetRun
    from codex_acp.fleet.fleet import Retries as Retries
    from codex_acp.fleet.fleet import deny_all as deny_all
    from codex_acp.fleet.jobs import Usage as Usage
    from codex_acp.fleet.outcomes import Attempt as Attempt
    from codex_acp.fleet.outcomes import Outcome as Outcome
    from codex_acp.fleet.outcomes import read_outcomes as read_outcomes
    from codex_acp.fleet.questions import TaskPermission as TaskPermission
    from codex_acp.fleet.task import Task as Task
    from codex_acp.fleet.task_file import read_tasks as read_tasks
else:
    __all__, __getattr__, __dir__ = lazy(
        __name__,
        {
            "engines": "LocalEngine RayEngine",
            "errors": (
                "CheckoutError EngineError EngineNotInstalled FleetError OutDirectoryError "
                "OutDirectoryInUse OutcomeNotWritten TaskFileError WorkerLost"
            ),
            "fleet": "Fleet FleetRun Retries deny_all",
            "jobs": "Usage",
            "outcomes": "Attempt Outcome read_outcomes",
            "questions": "TaskPermission",
            "task": "Task",
            "task_file": "read_tasks",
        },
    )
