"""The journal of a fleet: what was begun, so that a later run knows what an earlier one left.

A line is written before what it tells of happens. Owns the file and what its lines mean together;
a line that was cut off by a crash is left out.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from codex_acp._files import append_line, read_regular
from codex_acp._json import text_at
from codex_acp.fleet.errors import OutcomeNotWritten, OutDirectoryError
from codex_acp.fleet.outcome import Attempt, Outcome
from codex_acp.fleet.private_files import MOST_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(slots=True)
class History:
    """Attempts and outcome of one task."""

    attempts: list[Attempt] = field(default_factory=list)
    session_id: str | None = None
    """Session id of the last attempt that had one."""
    first_prompt: int = 0
    """The first prompt that was not finished in that session."""
    begun: bool = False
    """Whether it was sent."""

    def retry(self, outcome: Outcome, *, goes_on: bool) -> None:
        """Count the attempts of a failed outcome as made; unless the next one ``goes_on`` with
        their session, it begins with the first prompt in a new one."""
        self.attempts = list(outcome.attempts)
        if not goes_on:
            self.session_id, self.first_prompt, self.begun = None, 0, False

    def take(self, event: Mapping[str, Any]) -> None:
        """Something has happened in the last attempt: as a worker tells it, or as a line has it."""
        last = self.attempts[-1]
        match event:
            case {"type": "worker", "worker": str(worker)}:
                self.attempts[-1] = replace(last, worker=worker)
            case {"type": "opened", "sessionId": str(session_id), "how": how}:
                if how == "new":
                    self.first_prompt, self.begun = 0, False
                self.session_id = session_id
                self.attempts[-1] = replace(last, session_id=session_id, resumed=how != "new")
            case {"type": "prompt", "number": int(number)}:
                self.first_prompt, self.begun = number, True
            case {"type": "prompt_ended", "number": int(number)}:
                self.first_prompt, self.begun = number + 1, False
            case {"type": "attempt_ended", "reason": str(reason), "seconds": int() | float()}:
                message = text_at(event, "message")
                seconds = float(event["seconds"])
                self.attempts[-1] = replace(last, reason=reason, message=message, seconds=seconds)


class Journal:
    """Appends to ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise _unwritten(path, error) from error

    def note(self, kind: str, **members: object) -> str:
        """Write a line; return its time. Raises OutcomeNotWritten: then it must not be begun."""
        time = now()
        line = json.dumps({"time": time, "type": kind, **members}, default=str) + "\n"
        try:
            append_line(self._fd, line.encode("utf-8", "replace"))
        except OSError as error:
            raise _unwritten(self._path, error) from error
        return time

    def close(self) -> None:
        """No more."""
        os.close(self._fd)


def _unwritten(path: Path, error: OSError) -> OutcomeNotWritten:
    why = error.strerror or str(error)
    msg = f"{path} cannot be written: {why}; nothing more is run. Mend that, and use --resume"
    return OutcomeNotWritten(msg)


def now() -> str:
    """The time as it is written."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        content = read_regular(path, MOST_READ)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"{path} cannot be read: {why}; without it no run knows what an earlier one left"
        raise OutDirectoryError(msg) from error
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def read_history(path: Path) -> tuple[list[str], dict[str, History]]:
    """The ids of all tasks that a run was given, in order, and the history of those begun."""
    ids: dict[str, None] = {}
    found: dict[str, History] = {}
    for line in _lines(path):
        kind, task_id = line.get("type"), line.get("id")
        if kind == "run" and isinstance(line.get("tasks"), list):
            ids.update(dict.fromkeys(each for each in line["tasks"] if isinstance(each, str)))
        if not isinstance(task_id, str):
            continue
        history = found.setdefault(task_id, History())
        if kind == "attempt":
            started = str(line.get("time"))
            history.attempts.append(Attempt(started=started, reason="interrupted"))
        elif history.attempts:
            history.take(line)
    return list(ids), found
