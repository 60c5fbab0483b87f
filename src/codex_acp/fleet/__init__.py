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
