"""Run the tasks of a file, and show outcomes: ``codex-acp-sdk fleet``.

Owns the exit codes, the output and the effect of Ctrl-C. `codex_acp.fleet` defines and runs tasks.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codex_acp.cli.command_arguments import EXIT_TASKS_LEFT
from codex_acp.cli.logs import COMMANDS_LEVEL, chosen_level, start_logging
from codex_acp.cli.questions import Questions
from codex_acp.cli.screen import TextOutput, is_terminal, open_output
from codex_acp.cli.terminal import (
    FAILED,
    SIGNALLED,
    LineReader,
    LiveRows,
    clipped,
    columns_of,
    print_error,
    rows_of,
)
from codex_acp.errors import CodexAcpError, MisuseError
from codex_acp.fleet import (
    EngineNotInstalled,
    Fleet,
    LocalEngine,
    OutDirectoryError,
    RayEngine,
    Retries,
    TaskFileError,
    deny_all,
    read_outcomes,
)
from codex_acp.fleet.changes import NOT_A_REPOSITORY
from codex_acp.fleet.outcomes import History, read_history
from codex_acp.fleet.task_file import parse_tasks, read_bytes, shown
from codex_acp.routing.display import shortened, visible
from codex_acp.runtime import allow_kinds
from codex_acp.transport.process_tree import adopt_orphans
from codex_acp.transport.shielding import run_loop

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TextIO

    from codex_acp.acp.types import PermissionOption
    from codex_acp.fleet import FleetRun, Outcome, Task, TaskPermission


def run_or_show(options: Namespace) -> int:
    """Run the tasks of a file, or show outcomes; return the exit code."""
    if options.action == "show":
        return show(options.out, as_json=options.json)
    try:
        level = chosen_level(default=COMMANDS_LEVEL)
        asks = not options.json and is_terminal(sys.stdin) and is_terminal(sys.stderr)
        if options.policy == "ask" and not asks:
            raise MisuseError("--policy ask needs a terminal; there is none, or --json was given")
    except (MisuseError, ValueError) as error:
        return print_error("fleet", error)
    out = open_output(sys.stdout)
    screen = TextOutput(out, sys.stderr, beside_questions=asks)
    start_logging(level, screen.write_log)
    try:
        with redirect_stdout(sys.stderr):  # Ray prints to stdout
            return run_loop(_Run(options, screen, out, asks=asks).main())
    except (MisuseError, TaskFileError, OutDirectoryError, EngineNotInstalled) as error:
        return print_error("fleet", error)
    except CodexAcpError as error:
        return print_error("fleet", error, FAILED)


class _Run:
    """One ``fleet run``: reads the tasks, runs the fleet and shows its progress."""

    def __init__(self, options: Namespace, screen: TextOutput, out: TextIO, *, asks: bool) -> None:
        self._options = options
        self._out = out
        self._screen = screen
        self._questions = Questions(screen, LineReader(), "") if asks else None
        """Asks the person; None if nobody can be asked, or no task may ask."""
        self._engine = self._make_engine()
        self._signal: int | None = None
        """Number of the signal that stopped the fleet."""
        self._has_table = False
        """Whether a live table shows the running tasks; else each change of a task is a line."""

    async def main(self) -> int:
        """Run the tasks; return the exit code."""
        options, loop = self._options, asyncio.get_running_loop()
        tasks = self._read_tasks()
        if options.policy != "ask" and all(task.policy in (None, deny_all) for task in tasks):
            self._questions = None
        can_draw = LiveRows.possible(sys.stderr) and not options.json
        self._has_table = can_draw and self._questions is None
        self._progress = progress = Progress(len(tasks), self._note_state)
        fleet_run = self._make_fleet().map(tasks)
        if isinstance(self._engine, LocalEngine):
            adopt_orphans(loop)
        async with fleet_run as outcomes:
            try:
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    loop.add_signal_handler(number, self._on_signal, number, fleet_run)
                with self._screen.showing(progress.table) if self._has_table else nullcontext():
                    async for outcome in outcomes:
                        progress.count_ended(outcome)
                        if not outcome.earlier:  # an earlier run has printed its own outcomes
                            self._print_outcome(outcome)
            finally:
                if self._has_table:
                    self._screen.say(progress.summary())
                else:
                    self._note(progress.summary())
        if fleet_run.left:
            reason = fleet_run.stopped or "it was stopped"
            if options.json:
                stopped = {"type": "stopped", "reason": reason, "left": fleet_run.left}
                print(json.dumps(stopped), file=self._out, flush=True)
            sentence = _tasks_are(len(fleet_run.left), "left")
            self._note(f"{sentence}, since {reason}; --resume goes on")
            return EXIT_TASKS_LEFT if self._signal is None else SIGNALLED + self._signal
        if not progress.failed:
            return 0
        sentence = _tasks_are(progress.failed, "failed")
        self._note(f"{sentence}; --resume --retry-failed runs what failed once more")
        return FAILED

    def _read_tasks(self) -> list[Task]:
        """Read the tasks. Raises TaskFileError."""
        path = self._options.tasks
        ask = None if self._questions is None else self._ask
        data = sys.stdin.buffer.read() if path == "-" else read_bytes(path)
        tasks, problems = parse_tasks(data, ask=ask)
        if problems and not (self._options.skip_broken and tasks):
            advice = ("--skip-broken runs the rest",) if tasks else ()
            raise TaskFileError(path, (*shown(problems), *advice))
        for problem in problems:
            self._note(f"left out: {visible(problem)}")
        return tasks

    def _make_engine(self) -> LocalEngine | RayEngine:
        options = self._options
        if options.engine == "local":
            if options.address is not None:
                raise MisuseError("--address is of a cluster; add --engine ray")
            return LocalEngine()
        return RayEngine(
            options.address, num_cpus=options.num_cpus, memory=options.memory,
            resources=dict(options.resources),
        )  # fmt: skip

    def _make_fleet(self) -> Fleet:
        options = self._options
        settings: dict[str, Any] = {}
        policy: Any = deny_all
        if self._questions is not None:
            settings = {
                "on_form": lambda task_id, form: self._questions_of(task_id).form(form),
                "on_url": lambda task_id, request: self._questions_of(task_id).url(request),
            }
            if options.policy == "ask":
                policy = self._ask
        if options.allow:
            policy = allow_kinds(*options.allow, otherwise=policy)
        if options.task_time_limit is not None:
            settings["task_time_limit"] = options.task_time_limit
        return Fleet(
            self._engine, out=options.out, resume=options.resume, retry_failed=options.retry_failed,
            concurrency=options.concurrency, permissions=policy, max_tokens=options.max_tokens,
            time_limit=options.time_limit, retries=Retries(options.attempts),
            on_event=None if options.json else self._progress.apply, **settings,
        )  # fmt: skip

    def _ask(self, permission: TaskPermission) -> Awaitable[PermissionOption | None]:
        return self._questions_of(permission.task_id).permission(permission)

    def _questions_of(self, task_id: str) -> Questions:
        assert self._questions is not None
        return self._questions.of_agent(f"task {shortened(visible(task_id), SHOWN_ID)}")

    def _note(self, text: str) -> None:
        """Show a note to the person, unless ``--json`` was given."""
        if not self._options.json:
            self._screen.note(text)

    def _note_state(self, task_id: str, state: str) -> None:
        if not self._has_table:  # else the table shows the state
            self._note(f"{visible(task_id)}: {state}")

    def _print_outcome(self, outcome: Outcome) -> None:
        if self._options.json:
            print(json.dumps(outcome_json(outcome)), file=self._out, flush=True)
        else:
            self._screen.print(self._out, _outcome_rows(outcome, self._out))

    def _on_signal(self, number: int, fleet_run: FleetRun) -> None:
        """Stop the fleet at the first signal; end this process at the second."""
        if self._signal is not None:
            if isinstance(self._engine, LocalEngine):
                self._engine.kill()
            os._exit(SIGNALLED + number)
        self._signal = number
        fleet_run.stop("it was interrupted")
        self._note("ending what runs; once more ends it at once")


def _tasks_are(count: int, what: str) -> str:
    return f"{count} task is {what}" if count == 1 else f"{count} tasks are {what}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return the line of ``--json`` for an outcome."""
    output: Any = outcome.output  # plain JSON: a task file has no other output types
    members = outcome.to_json(output)
    path = None if outcome.path is None else str(outcome.path)
    return {"type": "result", **members, "path": path}


def show(out: str, *, as_json: bool) -> int:
    """Print the outcomes in a directory; return the exit code of a run with these outcomes."""
    folder = Path(out).absolute()
    try:
        outcomes = {outcome.id: outcome for outcome in read_outcomes(folder)}
        ids, histories = read_history(folder / "journal.jsonl")
    except (CodexAcpError, OSError) as error:
        return print_error("fleet", error)
    left = [task_id for task_id in ids if task_id not in outcomes]
    for outcome in outcomes.values():
        if as_json:
            print(json.dumps(outcome_json(outcome)))
        else:
            print(_outcome_rows(outcome, sys.stdout))
    for task_id in left:
        history = histories.get(task_id)
        if as_json:
            attempts = 0 if history is None else len(history.attempts)
            print(json.dumps({"type": "left", "id": task_id, "attempts": attempts}))
        else:
            print(f"{visible(task_id)}: {_left_state(history)}")
    failures = sum(not outcome.ok for outcome in outcomes.values())
    if not as_json:
        completed = len(outcomes) - failures
        tokens = sum(outcome.usage.total for outcome in outcomes.values())
        refused = sum(outcome.asked - outcome.allowed for outcome in outcomes.values())
        more = f", {refused} questions not allowed" if refused else ""
        print(f"{completed} completed, {failures} failed, {len(left)} left, {tokens} tokens{more}")
    if left:
        return EXIT_TASKS_LEFT
    return FAILED if failures else 0


def _left_state(history: History | None) -> str:
    if history is None:
        return "not begun"
    count = len(history.attempts)
    return f"begun {count} times, no outcome" if count > 1 else "begun, no outcome"


# The progress of a fleet on stderr: a live table in a terminal, else a line for each change.

SHOWN_TITLE: Final = 60
"""Characters of a tool call's title in the table."""
NAME_COLUMNS: Final = 28
"""Columns of a task's id in the table."""
SHOWN_ID: Final = 40
"""Characters of a task's id in a question."""
MESSAGE_LIMIT: Final = 300
"""Characters of an outcome's message."""


@dataclass(slots=True)
class _Row:
    """The row of a running task."""

    since: float
    """Time at which the attempt started, by `time.monotonic`."""
    state: str = "starting"
    tokens: int = 0


@dataclass(slots=True)
class Progress:
    """The state of all tasks, from their events."""

    total: int
    """Number of tasks."""
    say: Callable[[str, str], None]
    """Called with a task's id and a description of its new state."""
    rows: dict[str, _Row] = field(default_factory=dict)
    """Id of a running task → its row."""
    completed: int = 0
    failed: int = 0
    earlier: int = 0
    """Number of tasks that an earlier run has completed or failed."""
    tokens: int = 0
    """Tokens of the tasks that have ended."""

    def apply(self, task_id: str, event: Mapping[str, Any]) -> None:
        """Apply an event to the row of its task."""
        kind = event.get("type")
        if kind == "worker":  # an attempt starts
            worker = visible(str(event["worker"]))
            self.rows[task_id] = _Row(time.monotonic())
            self._set_state(task_id, f"started on {worker}")
            return
        row = self.rows.get(task_id)
        if row is None:
            return
        match kind:
            case "opened" if event.get("how") != "new":
                self._set_state(task_id, "goes on with its session")
            case "opened" if event.get("reason"):
                self._set_state(task_id, f"a new session, since {visible(str(event['reason']))}")
            case "prompt":
                row.state = f"prompt {int(event['number']) + 1}"
            case "tool":
                row.state = shortened(visible(str(event["title"])), SHOWN_TITLE)
            case "usage":
                row.tokens = int(event["tokens"])
            case "question":
                self._set_state(task_id, f"asks ({visible(str(event['kind']))})")
            case "answered":
                row.state = "goes on"
            case "retry":
                why = f"{event['reason']}; again in {float(event['seconds']):.0f} s"
                self._set_state(task_id, why)

    def count_ended(self, outcome: Outcome) -> None:
        self.rows.pop(outcome.id, None)
        self.earlier += outcome.earlier
        self.completed += outcome.ok
        self.failed += not outcome.ok
        self.tokens += outcome.usage.total

    def summary(self) -> str:
        running = len(self.rows)
        to_come = self.total - self.completed - self.failed - running
        tokens = self.tokens + sum(row.tokens for row in self.rows.values())
        parts = [f"{self.completed} of {self.total} completed", f"{self.failed} failed"]
        parts += [f"{running} running", f"{to_come} to come", f"{tokens} tokens"]
        return ", ".join(parts) + (f" ({self.earlier} before)" if self.earlier else "")

    def table(self, columns: int) -> list[str]:
        """Return the summary, and a row for each running task."""
        rows, now = [self.summary()], time.monotonic()
        for task_id, row in self.rows.items():
            name = visible(task_id)
            if name != clipped(name, NAME_COLUMNS):
                name = f"{clipped(name, NAME_COLUMNS - 3)}..."
            name += " " * (NAME_COLUMNS - sum(map(columns_of, name)))
            numbers = f"{now - row.since:6.0f} s {row.tokens:8}"
            rows.append(f"  {name} {numbers}  {row.state}")
        return [clipped(row, columns) for row in rows]

    def _set_state(self, task_id: str, state: str) -> None:
        self.rows[task_id].state = state
        self.say(task_id, state)


def outcome_line(outcome: Outcome) -> str:
    seconds = sum(attempt.seconds for attempt in outcome.attempts)
    facts = [f"{seconds:.1f} s", f"{outcome.usage.total} tokens"]
    if len(outcome.attempts) > 1:
        facts.append(f"{len(outcome.attempts)} attempts")
    if outcome.asked > outcome.allowed:
        facts.append(f"{outcome.asked - outcome.allowed} of {outcome.asked} questions not allowed")
    reason = "" if outcome.ok else f" {outcome.reason}"
    message = outcome.changes_note if outcome.ok else outcome.message
    more = ""
    if message and message != NOT_A_REPOSITORY:
        more = f": {shortened(visible(' '.join(message.split())), MESSAGE_LIMIT)}"
    return f"{visible(outcome.id)}: {outcome.status}{reason} ({', '.join(facts)}){more}"


def _outcome_rows(outcome: Outcome, out: TextIO) -> str:
    return "\n".join(rows_of(outcome_line(outcome), out))
