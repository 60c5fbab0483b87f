"""Read files of tasks, with one task as a JSON object on each line; empty lines are skipped.

The keys are the fields of `Task`: ``prompt`` is a text or a list of texts, ``output`` a JSON
Schema, ``policy`` is ``"deny_all"``, ``"ask"`` or ``{"allow": [kinds], "otherwise": policy}``. The
key ``command`` replaces ``agent`` and starts any agent.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from codex_acp._files import absolute
from codex_acp._json import without_none
from codex_acp.acp.types import ToolKind
from codex_acp.errors import MisuseError
from codex_acp.fleet.errors import TaskFileError
from codex_acp.fleet.task import OutputCheck, Task, file_name
from codex_acp.runtime import AgentSpec, allow_kinds, reject_all

if TYPE_CHECKING:
    import os

    from codex_acp.fleet.questions import FleetPolicy

KEYS: Final = (
    "id", "prompt", "cwd", "repository", "revision", "agent", "command", "model", "mode", "effort",
    "options", "policy", "output", "time_limit", "max_tokens",
)  # fmt: skip

_MOST_SHOWN: Final = 20
"""Problems of one file that an error lists: a file that has no tasks has one on each line."""


class _InvalidLine(Exception):
    """A line is no task; the message says why."""


def read_tasks(
    path: str | os.PathLike[str], *, skip_broken: bool = False, ask: FleetPolicy | None = None
) -> list[Task]:
    """Return the tasks of a file; ``ask`` is the policy of tasks with the policy "ask".

    Raises TaskFileError with the lines that are no tasks; ``skip_broken`` skips these lines.
    """
    tasks, problems = parse_tasks(read_bytes(path), ask=ask)
    if problems and not skip_broken:
        raise TaskFileError(str(path), shown(problems))
    return tasks


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a task file. Raises TaskFileError."""
    file = Path(absolute("a file of tasks", path))
    try:
        return file.read_bytes()
    except OSError as error:
        raise TaskFileError(str(path), (error.strerror or str(error),)) from error


def shown(problems: list[str]) -> tuple[str, ...]:
    """Return the first problems; with a hint if some line is no JSON object."""
    texts = problems[:_MOST_SHOWN]
    if len(problems) > _MOST_SHOWN:
        texts.append(f"and {len(problems) - _MOST_SHOWN} more")
    if any(": it is not " in problem for problem in problems):  # those of `_parse_object`
        texts.append("each line is a whole task, as a JSON object")
    return tuple(texts)


def parse_tasks(data: bytes, *, ask: FleetPolicy | None = None) -> tuple[list[Task], list[str]]:
    """Return the tasks, and a sentence for each line that is no task."""
    tasks: list[Task] = []
    problems: list[str] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            task = _parse_task(line, ask)
            folded = file_name(task.id).casefold()
            if folded in line_of:
                is_equal = any(other.id == task.id for other in tasks)
                but = "" if is_equal else ", but for its case"
                raise _InvalidLine(f"the id {task.id!r} is that of line {line_of[folded]}{but}")
            line_of[folded] = number
            tasks.append(task)
        except (_InvalidLine, MisuseError) as error:
            problems.append(f"line {number}: {error}")
    if not tasks and not problems:
        problems.append("it holds no task")
    return tasks, problems


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        members: Any = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise _InvalidLine(f"it is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise _InvalidLine(f"it is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise _InvalidLine(f"it is not JSON: {error}") from None
    if not isinstance(members, dict):
        raise _InvalidLine("it is not an object")
    return members


def _parse_task(line: bytes, ask: FleetPolicy | None) -> Task:
    members = _parse_object(line)
    for key in members:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KEYS)}"
            raise _InvalidLine(f"there is no key {key!r}; {hint}")
    fields = without_none(members)
    for name in ("id", "prompt"):
        if name not in fields:
            raise _InvalidLine(f"it has no {name!r}")
    if not isinstance(fields.get("output", {}), dict):
        raise _InvalidLine("'output' is a JSON Schema, an object")
    if (command := fields.pop("command", None)) is not None:
        if "agent" in fields:
            raise _InvalidLine("it has both 'agent' and 'command'; give one of them")
        fields["agent"] = AgentSpec.parse(command)
    if "policy" in fields:
        fields["policy"] = _parse_policy(fields["policy"], ask)
    task = Task(**fields)
    if task.output is not None:
        OutputCheck(task.output)  # finds an invalid schema before any task runs
    return task


def _parse_policy(value: Any, ask: FleetPolicy | None) -> FleetPolicy:
    if isinstance(value, dict):
        if unknown := sorted(value.keys() - {"allow", "otherwise"}):
            raise _InvalidLine(f"a policy has 'allow' and 'otherwise', and no {unknown[0]!r}")
        kinds = value.get("allow")
        if not isinstance(kinds, list) or not all(kind in get_args(ToolKind) for kind in kinds):
            raise _InvalidLine(f"'allow' is a list of kinds: {', '.join(get_args(ToolKind))}")
        otherwise: Any = _parse_policy(value.get("otherwise", "deny_all"), ask)
        return allow_kinds(*kinds, otherwise=otherwise)
    if value == "deny_all":
        return reject_all
    if value == "ask":
        if ask is None:
            raise _InvalidLine(
                "the policy 'ask' needs a terminal; there is none, or --json was given"
            )
        return ask
    raise _InvalidLine(f"the policy {value!r} is not known; use 'deny_all', 'ask' or an object")
