"""Shows a running fleet on stderr: a live table in a terminal, elsewhere a line a change.

Owns what of an event a person wants to see. Words of others are made visible first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from codex_acp.cli.screen.live import clipped
from codex_acp.cli.terminal import size_of
from codex_acp.fleet.changes import NOT_A_REPOSITORY
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

    from codex_acp.fleet import Outcome

SHOWN_TITLE: Final = 60

REDRAW_SECONDS: Final = 0.2

NAME_COLUMNS: Final = 28


@dataclass(slots=True)
class _Row:
    """A task that runs."""

    since: float
    state: str = "starting"
    tokens: int = 0
    worker: str = ""


@dataclass(slots=True)
class Progress:
    """The state of all tasks, from their events; ``say`` hears of each change in words."""

    total: int
    say: Callable[[str, str], None]
    clock: Callable[[], float] = time.monotonic
    rows: dict[str, _Row] = field(default_factory=dict)
    completed: int = 0
    failed: int = 0
    earlier: int = 0
    tokens: int = 0

    def take(self, task_id: str, event: Mapping[str, Any]) -> None:
        """Something happened to a task."""
        kind = event.get("type")
        if kind == "worker":
            row = self.rows[task_id] = _Row(self.clock(), worker=visible(str(event["worker"])))
            self._is(task_id, f"started on {row.worker}")
            return
        found = self.rows.get(task_id)
        if found is None:
            return
        match kind:
            case "opened" if event.get("how") != "new":
                self._is(task_id, "goes on with its session")
            case "opened" if event.get("reason"):
                self._is(task_id, f"a new session, since {visible(str(event['reason']))}")
            case "prompt":
                found.state = f"prompt {int(event['number']) + 1}"
            case "tool":
                found.state = shortened(visible(str(event["title"])), SHOWN_TITLE)
            case "usage":
                found.tokens = int(event["tokens"])
            case "question":
                self._is(task_id, f"asks ({visible(str(event['kind']))})")
            case "answered":
                found.state = "goes on"
            case "retry":
                why = f"{event['reason']}; again in {float(event['seconds']):.0f} s"
                self._is(task_id, why)

    def ended(self, outcome: Outcome) -> None:
        """It has its outcome."""
        self.rows.pop(outcome.id, None)
        self.earlier += outcome.earlier
        self.completed += outcome.ok
        self.failed += not outcome.ok
        self.tokens += outcome.usage.total

    def summary(self) -> str:
        """All in one line."""
        left = self.total - self.completed - self.failed
        running = len(self.rows)
        tokens = self.tokens + sum(row.tokens for row in self.rows.values())
        parts = [f"{self.completed} of {self.total} completed", f"{self.failed} failed"]
        parts += [f"{running} running", f"{left - running} to come", f"{tokens} tokens"]
        return ", ".join(parts) + (f" ({self.earlier} before)" if self.earlier else "")

    def _is(self, task_id: str, state: str) -> None:
        self.rows[task_id].state = state
        self.say(task_id, state)


def outcome_line(outcome: Outcome) -> str:
    """An outcome for a person."""
    seconds = sum(attempt.seconds for attempt in outcome.attempts)
    told = [f"{seconds:.1f} s", f"{outcome.usage.total} tokens"]
    if len(outcome.attempts) > 1:
        told.append(f"{len(outcome.attempts)} attempts")
    why = "" if outcome.ok else f" {outcome.reason}"
    said = outcome.message if not outcome.ok else outcome.changes_note
    more = ""
    if said and said != NOT_A_REPOSITORY:
        more = f": {shortened(visible(' '.join(said.split())), 300)}"
    return f"{visible(outcome.id)}: {outcome.status}{why} ({', '.join(told)}){more}"


class Lines:
    """A line for each change."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def say(self, task_id: str, text: str) -> None:
        """Something changed."""
        self._write(f"{visible(task_id)}: {text}")

    def draw(self, progress: Progress, *, last: bool = False) -> None:
        """At the end the counts."""
        if last:
            self._write(progress.summary())

    def print(self, stream: TextIO, text: str) -> None:
        """A line of the result."""
        stream.write(f"{text}\n")
        stream.flush()


class LiveTable:
    """The tasks that run, drawn over and over below what is printed."""

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._drawn = 0
        self._last = 0.0

    def say(self, task_id: str, text: str) -> None:
        """The table shows it."""

    def draw(self, progress: Progress, *, last: bool = False) -> None:
        """Not more often than somebody sees."""
        now = progress.clock()
        if not last and now - self._last < REDRAW_SECONDS:
            return
        self._last = now
        size = size_of(self._screen)
        width = max(size.columns - 1, 20)
        lines = [progress.summary()]
        if not last:
            room = max(size.lines - 3, 1)
            lines += [_drawn(name, row, now) for name, row in list(progress.rows.items())[:room]]
        self._wipe()
        self._screen.write("".join(f"{clipped(line, width)}\n" for line in lines))
        self._screen.flush()
        self._drawn = 0 if last else len(lines)

    def print(self, stream: TextIO, text: str) -> None:
        """Above the table."""
        self._wipe()
        self._screen.flush()
        stream.write(f"{text}\n")
        stream.flush()
        self._last = 0.0

    def _wipe(self) -> None:
        if self._drawn:
            self._screen.write(f"\x1b[{self._drawn}A\x1b[J")
        self._drawn = 0


def _drawn(task_id: str, row: _Row, now: float) -> str:
    name = shortened(visible(task_id), NAME_COLUMNS)
    return f"  {name:{NAME_COLUMNS}} {now - row.since:6.0f} s {row.tokens:8}  {row.state}"
