"""Define the errors of a fleet, beyond a task of it that fails.

::

    CodexAcpError
    └── FleetError
        ├── TaskFileError          lines of a task file that are no tasks; none of it is run
        ├── OutDirectoryError      the output directory is not one, or not this fleet's
        │   └── OutDirectoryInUse  another run has it
        ├── OutcomeNotWritten      the disk took no outcome; the fleet was stopped
        ├── EngineNotInstalled     names what to install
        ├── EngineError            the engine cannot be used, a cluster that is not there
        ├── CheckoutError          a repository or revision that cannot be checked out
        └── WorkerLost             a worker ended without a report; its tasks are tried again

A task that fails is no exception: it is an `Outcome`.
"""

from __future__ import annotations

from codex_acp.errors import CodexAcpError


class FleetError(CodexAcpError):
    """Base of what stops a fleet."""


class TaskFileError(FleetError):
    """The file has lines that are no tasks; ``problems`` name each line and what is wrong."""

    def __init__(self, file: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"{file}: " + "; ".join(problems))
        self.file = file
        self.problems = problems


class OutDirectoryError(FleetError):
    """The output directory cannot be used; the message says what to do."""


class OutDirectoryInUse(OutDirectoryError):
    """Another run writes to the output directory now."""


class OutcomeNotWritten(FleetError):
    """An outcome could not be written, and so nothing more is run: `--resume` runs it again."""


class EngineNotInstalled(FleetError):
    """A package that the engine needs is not installed."""


class EngineError(FleetError):
    """The engine could not be started or reached."""


class CheckoutError(FleetError):
    """A repository, or a revision of it, cannot be checked out."""


class WorkerLost(FleetError):
    """The worker of a task is gone."""
