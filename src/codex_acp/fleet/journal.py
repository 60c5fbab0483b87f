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

from codex_acp.fleet.errors import OutcomeNotWritten
from codex_acp.fleet.outcome import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(slots=True)
class History:
    """What is known of one task."""

    attempts: list[Attempt] = field(default_factory=list)
    session_id: str | None = None
    """Of the last attempt that had one."""
    first_prompt: int = 0
    """The first prompt that was not finished in that session."""
    begun: bool = False
    """Whether it was sent."""


class Journal:
    """Appends to ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                os.write(self._fd, b"\n")
        except OSError as error:
            raise _unwritten(path, error) from error

    def note(self, kind: str, **members: object) -> None:
        """Raises OutcomeNotWritten: what cannot be noted must not be begun."""
        line = json.dumps({"time": now(), "type": kind, **members}, default=str) + "\n"
        data = line.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise _unwritten(self._path, error) from error

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
        content = path.read_bytes()
    except FileNotFoundError:
        return
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
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
            _take(history, str(kind), line)
    return list(ids), found


def _take(history: History, kind: str, line: dict[str, Any]) -> None:
    """One line of the last attempt."""
    last = history.attempts[-1]
    if kind == "opened" and isinstance(line.get("sessionId"), str):
        resumed = line.get("how") != "new"
        if not resumed:
            history.first_prompt, history.begun = 0, False
        history.session_id = line["sessionId"]
        history.attempts[-1] = replace(last, session_id=line["sessionId"], resumed=resumed)
    elif kind == "worker":
        history.attempts[-1] = replace(last, worker=line.get("worker"))
    elif kind in ("prompt", "prompt_ended") and isinstance(line.get("number"), int):
        ended = kind == "prompt_ended"
        history.first_prompt, history.begun = line["number"] + ended, not ended
    elif kind == "attempt_ended":
        told: Any = {name: line.get(name) for name in ("reason", "message", "seconds")}
        history.attempts[-1] = replace(last, **told)
