"""The arguments of ``codex-acp-sdk fleet``, and the exit codes that its help lists."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Final

from codex_acp.cli.argument_values import positive
from codex_acp.cli.run_arguments import add_allow

LEFT: Final = 3
"""The fleet was stopped, by a budget: tasks are left for ``--resume``."""

DESCRIPTION: Final = """\
Run many tasks, each by an agent of its own, and keep what comes of them."""

EPILOG: Final = """\
A line of TASKS is an object: id, prompt (a text or a list), cwd or repository
with revision, and what a task may have of its own: agent or command, model,
mode, effort, options, policy, output (a JSON Schema), time_limit, max_tokens.
Paths are from the current directory.

Ctrl-C ends what runs; `--resume` goes on, with the sessions of what was
interrupted.

exit codes: 0 all completed, 1 a task failed, 2 usage, 3 stopped with tasks
left, 130 Ctrl-C, 143 ended by SIGTERM

with --json, standard output has one object a line: {"type": "result", "id",
"status", "reason", "message", "text", "output", "usage", "sessionId",
"attempts", "path", ...} for each outcome, and
{"type": "stopped", "reason", "left"} if the fleet was stopped
"""


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Options of ``fleet run``."""

    tasks: str
    out: str
    engine: str = "local"
    address: str | None = None
    concurrency: int | None = None
    resume: bool = False
    retry_failed: bool = False
    max_tokens: int | None = None
    time_limit: float | None = None
    task_time_limit: float | None = None
    attempts: int = 3
    policy: str = "deny_all"
    allow: tuple[str, ...] = ()
    skip_broken: bool = False
    json: bool = False
    num_cpus: float = 1.0
    memory: int | None = None
    resources: tuple[tuple[str, float], ...] = ()


def add_fleet_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``fleet``."""
    parser.description = DESCRIPTION
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="run|show", help="see their own help"
    )
    run = commands.add_parser(
        "run",
        help="run the tasks of a file",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    run.add_argument("tasks", metavar="TASKS", help="the file with a task on each line")
    run.add_argument("--out", metavar="DIR", required=True, help="where outcomes are kept")
    run.add_argument(
        "--resume", action="store_true", help="go on in DIR: what has an outcome is not run again"
    )
    run.add_argument(
        "--retry-failed", action="store_true", help="with --resume: run once more what has failed"
    )
    run.add_argument(
        "--skip-broken", action="store_true", help="run the rest if lines are no tasks"
    )
    run.add_argument("--json", action="store_true", help="one JSON object a line, and no questions")
    _add_limits(run)
    _add_engine(run)
    _add_policy(run)
    show = commands.add_parser(
        "show", help="print what came of them", description="Print what came of the tasks in DIR."
    )
    show.add_argument("out", metavar="DIR", help="an output directory")
    show.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_limits(run: argparse.ArgumentParser) -> None:
    run.add_argument("--concurrency", metavar="N", type=positive, help="tasks at once")
    run.add_argument(
        "--max-tokens", metavar="N", type=positive, help="stop the fleet when all used this many"
    )
    run.add_argument(
        "--time-limit", metavar="S", type=_seconds, help="stop the fleet after this many seconds"
    )
    run.add_argument(
        "--task-time-limit",
        metavar="S",
        type=_seconds,
        help="end a task after this many seconds, unless it says otherwise (default: 3600)",
    )
    run.add_argument(
        "--attempts",
        metavar="N",
        type=positive,
        default=3,
        help="try a task this often if its model is overloaded or its agent or worker is lost "
        "(default: 3)",
    )


def _add_engine(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="where tasks are run"
    )
    run.add_argument("--address", metavar="ADDR", help="of a Ray cluster: auto or ray://HOST:PORT")
    run.add_argument(
        "--num-cpus", metavar="X", type=_amount, default=1.0, help="of a node, for a Ray worker"
    )
    run.add_argument("--memory", metavar="BYTES", type=positive, help="of a node, for a Ray worker")
    run.add_argument(
        "--resource",
        dest="resources",
        metavar="NAME=X",
        action="append",
        default=[],
        type=_resource,
        help="a resource of the cluster that a Ray worker needs; may be repeated",
    )


def _add_policy(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--policy",
        choices=("deny_all", "ask"),
        default="deny_all",
        help="what becomes of permission requests: rejected (default), or asked on the terminal",
    )
    add_allow(run)


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not math.isfinite(number) or number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return number


def _seconds(text: str) -> float:
    number = _amount(text)
    if not number:
        raise argparse.ArgumentTypeError("it is more than 0 seconds")
    return number


def _resource(text: str) -> tuple[str, float]:
    name, equals, amount = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=X")
    return name, _amount(amount)
