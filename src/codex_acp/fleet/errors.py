"""Define the errors of a fleet. A task that fails raises none of them: its `Outcome` says why.

::

    CodexAcpError
    └── FleetError
        ├── TaskFileError          a task file has lines that are no tasks; no task was run
        ├── OutDirectoryError      the output directory cannot be used by this fleet
        │   └── OutDirectoryInUse  another run writes to it
        ├── OutcomeNotWritten      an outcome could not be written; the fleet was stopped
        ├── EngineNotInstalled     a package is missing; the message names it
        ├── EngineError            the engine could not be started or reached
        ├── CheckoutError          a repository or revision cannot be checked out
        └── WorkerLost             a worker ended without a report; its tasks are tried again
"""

from __future__ import annotations

from codex_acp.errors import CodexAcpError


class FleetError(CodexAcpError):
    """Base of the errors of a fleet."""


class TaskFileError(FleetError):
    """The file has lines that are no tasks; ``problems`` name each line and its fault."""

    def __init__(self, file: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{file}: " + "; ".join(problems))
        self.file = file
        self.problems = problems


class OutDirectoryError(FleetError):
    """The output directory cannot be used; the message says what to do."""


class OutDirectoryInUse(OutDirectoryError):
    """Another run writes to the output directory now."""


class OutcomeNotWritten(FleetError):
    """An outcome could not be written, so the fleet stopped; ``--resume`` runs the task again."""


class EngineNotInstalled(FleetError):
    """A package that the engine needs is not installed."""


class EngineError(FleetError):
    """The engine could not be started or reached."""


class CheckoutError(FleetError):
    """A repository, or a revision of it, cannot be checked out."""


class WorkerLost(FleetError):
    """The worker of a task ended without a report."""
