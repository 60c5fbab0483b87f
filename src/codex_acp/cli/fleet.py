"""``codex-acp-sdk fleet``: many tasks from a file, and what came of them.

Owns the exit code, what is printed, and what Ctrl-C does. What a task is and how it is run is in
`codex_acp.fleet`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codex_acp.cli.fleet_arguments import FAILED, LEFT, USAGE
from codex_acp.cli.fleet_progress import Lines, LiveTable, Progress, outcome_line
from codex_acp.cli.fleet_questions import FleetQuestions
from codex_acp.cli.logs import LEVEL_VARIABLE, chosen_level, start_logging
from codex_acp.cli.screen.live import LiveLine
from codex_acp.cli.screen.output import TextOutput
from codex_acp.cli.terminal import LineReader
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
)
from codex_acp.fleet.task_file import parse_tasks, shown
from codex_acp.routing.display import visible
from codex_acp.runtime import allow_kinds
from codex_acp.transport.loop_runner import run_loop
from codex_acp.transport.orphans import adopt_orphans

if TYPE_CHECKING:
    from typing import TextIO

    from codex_acp.cli.fleet_arguments import FleetOptions
    from codex_acp.fleet import FleetRun, Outcome, Task

PROGRAM: Final = "codex-acp-sdk fleet"

SIGNALLED: Final = 128
"""Plus the signal's number: the exit code after a signal, as shells have it."""

TABLE_SECONDS: Final = 0.5


def run(options: FleetOptions) -> int:
    """Run the tasks; the exit code."""
    try:
        level = chosen_level(None if os.environ.get(LEVEL_VARIABLE) else "ERROR")
        asks = not options.json and _is_a_terminal()
        if options.policy == "ask" and not asks:
            raise MisuseError("--policy ask needs a terminal; there is none, or --json was given")
    except (MisuseError, ValueError) as error:
        return _told(error, USAGE)
    screen = TextOutput(sys.stdout, sys.stderr, guarded=asks)
    start_logging(level, screen.logged)
    out = sys.stdout
    try:
        with redirect_stdout(sys.stderr):  # Ray prints what it likes
            return run_loop(_Run(options, screen, out, asks=asks).main())
    except (MisuseError, TaskFileError, OutDirectoryError, EngineNotInstalled) as error:
        return _told(error, USAGE)
    except CodexAcpError as error:
        return _told(error, FAILED)


class _Run:
    """One run."""

    def __init__(
        self, options: FleetOptions, screen: TextOutput, out: TextIO, *, asks: bool
    ) -> None:
        self._options = options
        self._out = out
        self._screen = screen
        self._asks = asks
        self._signal: int | None = None
        self._running: FleetRun | None = None

    async def main(self) -> int:
        """The exit code."""
        options, loop = self._options, asyncio.get_running_loop()
        questions = FleetQuestions(self._screen, LineReader()) if self._asks else None
        tasks = self._tasks(questions)
        self._table: Lines | LiveTable = Lines(self._note)
        if LiveLine.possible(sys.stderr) and not (options.json or self._may_ask(questions)):
            self._table = LiveTable(sys.stderr)
        self._progress = Progress(len(tasks), self._table.say)
        fleet = self._fleet(questions)
        self._running = fleet.map(tasks)
        if options.engine == "local":
            adopt_orphans(loop)
        drawing = loop.create_task(self._draw())
        try:
            async with self._running as outcomes:
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    loop.add_signal_handler(number, self._signalled, number)
                async for outcome in outcomes:
                    self._ended(outcome)
        finally:
            drawing.cancel()
            if not options.json:
                self._table.draw(self._progress, last=True)
        return self._code(self._running)

    def _tasks(self, questions: FleetQuestions | None) -> list[Task]:
        """Raises TaskFileError."""
        path = self._options.tasks
        ask = None if questions is None else questions.permission
        self._asked_for = False
        if path == "-":
            text = sys.stdin.read()
        else:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or str(error)
                raise TaskFileError(path, (why,)) from error
        tasks, problems = parse_tasks(text, ask=ask)
        if problems and not (self._options.skip_broken and tasks):
            raise TaskFileError(path, (*shown(problems), *self._advice(tasks)))
        for problem in problems:
            self._note(f"left out: {visible(problem)}")
        self._asked_for = any(task.policy not in (None, deny_all) for task in tasks)
        return tasks

    @staticmethod
    def _advice(tasks: list[Task]) -> tuple[str, ...]:
        return ("--skip-broken runs the rest",) if tasks else ()

    def _may_ask(self, questions: FleetQuestions | None) -> bool:
        return questions is not None and (self._options.policy == "ask" or self._asked_for)

    def _fleet(self, questions: FleetQuestions | None) -> Fleet:
        options = self._options
        more: dict[str, Any] = {}
        policy: Any = deny_all
        if questions is not None and self._may_ask(questions):
            more = {"on_form": questions.form, "on_url": questions.url}
            if options.policy == "ask":
                policy = questions.permission
        if options.allow:
            kinds: Any = options.allow
            policy = allow_kinds(*kinds, otherwise=policy)
        if options.task_time_limit is not None:
            more["task_time_limit"] = options.task_time_limit
        return Fleet(
            _engine(options),
            out=options.out,
            resume=options.resume,
            concurrency=options.concurrency,
            permissions=policy,
            max_tokens=options.max_tokens,
            time_limit=options.time_limit,
            retries=Retries(options.attempts),
            on_event=self._happened,
            **more,
        )

    def _happened(self, task_id: str, event: Any) -> None:
        if not self._options.json:
            self._progress.take(task_id, event)

    def _ended(self, outcome: Outcome) -> None:
        self._progress.ended(outcome)
        if self._options.json:
            if not outcome.earlier:
                print(json.dumps(outcome_json(outcome)), file=self._out, flush=True)
        elif not outcome.earlier:
            self._table.print(self._out, outcome_line(outcome))

    def _note(self, text: str) -> None:
        if not self._options.json:
            self._screen.note(text)

    async def _draw(self) -> None:
        while not self._options.json:
            self._table.draw(self._progress)
            await asyncio.sleep(TABLE_SECONDS)

    def _code(self, running: FleetRun) -> int:
        if running.left:
            reason = running.stopped or "it was stopped"
            if self._options.json:
                stopped = {"type": "stopped", "reason": reason, "left": running.left}
                print(json.dumps(stopped), file=self._out, flush=True)
            else:
                count = len(running.left)
                self._note(f"{count} tasks are left, since {reason}; --resume goes on with them")
            return LEFT if self._signal is None else SIGNALLED + self._signal
        return FAILED if self._progress.failed else 0

    def _signalled(self, number: int) -> None:
        """The first ends all tasks in good order; the second at once."""
        if self._signal is not None:
            os._exit(SIGNALLED + number)
        self._signal = number
        if self._running is not None:
            self._running.stop("it was interrupted")
        self._note("ending what runs; once more ends it at once")


def _engine(options: FleetOptions) -> LocalEngine | RayEngine:
    if options.engine == "local":
        if options.address is not None:
            raise MisuseError("--address is of a cluster; add --engine ray")
        return LocalEngine()
    return RayEngine(
        options.address,
        num_cpus=options.num_cpus,
        memory=options.memory,
        resources=dict(options.resources),
    )


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The line of ``--json``."""
    output: Any = outcome.output  # of a task file it is plain JSON
    members = outcome.to_json(output)
    path = None if outcome.path is None else str(outcome.path)
    return {"type": "result", **members, "path": path}


def _is_a_terminal() -> bool:
    with suppress(AttributeError, ValueError):  # there is none, or it is closed
        return sys.stdin.isatty() and sys.stderr.isatty()
    return False


def _told(error: Exception, code: int) -> int:
    print(f"{PROGRAM}: error: {visible(str(error))}", file=sys.stderr)
    return code
